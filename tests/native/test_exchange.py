"""Memory shared with NumPy, PyTorch and memoryview, without copies and without dangling."""

import gc
import zlib

import numpy as np
import pytest

from needle import _native

from .helpers import Array, array, blank

DTYPES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"]


class Exporting(_native.BufferExporter):
    """A Python class with the buffer protocol."""

    def __init__(self, operand):
        self.operand = operand

    def _export_buffer(self):
        return self.operand


class DLPack:
    """What numpy.from_dlpack and torch.from_dlpack ask for."""

    def __init__(self, operand):
        self.operand = operand

    def __dlpack__(self, **options):
        return _native.to_dlpack(self.operand, **options)

    def __dlpack_device__(self):
        return (1, 0)


def values(dtype):
    return (np.arange(24).reshape(2, 3, 4) % 7).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_round_trip(dtype):
    result = _native.to_numpy(array(values(dtype)))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, values(dtype))


def test_bfloat16_travels_as_bits_and_widens():
    bits = np.array([0x3F80, 0xC000, 0x7F80], np.uint16)
    handle = _native.from_numpy(bits, "bfloat16")
    assert _native.to_numpy(Array(handle, (3,), (1,))).tolist() == [1.0, -2.0, np.inf]


def test_from_numpy_refuses_other_elements():
    with pytest.raises(TypeError, match=r"\[from_numpy\] an array of format 'd' does not store"):
        _native.from_numpy(np.zeros(3), "float32")
    with pytest.raises(TypeError, match=r"does not store dtype int8"):
        _native.from_numpy(np.zeros(3, np.uint8), "int8")
    with pytest.raises((ValueError, BufferError)):
        _native.from_numpy(np.zeros((4, 4))[::2, ::2], "float64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_buffer_protocol_shares_memory(dtype):
    operand = array(values(dtype))
    turned = Array(operand._handle, (4, 3, 2), operand.strides[::-1])
    shown = np.asarray(Exporting(turned))
    assert shown.dtype == dtype
    np.testing.assert_array_equal(shown, values(dtype).T)
    _native.fill(operand, 1)
    assert shown.all()
    shown[0, 0, 0] = 0
    assert operand.numpy()[0, 0, 0] == 0


def test_buffer_outlives_the_exporter():
    shown = memoryview(Exporting(array([1.0, 2.0, 3.0])))
    gc.collect()
    assert shown.tolist() == [1.0, 2.0, 3.0]
    assert (shown.format, shown.itemsize, shown.readonly) == ("d", 8, False)


def test_buffer_of_an_offset_view_with_negative_strides():
    operand = array([1.0, 2.0, 3.0, 4.0])
    backwards = Array(operand._handle, (2,), (-2,), 3)
    assert np.asarray(Exporting(backwards)).tolist() == [4.0, 2.0]
    with pytest.raises(BufferError, match=r"\[buffer\] the array is not contiguous"):
        zlib.crc32(Exporting(backwards))


def test_buffer_refuses_bfloat16_and_nonsense():
    half = Array(_native.empty(2, "bfloat16"), (2,), (1,))
    with pytest.raises(BufferError, match=r"\[buffer\] bfloat16 has no buffer format"):
        memoryview(Exporting(half))
    outside = Array(_native.empty(2, "float32"), (3,), (1,))
    with pytest.raises(BufferError, match=r"leaves its buffer of 2 elements"):
        memoryview(Exporting(outside))
    with pytest.raises(BufferError, match="expected an array"):
        memoryview(Exporting("text"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_to_numpy_shares_memory(dtype):
    operand = array(values(dtype))
    shown = np.from_dlpack(DLPack(Array(operand._handle, (2, 2, 4), (12, 4, 1), 4)))
    np.testing.assert_array_equal(shown, values(dtype)[:, 1:])
    assert shown.ctypes.data == operand._handle.ptr() + 4 * shown.itemsize
    del operand
    gc.collect()
    np.testing.assert_array_equal(shown, values(dtype)[:, 1:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_from_numpy_shares_memory(dtype):
    source = values(dtype)
    handle, shape, strides, name = _native.from_dlpack(source[:, 1:].__dlpack__())
    shared = Array(handle, shape, strides)
    assert (name, shape, strides) == (dtype, (2, 2, 4), (12, 4, 1))
    source[0, 1, 0] = 1
    assert shared.numpy()[0, 0, 0] == 1
    del source
    gc.collect()
    _native.fill(shared, 0)
    assert not shared.numpy().any()


def test_dlpack_versions_and_read_only():
    frozen = values("float32")
    frozen.flags.writeable = False
    handle, shape, strides, _ = _native.from_dlpack(frozen.__dlpack__(max_version=(1, 0)))
    assert handle.readonly
    shared = Array(handle, shape, strides)
    with pytest.raises(ValueError, match=r"\[fill\] out: the memory is read-only"):
        _native.fill(shared, 0)
    with pytest.raises(BufferError, match=r"\[to_dlpack\] read-only memory"):
        _native.to_dlpack(shared)
    assert not np.from_dlpack(DLPack(shared)).flags.writeable
    copied = _native.from_dlpack(_native.to_dlpack(shared, copy=True))[0]
    assert copied.ptr() != handle.ptr()


def test_dlpack_capsules_are_used_once():
    capsule = _native.to_dlpack(blank((2, 2)))
    _native.from_dlpack(capsule)
    with pytest.raises(TypeError, match=r"\[from_dlpack\] expected an unused DLPack capsule"):
        _native.from_dlpack(capsule)
    with pytest.raises(TypeError, match=r"got int"):
        _native.from_dlpack(3)


def test_dlpack_refuses_what_it_cannot_share():
    with pytest.raises(TypeError, match=r"\[from_dlpack\] no dtype for DLPack type code"):
        _native.from_dlpack(np.zeros(3, np.complex64).__dlpack__())
    with pytest.raises(ValueError, match=r"\[from_dlpack\] negative strides"):
        _native.from_dlpack(np.zeros(3)[::-1].__dlpack__())
    with pytest.raises(BufferError, match="no stream"):
        _native.to_dlpack(blank((2,)), stream=1)
    with pytest.raises(BufferError, match=r"DLPack device \(1, 0\)"):
        _native.to_dlpack(blank((2,)), dl_device=(2, 0))


def test_dlpack_with_torch_both_ways():
    torch = pytest.importorskip("torch")
    bits = np.array([0x3F80, 0x4000], np.uint16)
    operand = Array(_native.from_numpy(bits, "bfloat16"), (2,), (1,))
    tensor = torch.from_dlpack(DLPack(operand))
    assert tensor.dtype == torch.bfloat16
    assert tensor.tolist() == [1.0, 2.0]
    tensor += 1
    assert operand.numpy().tolist() == [2.0, 3.0]
    source = torch.arange(6, dtype=torch.int64).reshape(2, 3).T
    handle, shape, strides, name = _native.from_dlpack(torch.utils.dlpack.to_dlpack(source))
    assert (name, shape, strides) == ("int64", (3, 2), (1, 3))
    assert Array(handle, shape, strides).numpy().tolist() == source.tolist()


def test_strides_that_lead_to_no_element_may_be_anything():
    empty = Array(blank((1,))._handle, (3, 0), (2**62, 1))
    shown = memoryview(Exporting(empty))
    assert shown.shape == (3, 0) and shown.strides == (4, 4)
