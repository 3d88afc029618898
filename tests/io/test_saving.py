"""save, load and checkpoints: round trips, damaged files, never half a file."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from hypothesis import given, strategies as st

import needle as ndl
from needle import nn, optim
from needle.dtype import DTYPES
from needle.io import safetensors

plain = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False)
leaves = plain | st.text(max_size=5)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        | st.dictionaries(st.integers(0, 9), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


@given(trees)
def test_plain_values_come_back_as_they_were(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("save") / "x.ndl"
    ndl.save(tree, path)
    assert ndl.load(path) == tree


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_tensors_of_every_dtype_bit_for_bit(tmp_path, dtype, shape):
    values = np.random.default_rng(0).integers(0, 2, shape)
    saved = ndl.tensor(values, dtype=dtype)
    ndl.save({"x": saved, "more": [saved.T if saved.ndim == 2 else saved]}, tmp_path / "x")
    loaded = ndl.load(tmp_path / "x")
    assert loaded["x"].dtype == dtype and loaded["x"].shape == shape
    np.testing.assert_array_equal(loaded["x"].numpy(), saved.numpy())
    if saved.ndim == 2:
        np.testing.assert_array_equal(loaded["more"][0].numpy(), saved.numpy().T)


def test_a_state_dict_is_an_ordinary_safetensors_file(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    model = nn.Linear(3, 2)
    ndl.save(model.state_dict(), tmp_path / "model.safetensors")
    theirs = library.load_file(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(theirs["weight"], model.weight.numpy())


def test_equal_paths_are_different_tensors(tmp_path):
    tree = {"a.b": ndl.ones(1), "a": {"b": ndl.zeros(1)}, "": {"a": ndl.full((1,), 2.0)}}
    tree["__metadata__"] = ndl.full((1,), 3.0)
    ndl.save(tree, tmp_path / "x")
    loaded = ndl.load(tmp_path / "x")
    found = [loaded["a.b"], loaded["a"]["b"], loaded[""]["a"], loaded["__metadata__"]]
    assert [x.item() for x in found] == [1, 0, 2, 3]


@pytest.mark.parametrize("key", ["__tensor__", "__tuple__", "__int_keys__", "__dict__"])
def test_keys_that_the_format_uses_itself(tmp_path, key):
    tree = {key: [1], "more": [{key: {key: (2,)}}]}
    ndl.save([tree, {key: {"1": 2}}], tmp_path / "x")
    assert ndl.load(tmp_path / "x") == [tree, {key: {"1": 2}}]


def test_truth_values_are_no_keys(tmp_path):
    with pytest.raises(TypeError, match=r"\[save\] keys must be text or whole numbers, got"):
        ndl.save({True: 1}, tmp_path / "x")


def test_arrays_of_the_other_byte_order(tmp_path):
    ndl.save({"x": np.array([1.0, 2.0], ">f4"), "i": np.array([3], ">i8")}, tmp_path / "x")
    loaded = ndl.load(tmp_path / "x")
    assert loaded["x"].tolist() == [1, 2] and loaded["i"].tolist() == [3]


def test_files_of_others_load_as_a_dict(tmp_path):
    with (tmp_path / "x").open("wb") as file:
        safetensors.write(file, {"a": np.arange(3.0)}, {})
    assert ndl.load(tmp_path / "x")["a"].tolist() == [0, 1, 2]


def test_what_cannot_be_saved_is_named(tmp_path):
    with pytest.raises(TypeError, match=r"\[save\] .* got Linear at 'model'.*state_dict"):
        ndl.save({"model": nn.Linear(1, 1)}, tmp_path / "x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("as_zip", [True, False])
def test_a_file_of_torch_save_is_named(tmp_path, as_zip):
    torch = pytest.importorskip("torch")
    state = torch.nn.Linear(3, 2).state_dict()
    torch.save(state, tmp_path / "x.pt", _use_new_zipfile_serialization=as_zip)
    with pytest.raises(ValueError, match=r"\[load\] .*x\.pt is not .* torch\.save's: .*save_file"):
        ndl.load(tmp_path / "x.pt")


def test_every_cut_of_a_file_is_refused(tmp_path):
    path = tmp_path / "x"
    ndl.save({"a": ndl.ones(4), "b": ndl.zeros(3)}, path)
    whole = path.read_bytes()
    for keep in range(0, len(whole), 7):
        path.write_bytes(whole[:keep])
        with pytest.raises(ValueError, match=r"\[load\] "):
            ndl.load(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 4 * 10**9]},
        {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": "x", "data_offsets": [0, 4]},
        {"dtype": "F32"},
        7,
    ],
)
def test_a_damaged_header_is_refused(tmp_path, entry):
    header = json.dumps({"x": entry}).encode()
    path = tmp_path / "x"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ValueError, match=r"\[load\] .*'x'"):
        ndl.load(path)


NESTED = b'{"a":' * 100_000  # deeper than a parser's stack


@pytest.mark.parametrize(
    "header",
    [
        {"__metadata__": 5},
        {"__metadata__": {"needle": 5}},
        {"__metadata__": {"needle": '{"__tuple__": 5}'}},
        {"__metadata__": {"needle": '{"__int_keys__": [1]}'}},
        {"__metadata__": {"needle": '{"__tensor__": []}'}},
        {"__metadata__": {"needle": "[" * 100_000}},
        {"a": {"dtype": [], "shape": [2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [True, 2], "data_offsets": [0, 8]}},
        NESTED,
    ],
    ids=lambda header: str(header)[:60],
)
def test_a_hostile_header_is_refused(tmp_path, header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(ValueError, match=r"\[load\] .*damaged"):
        ndl.load(tmp_path / "x")


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    ndl.save({"step": 1}, path)

    def full_disk(*args):
        raise OSError("no space left")

    monkeypatch.setattr(safetensors, "write", full_disk)
    with pytest.raises(OSError, match="no space"):
        ndl.save({"step": 2}, path)
    assert ndl.load(path) == {"step": 1}
    assert os.listdir(tmp_path) == ["x"]


# Checkpoints --------------------------------------------------------------------------------------


def training_run(steps, path=None, stop=None):
    """A small seeded run with dropout and shuffling; saves at `stop`, or resumes from path."""
    np.random.seed(0)
    data = ndl.data.NDArrayDataset(np.random.randn(20, 4), np.arange(20) % 3)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3))
    model = nn.Sequential(model, nn.Linear(8, 3))
    opt = optim.Adam(model.parameters(), lr=0.01)
    schedule = optim.StepLR(opt, step_size=5, gamma=0.5)
    loader = ndl.data.DataLoader(data, 6, shuffle=True)
    parts = {"model": model, "optimizer": opt, "schedule": schedule, "loader": loader}
    checkpoint = ndl.Checkpoint(path or "unused", **parts)
    step = 0
    if path is not None and stop is None:
        step = checkpoint.load()["step"]
    while step < steps:
        for x, y in loader:
            nn.SoftmaxLoss()(model(x), y).backward()
            opt.step()
            schedule.step()
            step += 1
            if step == stop:
                return checkpoint.save(step=step)
            if step == steps:
                break
    return [p.numpy() for p in model.parameters()] + [b.numpy() for b in model.buffers()]


@pytest.mark.parametrize("stop", [1, 3, 4, 7, 11])
def test_resuming_is_bit_identical(tmp_path, stop):
    path = tmp_path / "run" / "last.ndl"
    training_run(12, path, stop)
    for resumed, straight in zip(training_run(12, path), training_run(12), strict=True):
        np.testing.assert_array_equal(resumed, straight)


def test_a_checkpoint_with_other_parts_is_refused(tmp_path):
    model = nn.Linear(1, 1)
    ndl.Checkpoint(tmp_path / "x", model=model).save()
    with pytest.raises(ValueError, match=r"holds \['model'\], expected \['model', 'opt'\]"):
        ndl.Checkpoint(tmp_path / "x", model=model, opt=model).load()
    ndl.save([1], tmp_path / "y")
    with pytest.raises(ValueError, match="is not a checkpoint"):
        ndl.Checkpoint(tmp_path / "y", model=model).load()


def test_pytorchs_arguments_of_load(tmp_path):
    ndl.save({"model": {"w": ndl.ones(2)}, "epoch": 3}, tmp_path / "x")
    for place in ("cpu_numpy", ndl.cpu_numpy()):
        found = ndl.load(tmp_path / "x", map_location=place, weights_only=False)
        assert found["epoch"] == 3 and found["model"]["w"].device == ndl.cpu_numpy()
    assert ndl.load(tmp_path / "x", "cpu")["model"]["w"].device == ndl.cpu()
    with pytest.raises(ValueError, match=r"\[device\] expected one of"):
        ndl.load(tmp_path / "x", map_location="tpu")
