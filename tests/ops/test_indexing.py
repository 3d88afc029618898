"""Indexing, assignment and their gradients against NumPy, for index expressions of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import autograd, config
from tests.strategies import dtypes, shapes, slices, tensors

SHAPES = shapes(max_dims=4, max_side=4)
fuzz = settings(deadline=None, max_examples=150)
NOT_IN_NUMPY = [ndl.dtype.bfloat16] if config.BACKEND == "np" else []


@pytest.fixture
def lazy() -> Iterator[None]:
    autograd.LAZY_MODE = True
    yield
    autograd.LAZY_MODE = False


# Index expressions --------------------------------------------------------------------------------


@st.composite
def integer_arrays(draw: Any, batch: tuple[int, ...], size: int) -> np.ndarray[Any, Any]:
    """Positions on an axis, some negative, of a shape that broadcasts to batch."""
    shape = tuple(n if draw(st.booleans()) else 1 for n in batch)
    shape = shape[draw(st.integers(0, len(shape))) :]
    kind = draw(st.sampled_from(["int64", "int32", "uint8"]))
    positions = st.integers(0 if kind == "uint8" else -size, max(size - 1, 0))
    count = int(np.prod(shape, dtype=np.int64))
    values = draw(st.lists(positions, min_size=count, max_size=count))
    return np.array(values, kind).reshape(shape)


@st.composite
def masks(draw: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape, dtype=np.int64))
    values = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return np.array(values, bool).reshape(shape)


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Any NumPy index for a shape: mostly valid, sometimes not (shapes that do not broadcast)."""
    batch = draw(st.sampled_from([(), (1,), (3,), (2, 3), (0,)]))
    kinds = ["int", "slice", "slice", "array", "array", "mask", "new", "rest", "mask0"]
    entries: list[Any] = []
    axis, has_rest = 0, False
    for _ in range(draw(st.integers(0, len(shape) + 2))):
        kind = draw(st.sampled_from(kinds))
        left = len(shape) - axis
        if kind == "new":
            entries.append(None)
        elif kind == "rest" and not has_rest:
            has_rest = True
            entries.append(Ellipsis)
            axis += draw(st.integers(0, left))
        elif kind == "mask0" and draw(st.booleans()):
            entries.append(draw(st.sampled_from([True, False, np.array(True), np.array(False)])))
        elif left > 0 and kind == "mask" and not (has_rest and 0 in shape):
            # Of an empty array, NumPy takes masks of a wrong size too.
            axes = draw(st.integers(1, min(2, left)))
            entries.append(draw(masks(shape[axis : axis + axes])))
            axis += axes
        elif left > 0 and kind in ("int", "slice", "array"):
            size = shape[axis]
            if kind == "slice" or (kind == "array" and size == 0):
                entries.append(draw(slices(size)))
            elif kind == "array":
                entries.append(draw(integer_arrays(batch, size)))
            else:
                entries.append(draw(st.integers(-size, max(size - 1, 0))))
            axis += 1
    # Entries behind `...` were drawn for the axes that it leaves; they may still not fit.
    return tuple(entries)


def as_given(index: tuple[Any, ...], how: str) -> Any:
    """The same index with its arrays as they are, as tensors or as lists."""
    if how == "tensors":
        return tuple(ndl.tensor(e) if isinstance(e, np.ndarray) else e for e in index)
    if how == "lists":
        return tuple(
            e.tolist() if isinstance(e, np.ndarray) and e.ndim and e.size else e for e in index
        )
    return index[0] if len(index) == 1 else index


ways = st.sampled_from(["arrays", "tensors", "lists"])


def outcome(function: Any) -> Any:
    """What it returns, or the kind of error."""
    try:
        return function()
    except (IndexError, ValueError) as error:
        return type(error)


def assert_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs
        return
    assert ours.shape == theirs.shape
    np.testing.assert_array_equal(ours.numpy(), theirs)


# Values -------------------------------------------------------------------------------------------


@fuzz
@given(st.data())
def test_getitem_equals_numpy(data: Any) -> None:
    x, values = data.draw(tensors(SHAPES, dtypes(exclude=NOT_IN_NUMPY)))
    index = data.draw(indices(x.shape))
    ours = outcome(lambda: x[as_given(index, data.draw(ways))])
    assert_same(ours, outcome(lambda: values[index]))
    if isinstance(ours, ndl.Tensor):
        assert ours.dtype == x.dtype


@fuzz
@given(st.data())
def test_setitem_equals_numpy(data: Any) -> None:
    x, values = data.draw(tensors(SHAPES, st.just(ndl.dtype.float32)))
    index = data.draw(indices(x.shape))
    x.requires_grad = False
    expected = np.array(values)
    new = data.draw(assigned(outcome(lambda: values[index]), index))

    def write() -> Any:
        x[as_given(index, data.draw(ways))] = ndl.tensor(new)
        return x

    def write_numpy() -> Any:
        expected[index] = new
        return expected

    assert_same(outcome(write), outcome(write_numpy))


@st.composite
def assigned(draw: Any, place: Any, index: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """Values that broadcast to the place of an assignment."""
    shape = () if isinstance(place, type) else place.shape
    shape = tuple(n if draw(st.booleans()) else 1 for n in shape)
    # NumPy is stricter about leading axes for 0-d places and for a single mask.
    if shape and len(index) > 1 and draw(st.booleans()):
        shape = (1, *shape) if draw(st.booleans()) else shape[1:]
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    return rng.integers(-100, 100, shape).astype(np.float32)


# Gradients ----------------------------------------------------------------------------------------


def leaf(values: np.ndarray[Any, Any]) -> ndl.Tensor:
    return ndl.Tensor(values, dtype="float64")


@st.composite
def valid(draw: Any) -> Any:
    """(values, index) such that values[index] is not an error."""
    values = np.random.default_rng(draw(st.integers(0, 1000))).standard_normal(draw(SHAPES))
    index = draw(indices(values.shape))
    return values, index if not isinstance(outcome(lambda: values[index]), type) else (...,)


@fuzz
@given(valid())
def test_getitem_gradient_adds_up(case: Any) -> None:
    values, index = case
    x, weights = leaf(values), np.random.default_rng(0).standard_normal(values[index].shape)
    (x[index] * leaf(weights)).sum().backward()
    expected = np.zeros_like(values)
    np.add.at(expected, index, weights)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


@fuzz
@given(valid())
def test_getitem_has_second_derivatives(case: Any) -> None:
    values, index = case
    x = leaf(values)
    (x[index] ** 3).sum().backward()
    first = x.grad
    (first * first).sum().backward()
    # first = 3 n x², where n is how often an element was read; d(first²)/dx = 36 n² x³
    counts = np.zeros_like(values)
    np.add.at(counts, index, 1.0)
    np.testing.assert_allclose(x.grad.numpy(), 36 * counts**2 * values**3, rtol=1e-12)


@fuzz
@given(valid(), st.data())
def test_setitem_gradient_goes_where_the_data_came_from(case: Any, data: Any) -> None:
    values, index = case
    new = data.draw(assigned(values[index], index)).astype(np.float64)
    x, v = leaf(values), leaf(new)
    weights = np.random.default_rng(0).standard_normal(values.shape)
    y = x * 1
    y[index] = v
    (y * leaf(weights)).sum().backward()
    source = np.full(values.shape, -1)
    source[index] = np.arange(new.size).reshape(new.shape)
    np.testing.assert_array_equal(x.grad.numpy(), np.where(source < 0, weights, 0))
    expected = np.zeros(new.size)
    np.add.at(expected, source[source >= 0], weights[source >= 0])
    np.testing.assert_allclose(v.grad.numpy(), expected.reshape(new.shape), rtol=1e-12)


def test_setitem_has_second_derivatives() -> None:
    x, v = leaf(np.array([1.0, 2.0, 3.0])), leaf(np.array([4.0, 5.0]))
    y = x * 1
    y[[2, 0]] = v
    (y**3).sum().backward()
    (x.grad.sum() + v.grad.sum()).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 12, 0])
    np.testing.assert_array_equal(v.grad.numpy(), [24, 30])


# Assignment and the graph -------------------------------------------------------------------------


def test_earlier_users_keep_the_former_value() -> None:
    x = leaf(np.array([1.0, 2.0]))
    y = x * 2
    before = y * y
    y[0] = 5.0
    after = y * y
    (before + after).sum().backward()
    # before = 4x²; after = (25, 4x²)
    np.testing.assert_array_equal(before.numpy(), [4, 16])
    np.testing.assert_array_equal(after.numpy(), [25, 16])
    np.testing.assert_array_equal(x.grad.numpy(), [8, 32])


def test_a_tensor_may_be_assigned_from_itself() -> None:
    x = leaf(np.array([3.0, 0.0, 0.0, 0.0]))
    y = x * 1
    for i in range(1, 4):
        y[i] = y[i - 1] * y[i - 1]
    y[3].backward()
    np.testing.assert_array_equal(y.numpy(), [3, 9, 81, 6561])
    np.testing.assert_array_equal(x.grad.numpy(), [8 * 3.0**7, 0, 0, 0])


def test_assignment_leaves_no_reference_cycle() -> None:
    import gc

    gc.collect()
    gc.disable()
    try:
        before = autograd.TENSOR_COUNTER
        x = leaf(np.ones(3))
        y = x * 1
        y[0] = y[1] * y[2]
        del x, y
        assert before == autograd.TENSOR_COUNTER
    finally:
        gc.enable()


def test_a_leaf_takes_a_differentiable_value() -> None:
    buffer, w = ndl.zeros(2, 3), ndl.Tensor([1.0, 2.0, 3.0])
    for i in range(2):
        buffer[i] = w * (i + 1)
    (buffer * buffer).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [10, 20, 30])


def test_assignment_in_place_keeps_the_buffer() -> None:
    x = ndl.zeros(3)
    data = x.cached_data
    x[1:] = 7
    x[x > 5] = ndl.tensor([1.0, 2.0])
    assert x.cached_data is data and x.is_leaf()
    np.testing.assert_array_equal(x.numpy(), [0, 1, 2])


def test_views_share_memory_with_leaves() -> None:
    x = ndl.zeros(2, 2)
    x[0][1] = 3
    np.testing.assert_array_equal(x.numpy(), [[0, 3], [0, 0]])


def test_backward_refuses_data_that_was_overwritten() -> None:
    w, x = ndl.Tensor([1.0, 2.0]), ndl.tensor([3.0, 4.0])
    y = w * x
    x[0] = 9
    with pytest.raises(ValueError, match=r"\[backward\].*EWiseMul.*changed in place"):
        y.sum().backward()
    (w * x).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [9, 4])


def test_overlapping_assignment_reads_first() -> None:
    x = ndl.arange(5)
    x[1:] = x[:-1]
    np.testing.assert_array_equal(x.numpy(), [0, 0, 1, 2, 3])


def test_hooks_stay_with_the_former_value() -> None:
    x = leaf(np.array([1.0, 2.0]))
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.numpy()))
    y[0] = 0.0
    (y * 3).sum().backward()
    np.testing.assert_array_equal(seen, [[0, 3]])


@pytest.mark.usefixtures("lazy")
def test_lazy_values_see_memory_before_the_write() -> None:
    x = ndl.tensor([1.0, 2.0])
    y = x * 2
    assert y.cached_data is None
    x[0] = 50.0
    x += 1
    np.testing.assert_array_equal(y.numpy(), [2, 4])
    z = x * 2
    x.data = ndl.tensor([7.0, 7.0])
    np.testing.assert_array_equal(z.numpy(), [102, 6])


@pytest.mark.usefixtures("lazy")
def test_lazy_indexing_and_assignment() -> None:
    x = leaf(np.arange(6.0).reshape(2, 3))
    y = x * 1
    assert y[:, [0, 2]].shape == (2, 2) and y.cached_data is None
    user = y.sum()
    y[0] = x[1] * 2
    assert y.shape == (2, 3)
    total = (y * y).sum() + user + y[y > 3].sum()
    total.backward()
    np.testing.assert_array_equal(y.numpy(), [[6, 8, 10], [3, 4, 5]])
    # y² gives 8 x[1] + 2 x[1], `user` 1, the mask 2 + (0, 1, 1)
    np.testing.assert_array_equal(x.grad.numpy(), [[1, 1, 1], [33, 44, 54]])


def test_iteration() -> None:
    rows = list(ndl.arange(6).reshape((3, 2)))
    assert [r.tolist() for r in rows] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(TypeError, match=r"\[iter\] a 0-d tensor"):
        iter(ndl.tensor(1.0))


# Errors -------------------------------------------------------------------------------------------

matrix = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda x: x[5], r"\[index\] index 5 is out of bounds for axis 0 with size 2; use -2 to 1"),
        (lambda x: x[:, [0, -4]], r"\[getitem\] index -4 is out of bounds for axis 1 with size 3"),
        (lambda x: x[0, [7]], r"\[getitem\] index 7 is out of bounds for axis 1 with size 3"),
        (lambda x: x[..., [3]], r"\[getitem\] index 3 is out of bounds for axis 1 with size 3"),
        (lambda x: x[0, 0, 0], r"\[index\] too many indices: 3 for an array with 2 axes"),
        (lambda x: x[[0, 1], [0, 1, 2]], r"\[index\] shapes \(2,\) and \(3,\) do not broadcast"),
        (lambda x: x[np.ones(3, bool)], r"\[index\] a bool array must have the size of the axis"),
        (lambda x: x[np.ones(2)], r"\[index\] arrays used as indices must be integers or bools"),
        (lambda x: x[1.5], r"\[index\] expected integers, slices, .* got float"),
        (lambda x: x[..., ...], r"\[index\] an index may have one ellipsis"),
        (lambda x: x[::0], r"\[index\] bad slice"),
        (lambda x: x.take([9], axis=1), r"\[take\] index 9 is out of bounds for axis 1"),
        (
            lambda x: x.gather(1, [[4]]),
            r"\[gather\] index 4 is out of bounds for axis 1 with size 3",
        ),
        (
            lambda x: x.scatter_add(0, [[-3]], 1.0),
            r"\[scatter_add\] index -3 is out of bounds for axis 0 with size 2; use 0 to 1",
        ),
        (
            lambda x: x.__setitem__(([0, 2], 0), 1.0),
            r"\[setitem\] index 2 is out of bounds for axis 0 with size 2",
        ),
    ],
)
def test_index_errors(action: Any, message: str) -> None:
    with pytest.raises(IndexError, match=message):
        action(ndl.tensor(matrix))


def test_assignment_errors() -> None:
    x = ndl.tensor(matrix)
    with pytest.raises(ValueError, match=r"cannot broadcast \(2,\) to \(3,\)"):
        x[0] = np.ones(2, np.float32)
    with pytest.raises(TypeError, match=r"cannot put float32 into int64"):
        ndl.arange(3)[0] = ndl.tensor(1.5)
    with pytest.raises(ValueError, match=r"\[setitem\] expected a tensor with its own memory"):
        ndl.zeros(3).broadcast_to((2, 3))[0] = 1.0


# Along one axis -----------------------------------------------------------------------------------


@st.composite
def along(draw: Any) -> Any:
    """(values, axis, index): an index that is smaller than values on the other axes."""
    shape = draw(shapes(min_dims=1, max_dims=3, max_side=4, min_side=1))
    axis = draw(st.integers(0, len(shape) - 1))
    sizes = tuple(draw(st.integers(0, n + 2 * (i == axis))) for i, n in enumerate(shape))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    index = rng.integers(0, shape[axis], sizes)
    return rng.standard_normal(shape), axis, index


def places(index: np.ndarray[Any, Any], axis: int) -> tuple[np.ndarray[Any, Any], ...]:
    grid = list(np.indices(index.shape))
    grid[axis] = index
    return tuple(grid)


@fuzz
@given(along())
def test_gather(case: Any) -> None:
    values, axis, index = case
    x, weights = leaf(values), np.random.default_rng(0).standard_normal(index.shape)
    y = x.gather(axis, index)
    np.testing.assert_array_equal(y.numpy(), values[places(index, axis)])
    (y * y * leaf(weights)).sum().backward()
    first, expected = x.grad, np.zeros_like(values)
    np.add.at(expected, places(index, axis), 2 * weights)
    np.testing.assert_allclose(first.numpy(), expected * values, rtol=1e-12, atol=1e-12)
    first.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12, atol=1e-12)


@fuzz
@given(along())
def test_scatter_add(case: Any) -> None:
    values, axis, index = case
    rng = np.random.default_rng(0)
    larger = rng.standard_normal(tuple(n + 1 for n in index.shape))
    used = larger[tuple(slice(n) for n in index.shape)]
    x, src = leaf(values), leaf(larger)
    y = x.scatter_add(axis, index, src)
    expected = values.copy()
    np.add.at(expected, places(index, axis), used)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-12)
    (y * y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * expected, rtol=1e-12, atol=1e-12)
    into_src = np.zeros_like(larger)
    into_src[tuple(slice(n) for n in index.shape)] = 2 * expected[places(index, axis)]
    np.testing.assert_allclose(src.grad.numpy(), into_src, rtol=1e-12, atol=1e-12)


def test_take_along_axis_broadcasts() -> None:
    values = np.arange(12.0).reshape(3, 4)
    index = np.array([[2], [0]])
    for axis, one in ((0, index), (1, index.T)):
        ours = ndl.take_along_axis(leaf(values), one, axis)
        np.testing.assert_array_equal(ours.numpy(), np.take_along_axis(values, one, axis))


@fuzz
@given(shapes(max_dims=3, max_side=4, min_side=1), st.data())
def test_take(shape: tuple[int, ...], data: Any) -> None:
    values = np.random.default_rng(0).standard_normal(shape)
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    size = values.size if axis is None else shape[axis]
    index = data.draw(integer_arrays((2, 3), size))
    x = leaf(values)
    np.testing.assert_array_equal(x.take(index, axis).numpy(), np.take(values, index, axis))
    x.take(index, axis).sum().backward()
    expected = np.zeros(values.size)
    np.add.at(expected, np.take(np.arange(values.size).reshape(shape), index, axis), 1)
    np.testing.assert_array_equal(x.grad.numpy(), expected.reshape(shape))


def test_index_add() -> None:
    x, src = leaf(np.ones((2, 3))), leaf(np.arange(6.0).reshape(2, 3))
    y = x.index_add(1, [0, 2, 0], src)
    np.testing.assert_array_equal(y.numpy(), [[3, 1, 2], [9, 1, 5]])
    (y * y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * y.numpy())
    np.testing.assert_array_equal(src.grad.numpy(), 2 * y.numpy()[:, [0, 2, 0]])
    with pytest.raises(TypeError, match=r"\[index_add\] cannot add float32 to int64"):
        ndl.arange(3).index_add(0, [0], ndl.ones(1))


def test_masked_fill() -> None:
    x = leaf(np.arange(4.0))
    y = x.masked_fill(x > 1, -np.inf)
    np.testing.assert_array_equal(y.numpy(), [0, 1, -np.inf, -np.inf])
    y[:2].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 1, 0, 0])


@fuzz
@given(tensors(SHAPES, dtypes(exclude=NOT_IN_NUMPY)))
def test_nonzero(case: Any) -> None:
    x, values = case
    np.testing.assert_array_equal(x.nonzero().numpy(), np.argwhere(values))
    if x.ndim:
        for ours, theirs in zip(x.nonzero(as_tuple=True), np.nonzero(values), strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs)


def test_recorded_assignment_to_a_view_is_refused():
    """It would make a new value for the view and leave the viewed tensor as it was."""
    y = ndl.Tensor([1.0, 2.0, 3.0]) * 1
    part = y[1:]
    with pytest.raises(ValueError, match=r"\[setitem\] .* got a view \(2,\) of another"):
        part[0] = 10.0
    buffer = ndl.zeros(2, 2)
    with pytest.raises(ValueError, match=r"\[setitem\] .* got a view \(2,\) of another"):
        buffer[0][...] = ndl.Tensor([1.0, 2.0])
    buffer[0, :] = ndl.Tensor([1.0, 2.0])
    np.testing.assert_array_equal(buffer.numpy(), [[1, 2], [0, 0]])


@pytest.mark.parametrize(
    "index",
    [
        np.array([2**64 - 1], np.uint64),
        np.array(2**63, np.uint64),
        [2**63],
        [2**70],
        [None],
        ["a"],
        [1j],
    ],
    ids=str,
)
def test_what_is_no_index_of_64_bits_is_refused(index):
    x = ndl.tensor([1.0, 2.0, 3.0])
    for call in (lambda: x[index], lambda: x.take(index), lambda: x.__setitem__(index, 0.0)):
        with pytest.raises(IndexError, match=r"^\[(index|take)\]"):
            call()
    assert x.tolist() == [1, 2, 3]


@pytest.mark.parametrize("step", [2**61, 2**63 - 1, -(2**63), 2**70, -(2**70)])
def test_slices_with_huge_steps(step):
    values = np.arange(6.0).reshape(2, 3)
    x = ndl.tensor(values)
    for index in (np.s_[::step], np.s_[:, ::step], np.s_[::step, [0, 2]]):
        found = x[index]
        np.testing.assert_array_equal(found.numpy(), values[index])
        np.testing.assert_array_equal((found + found).numpy(), 2 * values[index])
