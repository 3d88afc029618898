"""Properties: any model's state comes back from a file, and no failed save leaves half a file."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import nn
from needle.io import safetensors

sizes = st.integers(1, 4)
layers = st.one_of(
    st.builds(nn.Linear, sizes, sizes, st.booleans()),
    st.builds(nn.Conv, sizes, sizes, sizes),
    st.builds(nn.Conv2d, sizes, sizes, sizes),
    st.builds(nn.BatchNorm1d, sizes),
    st.builds(nn.Embedding, sizes, sizes),
    st.builds(lambda i, h, n, both: nn.LSTM(i, h, n, bidirectional=both), sizes, sizes,
              st.integers(1, 2), st.booleans()),
    st.builds(lambda i, h, bias: nn.GRUCell(i, h, bias), sizes, sizes, st.booleans()),
    st.builds(lambda heads, bias: nn.MultiheadAttention(2 * heads, heads, bias=bias), sizes,
              st.booleans()),
    st.builds(nn.Tanh),
)  # fmt: skip
models = st.recursive(
    layers,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: nn.Sequential(*parts)),
        st.lists(inner, max_size=3).map(nn.ModuleList),
        st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=2).map(nn.ModuleDict),
        inner.map(nn.Residual),
    ),
    max_leaves=5,
)


def scrambled(model: nn.Module) -> nn.Module:
    """The same tree with other values."""
    other = copy.deepcopy(model)
    for tensor in (*other.parameters(), *other.buffers()):
        tensor.data = tensor.data + 1
    return other


@settings(deadline=None)
@given(models, st.sampled_from(["needle", "torch"]))
def test_a_models_state_comes_back_from_a_file(tmp_path_factory, model, layout):
    path = tmp_path_factory.mktemp("state") / "x.safetensors"
    ndl.save(model.state_dict(layout), path)
    other = scrambled(model)
    report = other.load_state_dict(ndl.load(path), layout=layout)
    assert not report
    expected = model.state_dict()
    for name, tensor in other.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), expected[name].numpy(), err_msg=name)
        assert tensor.dtype == expected[name].dtype and tensor.shape == expected[name].shape


class FailingFile:
    """A file on a disk that is full after some bytes."""

    def __init__(self, file, room):
        self.file = file
        self.room = room

    def write(self, data):
        self.file.write(data[: self.room])
        self.room -= len(data)
        if self.room < 0:
            raise OSError(28, "No space left on device")

    def __getattr__(self, name):
        return getattr(self.file, name)


@settings(deadline=None)
@given(st.integers(0, 2000))
def test_a_full_disk_at_any_byte_leaves_the_old_file(tmp_path_factory, room):
    folder = tmp_path_factory.mktemp("full")
    path = folder / "x.ndl"
    old, new = np.arange(50.0), np.arange(100.0)
    ndl.save({"x": old}, path)
    before = path.read_bytes()
    write = safetensors.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            safetensors, "write", lambda file, *rest: write(FailingFile(file, room), *rest)
        )
        try:
            ndl.save({"x": new}, path)
        except OSError:
            assert path.read_bytes() == before
        else:
            np.testing.assert_array_equal(ndl.load(path)["x"].numpy(), new)
    assert [p.name for p in folder.iterdir()] == ["x.ndl"]
