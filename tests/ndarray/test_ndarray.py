"""Arrays against NumPy by property: views never copy, chains of views show NumPy's elements."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

import needle as ndl
from needle.dtype import DTYPES, bfloat16, float32
from needle.ndarray import functions as F
from needle.ndarray.array import NDArray, from_numpy
from needle.ndarray.index.gather import getitem
from tests.strategies import arrays, dtypes, layouts, shapes, stored, view_chains

DEVICES = [ndl.cpu(), ndl.cpu_numpy()]
on_devices = pytest.mark.parametrize("device", DEVICES, ids=str)


@given(arrays())
def test_any_layout_shows_its_values(case):
    array, values = case
    assert array.shape == values.shape
    np.testing.assert_array_equal(array.numpy(), values)


@given(arrays(), st.data())
def test_chains_of_views_equal_numpys_and_never_copy(case, data):
    array, values = case
    view = array
    for ours, theirs in data.draw(view_chains(array.shape)):
        view, values = ours(view), theirs(values)
        assert view._handle is array._handle
        assert view.shape == values.shape
    np.testing.assert_array_equal(view.numpy(), values)


@given(shapes(min_dims=1, min_side=1), st.data())
def test_writes_through_a_view_are_seen(shape, data):
    values = stored(float32, shape, 1)
    array = from_numpy(values, float32, ndl.cpu())
    view, expected = array, values
    for ours, theirs in data.draw(view_chains(shape, 2)):
        if theirs(expected).base is None or not theirs(expected).flags.writeable:
            break  # a broadcast view has no places of its own
        view, expected = ours(view), theirs(expected)
    view.fill(99)
    expected[...] = 99
    np.testing.assert_array_equal(array.numpy(), values)


@given(arrays())
def test_compact_is_idempotent(case):
    array, values = case
    once = array.compact()
    assert once.is_compact() and once.compact() is once
    assert (once is array) == array.is_compact()
    np.testing.assert_array_equal(once.numpy(), values)


@given(arrays(), dtypes(exclude=(bfloat16,)))
def test_astype_is_numpys(case, dtype):
    array, values = case
    if array.dtype.is_floating and dtype.kind == "u":
        values, array = np.abs(values), F.unary("abs", array)
    np.testing.assert_array_equal(array.astype(dtype).numpy(), values.astype(dtype.storage))


@given(arrays(), st.data())
def test_reshape_views_where_numpy_does(case, data):
    array, values = case
    new_shape = tuple(data.draw(st.permutations(array.shape)))
    reshaped = F.reshape(array, new_shape)
    np.testing.assert_array_equal(reshaped.numpy(), values.reshape(new_shape))


@given(st.data())
def test_a_copy_of_any_layout_into_any_other(data):
    shape, dtype = data.draw(shapes()), data.draw(dtypes())
    values = stored(dtype, shape, 5)
    source = data.draw(layouts(len(shape))).place(values, dtype, ndl.cpu())
    target = data.draw(layouts(len(shape))).place(np.zeros_like(values), dtype, ndl.cpu())
    F.assign(target, source)
    np.testing.assert_array_equal(target.numpy(), source.numpy())


@on_devices
@given(data=st.data())
def test_overlapping_assignment_reads_before_it_writes(device, data):
    size = data.draw(st.integers(2, 40))
    shift = data.draw(st.integers(1, size - 1))
    values = np.arange(size, dtype=np.float32)
    array = from_numpy(values, float32, device)
    F.assign(getitem(array, slice(shift, None)), getitem(array, slice(None, size - shift)))
    values[shift:] = values[: size - shift].copy()
    np.testing.assert_array_equal(array.numpy(), values)


@given(arrays())
def test_devices_exchange_without_loss(case):
    array, values = case
    there = array.to(ndl.cpu_numpy())
    assert there.device == ndl.cpu_numpy() and there.dtype is array.dtype
    np.testing.assert_array_equal(there.to(ndl.cpu()).numpy(), values)
    assert array.to(array.device) is array


@given(arrays())
def test_pickle_and_deepcopy_keep_values(case):
    array, values = case
    for again in (pickle.loads(pickle.dumps(array)), copy.deepcopy(array)):
        assert again.dtype is array.dtype and again.device == array.device
        assert again._handle is not array._handle
        np.testing.assert_array_equal(again.numpy(), values)


@on_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_and_0d_arrays(device, dtype):
    scalar = from_numpy(stored(dtype, (), 3), dtype, device, as_bits=True)
    assert scalar.shape == scalar.strides == () and scalar.size == 1 and scalar.ndim == 0
    assert isinstance(scalar.numpy(), np.ndarray) and scalar.numpy().shape == ()
    assert scalar.item() == scalar.numpy().item()
    nothing = from_numpy(stored(dtype, (2, 0, 3), 3), dtype, device, as_bits=True)
    assert nothing.size == nothing.nbytes == 0 and nothing.numpy().shape == (2, 0, 3)
    assert F.reduce("sum", nothing, (1,)).numpy().tolist() == [[0, 0, 0], [0, 0, 0]]


@on_devices
def test_allocation_failure_is_a_memory_error_with_the_size(device):
    with pytest.raises(MemoryError):
        NDArray.make((2**45, 2**10), device=device)
    assert NDArray.make((3,), device=device).shape == (3,)


def test_failed_allocations_name_their_size():
    with pytest.raises(MemoryError, match=r"\d"):
        NDArray.make((2**45,), device=ndl.cpu())


def test_memory_is_aligned_pooled_and_counted():
    before = ndl.memory_stats()
    array = NDArray.make((1000, 1000))
    assert array._handle.ptr() % 64 == 0
    assert ndl.memory_stats()["live"] - before["live"] >= 4_000_000
    assert ndl.memory_stats()["peak"] >= ndl.memory_stats()["live"]
    del array
    after = ndl.memory_stats()
    assert after["live"] == before["live"]
    ndl.release_memory()
    assert ndl.memory_stats()["pooled"] == 0


@on_devices
@pytest.mark.parametrize("shape", [(-1, 3), (-2, 1, 3), (2, -3)])
def test_no_view_has_a_negative_size(device, shape):
    with pytest.raises(ValueError, match=r"\[broadcast_to\] sizes must not be negative"):
        F.broadcast_to(from_numpy(np.ones((1, 3), np.float32), float32, device), shape)


def test_repr_and_len():
    array = ndl.NDArray([[1.0, 2.0]])
    assert repr(array) == "NDArray([[1. 2.]], device=cpu())"
    assert str(array) == "[[1. 2.]]" and len(array) == 1
    with pytest.raises(TypeError, match=r"\[len\] a 0-d array has no length; use \.item\(\)"):
        len(ndl.NDArray(1.0))
    with pytest.raises(ValueError, match=r"\[item\] expected one element, got shape \(1, 2\)"):
        array.item()
    with pytest.raises(TypeError):
        hash(array)


def test_operands_that_leave_their_buffer_are_refused():
    array = ndl.NDArray([1.0, 2.0, 3.0])
    outside = array.as_strided((4,), (1,))
    with pytest.raises(ValueError, match=r"shape \(4,\) with strides \(1,\) and offset 0 leaves"):
        outside.numpy()


@pytest.mark.parametrize("make", [NDArray, lambda x, device: NDArray.make((2,), device=device)])
def test_a_device_that_is_not_there_is_named(make):
    with pytest.raises(RuntimeError, match=r"\[cuda\(\)\] this device is not available"):
        make([1.0], device=ndl.cuda())
    with pytest.raises(RuntimeError, match=r"\[cuda\(\)\] this device is not available"):
        NDArray([1.0]).to(ndl.cuda())


@on_devices
def test_operators_of_integers_lose_nothing(device):
    """As those of tensors: types meet in one that holds both, and sums have room."""
    small = ndl.tensor(np.array([44, 3], np.uint8), device=device).cached_data
    whole = ndl.tensor(np.array([1, 2]), device=device).cached_data
    halves = ndl.tensor(np.array([1.5, 2.5], np.float32), device=device).cached_data
    assert (small == 300).tolist() == [False, False]
    assert (whole + halves).tolist() == (halves + whole).tolist() == [2.5, 4.5]
    assert (2 / whole).tolist() == [2.0, 1.0] and (whole * 2.5).tolist() == [2.5, 5.0]
    assert (2 - whole).tolist() == [1, 0]
    assert whole.exp().tolist() == pytest.approx(np.exp([1, 2]).tolist())
    assert ndl.tensor(np.full(9, 100, np.int8), device=device).cached_data.sum().item() == 900
    with pytest.raises(ValueError, match="300 does not fit into uint8"):
        small + 300


def test_arrays_are_not_iterated_over():
    with pytest.raises(TypeError, match="'NDArray' object is not iterable"):
        list(ndl.ones(3).cached_data)


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_of_two_matrices_the_first_decides_how_the_result_lies(order):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((5, 7)).astype(np.float32) for _ in range(2))
    by_rows, by_columns = ndl.tensor(x), ndl.tensor(y.T).T
    left, right = (by_rows, by_columns) if order == "ab" else (by_columns, by_rows)
    for scalar in (False, True):
        result = left + (2.5 if scalar else right)
        assert result.cached_data.strides == left.cached_data.strides
        expected = left.numpy() + (np.float32(2.5) if scalar else right.numpy())
        np.testing.assert_array_equal(result.numpy(), expected)
    row = ndl.tensor(x[:1])  # broadcast: the one of the result's shape decides
    assert (row + by_columns).cached_data.strides == by_columns.cached_data.strides


def two_layouts(values):
    """The same numbers by rows and by columns."""
    return ndl.tensor(values), ndl.tensor(np.ascontiguousarray(values.T)).T


@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (5, 1), (0, 7), (7,), ()])
def test_comparisons_and_where_in_all_layouts(shape):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 3, s).astype(np.float32) for s in ((5, 7), shape))
    for a in two_layouts(x):
        for b in two_layouts(y) if len(shape) == 2 else (ndl.tensor(y),):
            if y.size == 0:
                with pytest.raises(ValueError, match="broadcast"):
                    a > b  # noqa: B015
                continue
            more = a > b
            assert more.dtype == "bool"
            np.testing.assert_array_equal(more.numpy(), x > y)
            np.testing.assert_array_equal((a <= 1).numpy(), x <= 1)
            np.testing.assert_array_equal(b.eq(1.0).numpy(), y == 1)
            found = ndl.where(more, a, b)
            assert found.dtype == "float32"
            np.testing.assert_array_equal(found.numpy(), np.where(x > y, x, y))
            np.testing.assert_array_equal(ndl.where(more, b, 0.5).numpy(), np.where(x > y, y, 0.5))
    matrix = two_layouts(x)[1]
    assert ndl.where(matrix > 1, matrix, 0.0).cached_data.strides == matrix.cached_data.strides


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_of_every_dtype(dtype):
    a, b = (ndl.tensor(np.array(v), dtype=dtype) for v in ([1, 0, 1], [0, 0, 1]))
    condition = ndl.tensor([True, False, False])
    found = ndl.where(condition, a, b)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.numpy(), np.array([1, 0, 1]))
    numbers = ndl.where(condition.astype("int32"), a, b)  # not bools: cast first
    np.testing.assert_array_equal(numbers.numpy(), found.numpy())


@on_devices
def test_what_is_joined_or_padded_lies_as_it_did(device):
    """Channels that are the last axis in memory stay there, also of a part of them."""
    values = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
    x, shown = (
        F.permute(from_numpy(values, float32, device), (0, 3, 1, 2)),
        values.transpose(0, 3, 1, 2),
    )
    part, parts = getitem(x, (slice(None), slice(0, 2))), shown[:, :2]
    for found, expected in (
        (F.concatenate([x, part], 1), np.concatenate([shown, parts], 1)),
        (F.concatenate([part, x], 1), np.concatenate([parts, shown], 1)),
        (
            F.pad(x, [(0, 0), (1, 2), (0, 3), (1, 0)]),
            np.pad(shown, [(0, 0), (1, 2), (0, 3), (1, 0)]),
        ),
    ):
        np.testing.assert_array_equal(found.numpy(), expected)
        _, channels, height, width = found.shape
        assert found.strides == (channels * height * width, 1, channels * width, channels)
    stretched = F.broadcast_to(from_numpy(values[:1, :1, :1, :1], float32, device), (2, 3, 4, 6))
    assert F.concatenate([stretched, stretched], 1).strides == (144, 24, 6, 1)
