"""Programs that become the prologue of a product, and those that must not."""

import dataclasses

import numpy as np
import pytest

import needle as ndl
from needle import _native, nn
from needle.compiler.fusion import prologues
from needle.dtype import bfloat16, bool_, float16, int8, int64

from .compiled import kernels, tensor


@pytest.fixture(autouse=True)
def _small_factors(monkeypatch):
    """Factors of any size are joined, so that tests stay quick; on vectors, not on AMX."""
    monkeypatch.setattr(prologues, "MANY_ELEMENTS", 1)
    before = _native.instruction_set()
    if before.endswith("amx"):
        _native.use_instruction_set(before.removesuffix("amx").rstrip("-") or "avx512")
    yield
    _native.use_instruction_set(before)


def test_text():
    scale, w, bias = tensor(6), tensor(6, 12), tensor(12)
    f = ndl.jit(lambda x: (x * scale).relu() @ w + bias)
    f(tensor(40, 6))
    assert (
        str(f.graph["prologues"])
        == """\
%0: float32[240] input
%1: float32[6] state
%4: float32[72] state
%6: float32[12] state
%7: float32[40, 12] = matmul_of fused(%0, %1, %4, %6)
  %0 = load 0                full float32
  %1 = load 1                full float32
  %2 = multiply %0, %1       full float32
  %3 = relu %2               full float32
  store 0, %3                full float32
  then fused
  %0 = load 0                full float32
  %1 = load 1                full float32
  %2 = add %0, %1            full float32
  store 0, %2                full float32
return %7"""
    )
    (kernel,) = f.kernels
    assert kernel.name == "matmul_of fused"
    assert kernel.flops == 2 * 40 * 6 * 12
    assert kernel.bytes == 4 * (40 * 6 + 6 + 6 * 12 + 12 + 40 * 12)
    assert kernel.text.count("store 0") == 2


ROW, MATRIX, COLUMN = tensor(6), tensor(40, 6), tensor(40, 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x.relu() @ w,  # one call alone
        lambda x, w: (x * ROW) @ w,
        lambda x, w: (x + MATRIX) @ w,
        lambda x, w: (x * COLUMN) @ w,
        lambda x, w: nn.functional.gelu(x) @ w,
        lambda x, w: (x.reshape(5, 8, 6).tanh() * 2.0).reshape(40, 6) @ w,  # other axes
        lambda x, w: (x.reshape(5, 8, 6) * 2.0) @ w,
        lambda x, w: (x.astype(bool_)).astype("float32") @ w,
        lambda x, w: (x * 2.0) @ w.transpose().reshape(6, 12),
    ],
)
def test_becomes_a_prologue(function):
    assert kernels(function, tensor(40, 6), tensor(6, 12))[-1] == "matmul_of"


@pytest.mark.parametrize("dtype", [bfloat16, float16, int8, int64, bool_])
def test_casts(dtype):
    w, x = tensor(6, 12), (tensor(40, 6) * 10.0).astype(dtype)
    assert kernels(lambda x: x.astype("float32") @ w, x) == ["matmul_of"]


def test_mlp():
    """Biases and relus belong to the product before; what takes longer, to the one after."""
    model = nn.Sequential(nn.Linear(9, 40), nn.GELU(), nn.Linear(40, 30), nn.ReLU(),
                          nn.Linear(30, 12)).eval()  # fmt: skip
    assert kernels(lambda x: model(x), tensor(50, 9)) == ["matmul", "matmul_of", "matmul_then"]


@pytest.mark.parametrize("bias", [False, True])
def test_convolutions_of_one_tap(bias):
    """Batch norm and relu before a convolution, as in networks of the second ResNet's kind."""
    norm, conv = nn.BatchNorm2d(6), nn.Conv2d(6, 12, 1, bias=bias)
    norm(tensor(4, 6, 5, 5))  # statistics
    norm.eval()
    first = nn.Conv2d(3, 6, 3)
    made = kernels(lambda x: conv(norm(first(x)).relu()), tensor(2, 3, 9, 9))
    assert made[-1] == "matmul_of"


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(6, 12, 3, padding=1),
        nn.Conv2d(6, 12, 1, stride=2),
        nn.Conv2d(6, 12, 1, padding=1),
        nn.Conv2d(6, 12, 1, groups=2),
    ],
)
def test_other_convolutions_store_their_input(conv):
    first = nn.Conv2d(3, 6, 3)
    assert "matmul_of" not in kernels(lambda x: conv(first(x).tanh()), tensor(2, 3, 9, 9))


@pytest.mark.parametrize("channels", [1, 100, prologues.MOST_CHANNELS])
@pytest.mark.parametrize("features", [9, 64, 200, 512])
def test_a_convolution_of_one_tap_is_a_product(channels, features):
    """In every bit, as long as products do not cut the sum."""
    x, w = tensor(3, 13, 11, channels), tensor(1, 1, channels, features)
    y, product = ndl.zeros(3, 13, 11, features), ndl.zeros(3 * 13 * 11, features)
    mod, arrays = ndl.cpu().mod, [t.cached_data for t in (x, w, y, product)]
    mod.conv(arrays[2], *arrays[:2], (1, 1), (0, 0), (1, 1), 1)
    factors = [t.reshape(-1, t.shape[-1]).cached_data for t in (x, w)]
    mod.matmul(arrays[3], *factors)
    np.testing.assert_array_equal(y.numpy().reshape(-1, features), product.numpy())


def test_many_channels_are_stored():
    first, conv = nn.Conv2d(3, 257, 1), nn.Conv2d(257, 12, 1)
    assert "matmul_of" not in kernels(lambda x: conv(first(x).tanh()), tensor(2, 3, 9, 9))


def test_a_factor_that_others_read_is_stored():
    w, v = tensor(6, 12), tensor(6, 14)
    assert "matmul_of" not in kernels(lambda x: ((y := x.relu()), y @ w), tensor(40, 6))
    assert "matmul_of" not in kernels(lambda x: ((y := x.relu()) @ w, y @ v), tensor(40, 6))
    square = tensor(40, 40)
    assert "matmul_of" not in kernels(lambda x: (y := x.relu()) @ y, square)


def test_what_is_written_before_the_product_is_not_read_after():
    w = tensor(6, 12)

    def f(x):
        y = x * 2.0
        x[0] = 1.0
        return y @ w

    x = tensor(40, 6)
    expected = (x * 2.0) @ w
    np.testing.assert_array_equal(ndl.jit(f)(x).numpy(), expected.numpy())


def test_rows_transposes_and_batches_stay_programs():
    w = tensor(6, 12)
    softmax = lambda x: nn.functional.softmax(x, -1) @ w  # noqa: E731
    assert kernels(softmax, tensor(40, 6)) == ["run", "matmul"]
    assert kernels(lambda x: x.relu().transpose() @ w, tensor(6, 40)) == ["relu", "matmul"]
    turned = lambda x: (x.transpose() * 2.0).relu() @ w  # noqa: E731
    assert "matmul_of" not in kernels(turned, tensor(6, 40))
    assert "matmul_of" not in kernels(lambda x: x.relu() @ tensor_of_ones(3, 6, 12), tensor(40, 6))
    doubles = ndl.tensor(np.ones((6, 12)))
    assert "matmul_of" not in kernels(lambda x: x.relu() @ doubles, ndl.tensor(np.ones((40, 6))))


def tensor_of_ones(*shape):
    return ndl.tensor(np.ones(shape, np.float32))


@pytest.mark.parametrize(
    ("shape", "columns", "is_joined"),
    [
        ((1 << 16, 64), 9, True),
        ((1 << 16, 64), 8, False),
        ((1 << 16, 63), 9, False),  # fewer elements
        ((1 << 11, 2048), 12, True),
        ((1 << 11, 2049), 12, False),  # longer rows
    ],
)
def test_sizes(monkeypatch, shape, columns, is_joined):
    monkeypatch.undo()
    x, w = (ndl.zeros(*s) for s in (shape, (shape[1], columns)))
    f = ndl.jit(lambda x, w: x.relu() @ w)
    f(x, w)
    assert (f.kernels[-1].name.split()[0] == "matmul_of") == is_joined


def test_not_for_tiles_of_amx(monkeypatch):
    offers = dataclasses.replace(ndl.cpu().offers, prologues=lambda: False)  # as where AMX is used
    monkeypatch.setattr(ndl.cpu(), "offers", offers)
    w = tensor(6, 12)
    assert kernels(lambda x: x.relu() @ w, tensor(40, 6)) == ["relu", "matmul"]


def test_training_step():
    model = nn.Sequential(nn.Linear(9, 16), nn.GELU(), nn.Linear(16, 12))
    x = tensor(40, 9)

    def step(x):
        for p in model.parameters():
            p.grad = None
        loss = (model(x * 2.0) ** 2).mean()
        loss.backward(create_graph=False)
        return (loss, *(p.grad for p in model.parameters()))

    expected = [t.numpy() for t in step(x)]
    compiled = ndl.jit(step)
    for ours, theirs in zip(compiled(x), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-6)


def test_in_the_body_of_a_loop():
    w = tensor(12, 12)

    def f(h, xs):
        return ndl.scan(lambda h, x: ((h * x).tanh() @ w, h), h, xs)

    h, xs = tensor(40, 12), tensor(5, 12)
    for ours, theirs in zip(ndl.jit(f)(h, xs), f(h, xs), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("suffix", ["needle", "c"])
def test_export(tmp_path, suffix):
    """A file has the call; C is written from what was fused before."""
    w, bias = tensor(6, 12), tensor(12)
    f = lambda x: (x * 2.0).tanh() @ w + bias  # noqa: E731
    x, path = tensor(40, 6), tmp_path / f"model.{suffix}"
    ndl.export(f, x, path=str(path))
    if suffix == "needle":
        loaded = ndl.load_exported(str(path))
        np.testing.assert_array_equal(loaded(x).numpy(), ndl.jit(f)(x).numpy())
        assert b"matmul_of" in path.read_bytes()
    else:
        assert "matmul_of" not in path.read_text()


def test_other_sizes():
    w = tensor(6, 12)
    f = ndl.jit(lambda x: (x * 2.0).tanh() @ w, dynamic=0)
    for rows in (40, 50, 60, 70):
        x = tensor(rows, 6)
        np.testing.assert_array_equal(f(x).numpy(), ((x * 2.0).tanh() @ w).numpy())
    assert f.cache_info().resized > 0


def test_random_numbers_are_drawn_before_the_product():
    """A block of the factor does not know its place in the stream."""
    w = tensor(6, 12)
    ndl.manual_seed(3)
    f = ndl.jit(lambda x: nn.functional.dropout(x, 0.5) @ w)
    ours = f(x := tensor(40, 6)).numpy()
    assert "matmul_of" not in [k.name.split()[0] for k in f.kernels]
    ndl.manual_seed(3)
    np.testing.assert_array_equal(ours, (nn.functional.dropout(x, 0.5) @ w).numpy())
