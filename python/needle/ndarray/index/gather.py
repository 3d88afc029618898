"""Reading and writing by NumPy index expressions, and along one axis.

A plain selection is a view. With index arrays, the indexed axes of the view move to the front and
one `gather` or `scatter` kernel does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ... import _native
from ...backend.protocol import Outside
from ...dtype import bool_, dtype_of, int64
from .. import layout
from ..array import NDArray, compact_view, empty, from_numpy, full as full_array, make_view
from ..functions import (
    argsort,
    array_function,
    assign,
    binary,
    broadcast_to,
    cast,
    concatenate,
    nonzero,
    permute,
    reduce,
    reshape,
    same_device,
    scan,
    squeeze,
    unary,
    where,
)
from ..interop.asarray import as_numpy
from ..layout import Shape
from .errors import NOT_WHOLE, rewrite_index_error
from .parse import normalize, out_of_bounds, parse

if TYPE_CHECKING:
    from ...types import DTypeLike, Index, NumpyArray, Scalar


class Selection(NamedTuple):
    """A view whose first axes are indexed by arrays of shape `batch`; see `restore`."""

    view: NDArray
    indices: tuple[NDArray, ...]  # int64, broadcastable to batch
    sources: Shape  # the axis of the original array that each of them indexes
    batch: Shape
    position: int  # the batch axes stand here in the result

    @property
    def moved_shape(self) -> Shape:
        """The shape of what gather gives: batch axes first."""
        return self.batch + self.view.shape[len(self.indices) :]

    def restore(self, moved: NDArray) -> NDArray:
        """Batch axes from the front to their position (a view)."""
        n, p = len(self.batch), self.position
        rest = list(range(n, moved.ndim))
        return permute(moved, rest[:p] + list(range(n)) + rest[p:])

    def move(self, result: NDArray) -> NDArray:
        """Batch axes from their position to the front (a view): the reverse of restore."""
        n, p = len(self.batch), self.position
        batch = list(range(p, p + n))
        return permute(result, batch + [i for i in range(result.ndim) if i not in batch])

    @property
    def result_shape(self) -> Shape:
        rest = self.view.shape[len(self.indices) :]
        return rest[: self.position] + self.batch + rest[self.position :]


def _as_index(entry: object, a: NDArray) -> object:
    """Sequences, NumPy arrays and bools as NDArrays on a's device; the rest as it is."""
    if isinstance(entry, (list, tuple, range, np.ndarray, np.bool_, bool)):
        array = index_array(entry)
        return from_numpy(array, dtype_of(array.dtype), a.device)
    if isinstance(entry, NDArray):
        same_device("index", a, entry)
    return entry


def index_array(entry: object) -> NumpyArray:
    """A sequence or NumPy array that was used as an index, as int64 or bool."""
    array = as_numpy("index", entry)
    if array.size == 0 and not isinstance(entry, np.ndarray):
        return array.astype(np.int64)  # NumPy reads [] as floats
    if array.dtype.kind in "bf":
        return array
    if array.dtype.kind not in "iu":  # objects: numbers of more than 64 bits, or no numbers
        raise IndexError(
            f"[index] arrays used as indices must be integers or bools, got {array.dtype}."
        )
    found = array.astype(np.int64)
    if array.dtype.kind == "u" and (found < 0).any():
        raise IndexError(f"[index] index {array.max()} is out of bounds for every axis.")
    return found


def _expand_mask(mask: NDArray) -> list[NDArray]:
    if mask.ndim == 0:
        return [full_array((int(mask.item()),), 0, int64, mask.device)]
    found = nonzero(mask)
    count, width = found.shape
    return [
        make_view((count,), (width,), i, int64, mask.device, found._handle) for i in range(width)
    ]


def select(a: NDArray, index: Index) -> Selection:
    """Resolve an index expression against an array."""
    if (plain := _native.view_cut(a, index)) is not None:
        return Selection(plain, (), (), (), 0)
    entries = list(index) if isinstance(index, tuple) else [index]
    entries = [_as_index(e, a) for e in entries]
    items = normalize(entries, a.ndim, _expand_mask, lambda e: isinstance(e, NDArray))
    found = parse(a.shape, a.strides, a.offset, items)
    view = make_view(found.shape, found.strides, found.offset, a.dtype, a.device, a._handle)
    if not found.arrays:
        return Selection(view, (), (), (), 0)
    rest = [i for i in range(view.ndim) if i not in found.axes]
    indices = tuple(cast(i, int64) for i in found.arrays)
    try:
        batch = layout.broadcast_shapes("index", *(i.shape for i in indices))
    except ValueError as error:
        raise IndexError(str(error)) from None
    moved = permute(view, [*found.axes, *rest])
    return Selection(moved, indices, found.sources, batch, found.position)


def _gather(op: str, out: NDArray, a: NDArray, indices: Sequence[NDArray], axes: Shape) -> None:
    with rewrite_index_error(lambda _, outside: _told(op, axes, outside)):
        a.device.mod.gather(out, a, indices)


def _scatter(
    op: str, how: str, out: NDArray, indices: Sequence[NDArray], axes: Shape, a: NDArray
) -> None:
    with rewrite_index_error(lambda _, outside: _told(op, axes, outside)):
        out.device.mod.scatter(how, out, indices, a)


def _told(op: str, axes: Shape, outside: Outside) -> str:
    return str(out_of_bounds(op, outside.value, outside.size, axes[outside.operand]))


@array_function
def getitem(a: NDArray, index: Index) -> NDArray:
    """a[index]: a view for ints, slices, '...' and None; a copy with index arrays."""
    if (plain := _native.view_cut(a, index)) is not None:
        return plain
    mask = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if isinstance(mask, NDArray) and mask.dtype is bool_ and a.ndim > 1 and mask.shape == a.shape:
        a, index = (reshape(x, (a.size,)) for x in (a, mask))  # one position per element, not ndim
    s = select(a, index)
    if not s.indices:
        return s.view
    out = empty(s.moved_shape, a.dtype, a.device)
    _gather("getitem", out, s.view, s.indices, s.sources)
    return s.restore(out)


@array_function
def setitem(a: NDArray, index: Index, value: NDArray | Scalar) -> None:
    """a[index] = value, in place; value broadcasts."""
    s = select(a, index)
    if isinstance(value, NDArray):
        value = _without_leading_ones(value, len(s.result_shape))
    if not s.indices:
        assign(s.view, value)
        return
    # Through a full-size array of a's dtype: assign checks kinds and shapes the same way.
    values = empty(s.result_shape, a.dtype, a.device)
    assign(values, value)
    _scatter("setitem", "set", s.view, s.indices, s.sources, s.move(values))


def _without_leading_ones(value: NDArray, ndim: int) -> NDArray:
    """NumPy lets a value have more axes than its place, if they have size 1."""
    extra = value.ndim - ndim
    if extra <= 0 or any(n != 1 for n in value.shape[:extra]):
        return value
    return squeeze(value, range(extra))


@array_function
def add_at(a: NDArray, index: Index, value: NDArray) -> None:
    """a[index] += value in place, where repeated positions add up (NumPy's add.at)."""
    s = select(a, index)
    values = broadcast_to(cast(value, a.dtype), s.result_shape)
    if not s.indices:
        a.device.mod.binary("add", s.view, s.view, values)
        return
    _scatter("index_add", "add", s.view, s.indices, s.sources, s.move(values))


@array_function
def into_zeros(shape: Shape, index: Index, value: NDArray) -> NDArray:
    """Zeros of a shape with value added at the index: the adjoint of getitem."""
    out = full_array(shape, 0, value.dtype, value.device)
    s = select(out, index)
    if not s.indices:
        out.device.mod.copy(s.view, value)  # a view has no position twice
    else:
        _scatter("getitem", "add", s.view, s.indices, s.sources, s.move(value))
    return out


@array_function
def written_last(shape: Shape, index: Index, like: NDArray) -> NDArray:
    """Of the elements that a[index] = value writes: does each one stay, or is it overwritten?

    A position that the index names twice keeps what was written last. Shape of a[index], bool.
    """
    out = empty(shape, int64, like.device)
    s = select(out, index)
    order = from_numpy(np.arange(math.prod(s.moved_shape)), int64, like.device)
    numbered = compact_view(s.moved_shape, int64, like.device, order._handle)
    _scatter("setitem", "set", s.view, s.indices, s.sources, numbered)
    survivor = empty(s.moved_shape, int64, like.device)
    _gather("setitem", survivor, s.view, s.indices, s.sources)
    return s.restore(binary("equal", survivor, numbered))


def has_overlap(a: NDArray) -> bool:
    """Do several elements share one place in memory (a broadcast view)?"""
    if 0 not in a.strides:
        return False
    return a.size > 0 and any(
        n > 1 and step == 0 for n, step in zip(a.shape, a.strides, strict=True)
    )


# Along one axis ---------------------------------------------------------------------------------


def _along(op: str, a: NDArray, index: NDArray, axis: int) -> tuple[NDArray, ...]:
    """One index array per axis: `index` on `axis`, positions 0, 1, ... on the others."""
    if index.ndim != a.ndim:
        raise ValueError(
            f"[{op}] expected an index with {a.ndim} axes like the array, got shape {index.shape}."
        )
    if not index.dtype.is_integer:
        raise TypeError(f"[{op}] expected integer indices, got {index.dtype}.")
    for i, (n, m) in enumerate(zip(index.shape, a.shape, strict=True)):
        if i != axis and n > m:
            raise ValueError(
                f"[{op}] index shape {index.shape} is larger than {a.shape} on axis {i}."
            )
    same_device(op, a, index)
    return tuple(
        cast(index, int64) if i == axis else _positions(n, i, a) for i, n in enumerate(index.shape)
    )


def _positions(n: int, axis: int, a: NDArray) -> NDArray:
    """0 .. n-1 along `axis`, size 1 on a's other axes."""
    steps = from_numpy(np.arange(n), int64, a.device)
    shape = tuple(n if i == axis else 1 for i in range(a.ndim))
    strides = tuple(1 if i == axis else 0 for i in range(a.ndim))
    return make_view(shape, strides, 0, int64, a.device, steps._handle)


@array_function
def take_along(a: NDArray, index: NDArray, axis: int) -> NDArray:
    """out[i, j, k] = a[i, index[i, j, k], k] for axis 1: PyTorch's gather."""
    axis = layout.normalize_axis(axis, a.ndim, "gather")
    indices = _along("gather", a, index, axis)
    out = empty(index.shape, a.dtype, a.device)
    _gather("gather", out, a, indices, tuple(range(a.ndim)))
    return out


@array_function
def take(a: NDArray, index: NDArray) -> NDArray:
    """a[index] for an array of one axis and an index of int64."""
    out = empty(index.shape, a.dtype, a.device)
    _gather("take", out, a, (index,), (0,))
    return out


@array_function
def add_along(out: NDArray, index: NDArray, axis: int, value: NDArray) -> None:
    """out[i, index[i, j, k], k] += value[i, j, k] in place, for axis 1: PyTorch's scatter_add_."""
    axis = layout.normalize_axis(axis, out.ndim, "scatter_add")
    indices = _along("scatter_add", out, index, axis)
    values = broadcast_to(cast(value, out.dtype), index.shape)
    _scatter("scatter_add", "add", out, indices, tuple(range(out.ndim)), values)


@array_function
def along_into_zeros(shape: Shape, index: NDArray, axis: int, value: NDArray) -> NDArray:
    """Zeros of a shape with value added along an axis: the adjoint of take_along."""
    out = full_array(shape, 0, value.dtype, value.device)
    add_along(out, index, axis, value)
    return out


@array_function
def one_hot(index: NDArray, n: int, dtype: DTypeLike) -> NDArray:
    """1 at the index and 0 elsewhere, on a new last axis of size n. Floats must be whole."""
    layout.check_sizes((n,), "one_hot")
    given, index = index, cast(index, int64)
    if given.dtype.is_floating:  # a fraction is out of range
        whole = binary("equal", index, given)
        index = where(whole, index, full_array((), NOT_WHOLE, int64, index.device))
    out = full_array((*index.shape, n), 0, dtype_of(dtype), index.device)
    shape, strides = (*index.shape, 1), (*index.strides, 0)
    expanded = make_view(shape, strides, index.offset, int64, index.device, index._handle)
    indices = _along("one_hot", out, expanded, out.ndim - 1)
    ones = full_array((), 1, out.dtype, out.device)
    axes = tuple(range(out.ndim))

    def words(text: str, outside: Outside) -> str:
        is_whole = outside.value != NOT_WHOLE
        return text if is_whole else "[one_hot] expected whole numbers, got fractions."

    with rewrite_index_error(words):
        _scatter("one_hot", "set", out, indices, axes, broadcast_to(ones, expanded.shape))
    return out


@array_function
def unique(
    a: NDArray, axis: int | None, with_index: bool, with_inverse: bool, with_counts: bool,
    equal_nan: bool,
) -> tuple[NDArray, ...]:  # fmt: skip
    """The distinct elements (axis None) or slices in order; with them, if asked for, where each one
    is first, which one each of a's is, and how many there are of each."""
    rest = [i for i in range(a.ndim) if i != axis]
    moved = reshape(a, (a.size,)) if axis is None else permute(a, (axis, *rest))
    n, row = moved.shape[0], moved.shape[1:]
    rows = reshape(moved, (n, math.prod(row)))
    order = from_numpy(np.arange(n), int64, a.device)
    for k in reversed(range(rows.shape[1])):  # the first column decides: sorted last, stably
        column = getitem(rows, (slice(None), k))
        order = getitem(order, argsort(getitem(column, order), 0)) if row else argsort(column, 0)
    ordered = getitem(rows, order)
    starts = full_array((n,), True, bool_, a.device)
    if n:
        setitem(starts, slice(1, None), reduce("any", _changes(ordered, equal_nan), 1))
    first = reshape(nonzero(starts), (-1,) if n else (0,))
    found = reshape(getitem(ordered, first), (*first.shape, *row))
    if axis:
        found = permute(found, (*range(1, axis + 1), 0, *range(axis + 1, a.ndim)))
    results = [found]
    if with_index:
        results.append(getitem(order, first))
    if with_inverse:
        inverse = empty((n,), int64, a.device)
        setitem(inverse, order, binary("subtract", scan("cumsum", starts, 0), 1))
        results.append(reshape(inverse, a.shape if axis is None else (n,)))
    if with_counts:
        stops = concatenate([first, full_array((1,), n, int64, a.device)], 0)
        results.append(binary("subtract", getitem(stops, slice(1, None)), first))
    return tuple(results)


def _changes(ordered: NDArray, equal_nan: bool) -> NDArray:
    """Does each element differ from the one above it? NaN equals NaN if it is to."""
    before, after = getitem(ordered, slice(-1)), getitem(ordered, slice(1, None))
    differ = binary("not_equal", before, after)
    if not (ordered.dtype.is_floating and equal_nan):
        return differ
    both_nan = binary("logical_and", unary("isnan", before), unary("isnan", after))
    return binary("greater", differ, both_nan)
