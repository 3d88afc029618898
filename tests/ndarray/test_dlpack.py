"""Exchange without copies: DLPack with NumPy, PyTorch and JAX, the buffer protocol, __array__."""

import gc

import numpy as np
import pytest

import needle as ndl
from needle.dtype import DTYPES, bfloat16, bool_
from tests.strategies import as_numbers, stored

NUMPY_DTYPES = [d for d in DTYPES if d is not bfloat16]
DEVICES = [ndl.cpu(), ndl.cpu_numpy()]
on_devices = pytest.mark.parametrize("device", DEVICES, ids=str)


def tensor(dtype, device=None, shape=(3, 4)):
    values = as_numbers(stored(dtype, shape, 2), dtype)
    return ndl.Tensor(values, dtype=dtype, device=device, requires_grad=False), values


# NumPy ------------------------------------------------------------------------------------------


@on_devices
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_to_numpy_shares_memory(device, dtype):
    if dtype is bool_ and np.lib.NumpyVersion(np.__version__) < "1.25.0":
        pytest.skip("this NumPy has no DLPack bools")
    x, values = tensor(dtype, device)
    shared = np.from_dlpack(x)
    np.testing.assert_array_equal(shared, values)
    x.cached_data.fill(1)
    np.testing.assert_array_equal(shared, np.ones((3, 4), dtype.storage))


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_from_numpy_shares_memory_both_ways(dtype):
    values = stored(dtype, (3, 4), 2)
    x = ndl.from_dlpack(values)
    assert x.dtype == dtype and x.device == ndl.cpu()
    np.testing.assert_array_equal(x.numpy(), values)
    values[1, 2] = 1
    np.testing.assert_array_equal(x.numpy(), values)
    x[0] = False if dtype is bool_ else 0
    assert not values[0].any()


@on_devices
def test_views_travel_as_views(device):
    x, values = tensor(DTYPES[0], device, (4, 6))
    part = x[1:, ::2].transpose()
    shared = np.from_dlpack(part)
    np.testing.assert_array_equal(shared, values[1:, ::2].T)
    x.cached_data.fill(7)
    assert (shared == 7).all()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_small_shapes(shape):
    x, values = tensor(DTYPES[1], None, shape)
    np.testing.assert_array_equal(np.from_dlpack(x), values)
    again = ndl.from_dlpack(values)
    assert again.shape == shape
    np.testing.assert_array_equal(again.numpy(), values)


def test_memory_lives_as_long_as_anyone_needs_it():
    gc.collect()
    before = ndl.memory_stats()["live"]
    x = ndl.Tensor(np.arange(1000.0))
    shared = np.from_dlpack(x)
    del x
    gc.collect()
    np.testing.assert_array_equal(shared, np.arange(1000.0, dtype=np.float32))
    del shared
    gc.collect()
    assert ndl.memory_stats()["live"] == before
    values = np.arange(5.0)
    y = ndl.from_dlpack(values)
    del values
    gc.collect()
    assert y.numpy().tolist() == [0, 1, 2, 3, 4]


def test_a_capsule_is_used_once():
    from needle import _native

    capsule = ndl.Tensor([1.0, 2.0]).__dlpack__()
    _native.from_dlpack(capsule)
    with pytest.raises(TypeError, match=r"\[from_dlpack\] expected an unused DLPack capsule"):
        _native.from_dlpack(capsule)
    unused = ndl.Tensor([1.0, 2.0]).__dlpack__()
    del unused  # frees what it holds
    gc.collect()


def test_what_cannot_be_shared_says_so():
    with pytest.raises(ValueError, match=r"negative strides cannot be shared; pass a contiguous"):
        ndl.from_dlpack(np.arange(4.0)[::-1])
    with pytest.raises(TypeError, match=r"\[dtype\] expected one of"):
        ndl.from_numpy(np.zeros(2, np.complex64))
    readonly = np.arange(3.0)
    readonly.flags.writeable = False
    try:
        x = ndl.from_numpy(readonly)
    except (BufferError, ValueError):
        return  # NumPy before 2.0 refuses to export it
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1


# PyTorch and JAX --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_both_ways(dtype):
    torch = pytest.importorskip("torch")
    x, values = tensor(dtype)
    theirs = torch.from_dlpack(x)
    assert str(theirs.dtype) == f"torch.{dtype}"
    np.testing.assert_array_equal(theirs.float().numpy(), values.astype(np.float32))
    theirs.fill_(1)
    assert (x.numpy() == 1).all()
    back = ndl.from_dlpack(theirs)
    assert back.dtype == dtype and back.cached_data._handle.ptr() == theirs.data_ptr()
    x[0, 0] = False if dtype is bool_ else 0
    assert back.numpy().flat[0] == 0


def test_torch_views_and_gradients():
    torch = pytest.importorskip("torch")
    source = torch.arange(12.0).reshape(3, 4)
    x = ndl.from_dlpack(source.t()[1:])
    np.testing.assert_array_equal(x.numpy(), source.numpy().T[1:])
    x.requires_grad_()
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * source.numpy().T[1:])


@pytest.mark.parametrize("name", ["float32", "int32", "bfloat16", "float16", "uint8"])
def test_jax_both_ways(name):
    jax = pytest.importorskip("jax")
    x, values = tensor(next(d for d in DTYPES if d == name))
    theirs = jax.dlpack.from_dlpack(x)
    assert theirs.dtype.name == name
    np.testing.assert_array_equal(np.asarray(theirs, np.float32), values.astype(np.float32))
    back = ndl.from_dlpack(jax.numpy.arange(6).reshape(2, 3).astype(name))
    assert back.dtype == name and back.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]


# The buffer protocol and NumPy's own --------------------------------------------------------------


@on_devices
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_memoryview_shares_memory(device, dtype):
    x, values = tensor(dtype, device)
    view = memoryview(x)
    assert view.shape == (3, 4) and view.itemsize == dtype.itemsize
    assert view.strides == tuple(s * dtype.itemsize for s in (4, 1)) and not view.readonly
    np.testing.assert_array_equal(np.asarray(view), values)
    x.cached_data.fill(1)
    assert view.tobytes() == np.ones((3, 4), dtype.storage).tobytes()


@on_devices
def test_memoryview_of_views_and_small_shapes(device):
    x, values = tensor(DTYPES[0], device, (4, 6))
    part = memoryview(x[::-2, 1:3])
    np.testing.assert_array_equal(np.asarray(part), values[::-2, 1:3])
    assert memoryview(ndl.Tensor(2.5, device=device)).shape == ()
    assert memoryview(ndl.Tensor(np.zeros((0, 3)), device=device)).nbytes == 0
    with pytest.raises(BufferError, match=r"\[buffer\] bfloat16 has no buffer format"):
        memoryview(ndl.Tensor([1.0], dtype="bfloat16", device=device))


@on_devices
def test_asarray(device):
    x, values = tensor(DTYPES[0], device)
    np.testing.assert_array_equal(np.asarray(x), values)
    assert np.asarray(x, dtype="float64").dtype == np.float64
    assert np.array(x, copy=True).flags.owndata
    np.testing.assert_array_equal(np.add(x.numpy(), 1), values + 1)
    half = ndl.Tensor([1.5, 2.0], dtype="bfloat16", device=device)
    assert np.asarray(half).dtype == np.float32


def test_asarray_without_a_copy_shares():
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("copy=False means something else before NumPy 2")
    x, _ = tensor(DTYPES[0])
    shared = np.array(x, copy=False)
    x.cached_data.fill(3)
    assert (shared == 3).all()
    with pytest.raises(ValueError, match=r"\[__array__\] needle\.float32 to float64 needs a copy"):
        x.__array__("float64", copy=False)


def test_numpy_operators_defer_to_ours():
    x = ndl.Tensor([1.0, 2.0])
    for result in (np.ones(2, np.float32) + x, np.float32(2) * x, x - np.ones(2, np.float32)):
        assert isinstance(result, ndl.Tensor)


def test_tensors_index_numpy_arrays_as_arrays_do():
    rows = np.arange(8.0).reshape(4, 2)
    assert rows[ndl.tensor([1])].tolist() == [[2, 3]]
    assert rows[ndl.tensor(1)].tolist() == [2, 3]
    with pytest.raises(TypeError, match=r"\[index\] expected a 0-d integer tensor, .* \(1,\)"):
        range(ndl.tensor([3]))


def test_one_number_takes_a_format():
    assert f"{ndl.tensor(3.14159):.2f} {ndl.tensor(7):>3}" == "3.14   7"
    assert f"{ndl.tensor([1.0, 2.0])}" == "[1. 2.]"
