"""Exported programs: files that run without Python source, and standalone C."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from needle.models import GPT

import needle as ndl
from needle import nn
from needle.backend import c_build
from needle.io import safetensors

rng = np.random.default_rng(0)


def mlp():
    model = nn.Sequential(nn.Linear(20, 33), nn.GELU(), nn.LayerNorm1d(33), nn.Linear(33, 7),
                          nn.Softmax())  # fmt: skip
    return model, rng.standard_normal((6, 20)).astype("f4")


def int8():
    model, x = mlp()
    return nn.quantize(model, "int8"), x


def bfloat16():
    model, x = mlp()
    return nn.quantize(model, "bfloat16"), x


def cnn():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, stride=2, groups=2), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(12, 10),
    )  # fmt: skip
    return model, rng.standard_normal((2, 3, 14, 14)).astype("f4")


def gpt():
    model = GPT(vocabulary=31, block=12, layers=2, heads=2, width=32)
    return model, rng.integers(0, 31, (2, 9))


class Recurrent(nn.Module):
    """A recurrent layer over embedded words, and a decision from its last output."""

    def __init__(self, layer):
        super().__init__()
        self.words = nn.Embedding(31, 6)
        self.layer = layer
        self.last = nn.Linear(10, 4)

    def forward(self, x):
        return self.last(self.layer(self.words(x))[0][-1])


def lstm():
    return Recurrent(nn.LSTM(6, 10, num_layers=2)), rng.integers(0, 31, (7, 3))


def gru():
    return Recurrent(nn.GRU(6, 10)), rng.integers(0, 31, (7, 3))


def rnn():
    return Recurrent(nn.RNN(6, 10, nonlinearity="relu")), rng.integers(0, 31, (7, 3))


class Smoothed(nn.Module):
    """y_t = y_t-1 + w (x_t - y_t-1), backwards in time, inside of another loop over rows"""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(ndl.tensor(rng.uniform(0, 1, 5).astype("f4")))

    def forward(self, x):
        def row(total, element):
            def step(y, x):
                y = y + self.weight * (x - y)
                return y, y.tanh()

            last, ys = ndl.scan(step, ndl.zeros(5), element, reverse=True)
            return total + last, ys + total

        total, ys = ndl.scan(row, ndl.ones(5), x)
        return ys * total


class Until(nn.Module):
    """Doubled by rows until it is large, after none, an odd and an even number of steps."""

    def forward(self, x):
        rows = []
        for limit in (-1.0, 60.0, 1000.0):
            y, last = x.abs() + 1, x
            while y.sum() < limit:
                last = y
                y = y * 2
            rows.append(y + last)
        return ndl.stack(rows)


def until():
    return Until(), rng.uniform(0, 0.1, (8, 5)).astype("f4")


def loops():
    return Smoothed(), rng.standard_normal((3, 6, 5)).astype("f4")


MODELS = {
    "mlp": mlp, "cnn": cnn, "gpt": gpt, "lstm": lstm, "gru": gru, "rnn": rnn, "loops": loops,
    "int8": int8, "bfloat16": bfloat16, "until": until,
}  # fmt: skip


@pytest.fixture(params=MODELS)
def model(request):
    ndl.manual_seed(0)
    made, x = MODELS[request.param]()
    made.eval()
    return made, x


def test_files_run_the_same_program(model, tmp_path):
    net, x = model
    compiled = ndl.jit(lambda x: net(x))
    expected = compiled(ndl.tensor(x)).numpy()
    ndl.export(compiled, ndl.tensor(x), path=tmp_path / "model.needle")
    loaded = ndl.load_exported(tmp_path / "model.needle")
    for _ in range(2):
        np.testing.assert_array_equal(loaded(ndl.tensor(x)).numpy(), expected)
    np.testing.assert_array_equal(loaded(x).numpy(), expected)


def test_a_file_is_named_after_the_function(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @ndl.jit
    def step(x):
        return x * 2

    assert ndl.export(step, ndl.ones(3)) == Path("step.needle")
    assert ndl.load_exported("step.needle")(ndl.ones(3)).tolist() == [2.0] * 3
    assert ndl.export(nn.Linear(3, 2), ndl.ones(1, 3)) == Path("Linear.needle")
    with pytest.raises(ValueError, match=r"\[export\] <lambda> has no name.*path="):
        ndl.export(lambda x: x, ndl.ones(3))


def test_another_process_needs_no_model(model, tmp_path):
    net, x = model
    expected = ndl.jit(lambda x: net(x))(ndl.tensor(x)).numpy()
    ndl.export(lambda x: net(x), ndl.tensor(x), path=tmp_path / "model.needle")
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, numpy as np, needle as ndl; folder = sys.argv[1]\n"
        "y = ndl.load_exported(folder + '/model.needle')(np.load(folder + '/x.npy'))\n"
        "np.save(folder + '/y.npy', y.numpy()); assert 'needle.nn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_arguments_and_results_may_be_nested(tmp_path):
    def f(a, options, *, b):
        return {"sum": a["x"] + b, "more": [a["x"] * options, 3, (b, None)]}

    x, b = ndl.tensor([1.0, 2.0]), ndl.tensor([5.0, 6.0])
    ndl.export(f, {"x": x}, 2, b=b, path=tmp_path / "f.needle")
    out = ndl.load_exported(tmp_path / "f.needle")({"x": x}, 2, b=b)
    assert out["sum"].tolist() == [6.0, 8.0] and out["more"][0].tolist() == [2.0, 4.0]
    assert out["more"][1] == 3 and out["more"][2][0].tolist() == [5.0, 6.0]
    assert isinstance(out["more"][2], tuple) and out["more"][2][1] is None


def test_other_arguments_are_refused(tmp_path):
    ndl.export(lambda x: x * 2, ndl.ones(3, 2), path=tmp_path / "f.needle")
    loaded = ndl.load_exported(tmp_path / "f.needle")
    with pytest.raises(TypeError, match=r"expected arguments .*float32\[3, 2\].*got .*\[4, 2\]"):
        loaded(ndl.ones(4, 2))
    with pytest.raises(TypeError, match="expected arguments"):
        loaded(ndl.ones(3, 2), 5)


def test_the_order_of_names_does_not_matter(tmp_path):
    def f(pair, *, scale, shift):
        return (pair["x"] - pair["y"]) * scale + shift

    x, y = ndl.tensor([1.0, 2.0]), ndl.tensor([5.0, 3.0])
    ndl.export(f, {"x": x, "y": y}, scale=2, shift=x, path=tmp_path / "f.needle")
    loaded = ndl.load_exported(tmp_path / "f.needle")
    assert loaded({"y": y, "x": x}, shift=x, scale=2).tolist() == [-7.0, 0.0]
    with pytest.raises(TypeError, match=r"'shift': float32\[2\]}.* got .*{'scale': 2}"):
        loaded({"x": x, "y": y}, scale=2)


def test_keys_that_no_file_has_are_refused(tmp_path):
    with pytest.raises(TypeError, match="values of type tuple cannot be stored"):
        ndl.export(lambda x: {(1, 2): x}, ndl.ones(2), path=tmp_path / "f.needle")


@pytest.mark.parametrize("name", ["f.needle", "f.c"])
def test_what_is_no_inference_is_refused(tmp_path, name):
    w = ndl.tensor([1.0], requires_grad=True)

    def writes(x):
        w.data = w.detach() + x
        return w * x

    with pytest.raises(TypeError, match="changes the data of a tensor"):
        ndl.export(writes, ndl.ones(1), path=tmp_path / name)

    def writes_in_place(x):
        x[0] = 2.0
        return x

    with pytest.raises(TypeError, match="the function writes into an argument; export inference"):
        ndl.export(writes_in_place, ndl.ones(1), path=tmp_path / name)
    with pytest.raises(TypeError, match="random numbers"):
        ndl.export(lambda x: nn.functional.dropout(x, 0.5), ndl.ones(9), path=tmp_path / name)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "f.needle"
    w = ndl.ones(2, 2)
    ndl.export(lambda x: (x @ w).tanh() * 2, ndl.ones(3, 2), path=path)
    tensors, metadata = safetensors.read(path)
    document = json.loads(metadata["needle.program"])

    def refused(change, tensors=tensors):
        copy = json.loads(json.dumps(document))
        change(copy)
        safetensors.write_file(path, tensors, {"needle.program": json.dumps(copy)})
        with pytest.raises(ValueError, match=r"expected a file that ndl\.export wrote"):
            ndl.load_exported(path)

    refused(lambda d: d.update(version=99))
    refused(lambda d: d["program"]["calls"][0].update(kernel="__class__"))
    refused(lambda d: d["program"]["calls"][0]["outs"][0].update(shape=[300, 200]))
    refused(lambda d: d["program"]["calls"][0]["outs"][0].update(at=-5))
    refused(lambda d: d["program"]["calls"].pop(0))
    refused(lambda d: d["program"]["values"].pop())
    refused(lambda d: d["program"]["programs"][0]["code"][0].__setitem__(0, "system"))
    refused(lambda d: d["program"]["programs"][0]["code"][2].__setitem__(1, [2**64, 0]))
    refused(lambda d: d["arguments"]["tuple"].pop(0))
    refused(lambda d: d.update(arguments=7))
    refused(lambda d: None, tensors={})
    refused(lambda d: d.pop("gives"))


def test_damage_of_any_depth_is_refused(tmp_path):
    text = '{"version": 1, "program": ' + '{"list": [' * 100_000
    safetensors.write_file(tmp_path / "f.needle", {}, {"needle.program": text})
    with pytest.raises(ValueError, match=r"expected a file that ndl\.export wrote"):
        ndl.load_exported(tmp_path / "f.needle")


@pytest.mark.parametrize("steps", [-1, 0, 5, 2**40, 2**70])
def test_loops_of_other_lengths_are_refused(tmp_path, steps):
    path = tmp_path / "f.needle"
    ndl.export(lambda xs: ndl.scan(lambda y, x: (y + x, y), ndl.zeros(2), xs), ndl.ones(4, 2),
               path=path)  # fmt: skip
    tensors, metadata = safetensors.read(path)
    document = json.loads(metadata["needle.program"])
    (loop,) = [c["args"][0]["loop"] for c in document["program"]["calls"] if c["kernel"] == "loop"]
    loop["steps"] = steps
    safetensors.write_file(path, tensors, {"needle.program": json.dumps(document)})
    with pytest.raises(ValueError, match=r"expected a file that ndl\.export wrote"):
        ndl.load_exported(path)


def test_arguments_and_results_that_json_confuses(tmp_path):
    path = tmp_path / "f.needle"
    x = ndl.ones(2)
    ndl.export(lambda d, scale: d["array"] * scale, {"array": x}, float("nan"), path=path)
    assert np.isnan(ndl.load_exported(path)({"array": x}, float("nan")).numpy()).all()
    ndl.export(lambda x, flag: x * 2 if flag is True else x, x, True, path=path)
    assert ndl.load_exported(path)(x, True).tolist() == [2, 2]
    with pytest.raises(TypeError, match="expected arguments"):
        ndl.load_exported(path)(x, 1)
    with pytest.raises(TypeError, match=r"\[export\] values of type set cannot be stored"):
        ndl.export(lambda x: {"x": x, "names": {"a"}}, x, path=path)


def test_numpy_mode_is_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(ndl.config, "BACKEND", "np")
    with pytest.raises(TypeError, match="NEEDLE_BACKEND=np; unset it"):
        ndl.export(lambda x: x, ndl.ones(2), path=tmp_path / "f.needle")


# Standalone C ------------------------------------------------------------------------------------

needs_compiler = pytest.mark.skipif(c_build.compiler() is None, reason="needs a C compiler")
MAIN = """
#include <stdio.h>
#include "model.h"
int main(void) {{
  static {kind} x[{n}];
  static f32 y[{m}];
  if (fread(x, sizeof *x, {n}, stdin) != {n}) return 1;
  model(x, y);
  return fwrite(y, sizeof *y, {m}, stdout) != {m};
}}
"""


def run_c(folder, x, shape):
    """The result of model.c on x; what C leaves undefined ends the program."""
    kind = {"f": "f32", "i": "i64"}[x.dtype.kind]
    (folder / "main.c").write_text(MAIN.format(kind=kind, n=x.size, m=int(np.prod(shape))))
    warnings = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
    checks = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    command = [c_build.compiler(), "-std=c11", "-O2", *warnings, *checks, "model.c", "main.c"]
    subprocess.run([*command, "-lm", "-o", "run"], cwd=folder, check=True)
    out = subprocess.run([folder / "run"], input=x.tobytes(), capture_output=True, check=True)
    return np.frombuffer(out.stdout, np.float32).reshape(shape)


@needs_compiler
def test_standalone_c_computes_the_same(model, tmp_path):
    net, x = model
    expected = net(ndl.tensor(x)).numpy()
    ndl.export(lambda x: net(x), ndl.tensor(x), path=tmp_path / "model.c")
    np.testing.assert_allclose(run_c(tmp_path, x, expected.shape), expected, 1e-4, 1e-5)


CALLS = {
    "reductions": lambda x: ndl.stack([x.sum(1), x.max(1), -(-x).max(1), x.mean(1), x.var(1)], 0),
    "layouts": lambda x: ndl.stack([x.T.reshape((8, 6)), x, ndl.flip(x, 0)], 1).transpose((1, 2)),
    "order": lambda x: ndl.stack([x.argmax(1), x.argmin(1)], 0).astype("float32"),
    "cumsum": lambda x: x.cumsum(1) + (x > 0).astype("float32"),
    "where": lambda x: ndl.where((x > 0) & (x < 1), x.exp(), x.sin().abs() ** 1.5),
    "halves": lambda x: x.astype("bfloat16").astype("float32") + x.astype("float16"),
    "integers": lambda x: (x * 10).astype("int32").astype("float32") // 3,
    "integers that wrap": lambda x: (ndl.cumprod((x * 1e9).astype("int64"), 1) % 7).float(),
    "products that wrap": lambda x: (ndl.prod((x * 1e9).astype("int64"), 1) % 7).float(),
    "integers and True": lambda x: (x.astype("int8") + True).float(),
    "order of integers": lambda x: (x * 9).astype("int32").argmax(1).float(),
    "products": lambda x: (x.reshape((2, 4, 6)) @ x.T.reshape((6, 8))).sum(0),
    "columns": lambda x: (x - x.mean(0)) / (x.var(0) + 1e-5).sqrt(),
    "sort": lambda x: ndl.stack([ndl.sort(x, 0), -ndl.sort(-x, 0), x[ndl.argsort(x[:, 0])]], 0),
    "sort with ties": lambda x: ndl.argsort((x * 2).astype("int32"), 1).astype("float32"),
    "sort backwards": lambda x: ndl.topk((x > 0).astype("float32"), 6, 1)[1].astype("float32"),
    "search": lambda x: ndl.searchsorted(ndl.sort(x.reshape((48,)))[::3], x).astype("float32"),
    "scatter": lambda x: ndl.index_add(x, 0, ndl.tensor([1, 7, 1]), x[:3] * 2),
    "half constants": lambda x: (ndl.full((6,), 0.3, dtype="bfloat16") + x.bfloat16()).float(),
    # Whole numbers, which halves add up without rounding.
    "half products": lambda x: (x.round().bfloat16() @ x.round().half().T.bfloat16()).float(),
    "integer products": lambda x: (x.round().astype("int32") @ x.round().astype("int32").T).float(),
    "half sums": lambda x: x.round().half().sum(axis=0).float(),
    "running half sums": lambda x: x.round().bfloat16().cumsum(1).float(),
    "half convolution": lambda x: ndl.nn.functional.conv1d(
        x.round().bfloat16().reshape((1, 4, 12)), x.round().bfloat16().reshape((4, 4, 3)), padding=1
    ).float(),
    "transposed convolution": lambda x: ndl.nn.functional.conv_transpose1d(
        x.reshape((1, 4, 12)), x.reshape((4, 2, 6))[:, :, :3], stride=2, padding=1, groups=2
    ),
    "interpolation": lambda x: ndl.nn.functional.interpolate(
        x.reshape((1, 2, 4, 6)), size=(9, 5), mode="bilinear"
    ),
    "indexing": lambda x: x[ndl.tensor([3, -1, 0, 3])][:, 1:5:2],
    "fused slices": lambda x: (x.cumsum(0)[1:] * x[:0:-1] + 1).tanh(),
}


@needs_compiler
@pytest.mark.parametrize("name", CALLS)
def test_single_calls_in_c(name, tmp_path):
    x = rng.standard_normal((8, 6)).astype("f4")
    expected = CALLS[name](ndl.tensor(x)).numpy()
    ndl.export(CALLS[name], ndl.tensor(x), path=tmp_path / "model.c")
    np.testing.assert_allclose(run_c(tmp_path, x, expected.shape), expected, 2e-5, 1e-5)


def test_calls_without_c_are_named(tmp_path):
    with pytest.raises(TypeError, match=r"conv_by_weight cannot be written as C.*test_export.py"):
        of_weight = ndl.grad(lambda w, x: nn.functional.conv1d(x, w).sum())
        x = ndl.ones(1, 1, 4)
        ndl.export(lambda x: of_weight(x[:, :, :2], x), x, path=tmp_path / "model.c")
    with pytest.raises(ValueError, match="name of a C function"):
        ndl.export(lambda x: x * 2, ndl.ones(3), path=tmp_path / "my-model.c")


TAKEN = ("int", "main", "exp", "powf", "f32", "arena", "add_f32", "EACH", "round", "fmal", "memset",
         "abs", "CHOOSE", "int8_t")  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_names_that_c_has_already(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name} has another meaning in C"):
        ndl.export(lambda x: x * 2, ndl.ones(3), path=tmp_path / f"{name}.c")


@needs_compiler
def test_weights_have_names_of_their_own(tmp_path):
    w = ndl.tensor([1.0, 2.0])
    for name in ("w0", "w1", "w2"):
        ndl.export(lambda x: x * w, ndl.ones(2), path=tmp_path / f"{name}.c")
        command = [c_build.compiler(), "-std=c11", "-c", f"{name}.c"]
        subprocess.run(command, cwd=tmp_path, check=True)


def written_at(x, index):
    y = x * 1
    y[index] = x[0] - x[1]
    return y


WEIGHT = ndl.ones(6)


def sum_so_far(y, x):
    _ = y * WEIGHT  # is not needed
    return y + x, y + x


EDGES = {
    "one row written": lambda x: written_at(x, ndl.tensor(-2)),
    "no row written": lambda x: written_at(x, ndl.tensor([], dtype="int64")),
    "nothing between": lambda x: (x[:0] * 2).sum(0) + x,
    "nothing sorted": lambda x: ndl.sort(x[:0], 0).sum(0) + x,
    "nothing attended": lambda x: nn.functional.scaled_dot_product_attention(
        x.reshape((1, 8, 6)), x[:0].reshape((1, 0, 6)), x[:0].reshape((1, 0, 6))
    ),
    "weight unused": lambda x: ndl.scan(sum_so_far, ndl.zeros(6), x)[1],
    "argument unused": lambda x: ndl.ones(5) * 0.5,
    "extreme integers": lambda x: ndl.maximum(
        (x * 2).astype("int64"), ndl.tensor([-(2**63), 0, 2**62, 1, -5, 2])
    ).float(),
    "a loop with a condition": lambda x: ndl.while_loop(
        lambda y: y.sum() < 1000, lambda y: y * 2, x.abs() + 1, max_steps=9
    ),
}


@needs_compiler
@pytest.mark.parametrize("name", EDGES)
def test_edges_in_c(name, tmp_path):
    x = rng.standard_normal((8, 6)).astype("f4")
    expected = EDGES[name](ndl.tensor(x)).numpy()
    ndl.export(EDGES[name], ndl.tensor(x), path=tmp_path / "model.c")
    np.testing.assert_allclose(run_c(tmp_path, x, expected.shape), expected, 2e-5, 1e-5)
