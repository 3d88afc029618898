"""Reading and writing by NumPy index expressions, and along one axis.

A plain selection is a view. With index arrays, the indexed axes of the view move to the front and
one `gather` or `scatter` kernel does the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..dtype import dtype_of, int64
from . import layout
from .array import NDArray, empty, from_numpy, make_view
from .array import full as full_array
from .functions import array_function, assign, broadcast_to, cast, nonzero, permute, same_device
from .indexing import normalize, parse
from .layout import Shape


class Selection(NamedTuple):
    """A view whose first axes are indexed by arrays of shape `batch`; see `restore`."""

    view: NDArray
    indices: tuple[NDArray, ...]  # int64, broadcastable to batch
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


def _as_index(entry: Any, a: NDArray) -> Any:
    """Lists, NumPy arrays and bools as NDArrays on a's device; the rest as it is."""
    if isinstance(entry, (list, np.ndarray, np.bool_, bool)):
        array = np.asarray(entry)
        if array.size == 0 and isinstance(entry, list):
            array = array.astype(np.int64)
        return from_numpy(array, dtype_of(array.dtype), a.device)
    if isinstance(entry, NDArray):
        same_device("index", a, entry)
    return entry


def _expand_mask(mask: NDArray) -> list[NDArray]:
    if mask.ndim == 0:
        return [full_array((int(mask.item()),), 0, int64, mask.device)]
    found = nonzero(mask)
    count, width = found.shape
    return [
        make_view((count,), (width,), i, int64, mask.device, found._handle) for i in range(width)
    ]


def select(a: NDArray, index: Any) -> Selection:
    """Resolve an index expression against an array."""
    entries = list(index) if isinstance(index, tuple) else [index]
    entries = [_as_index(e, a) for e in entries]
    items = normalize(entries, a.ndim, _expand_mask, lambda e: isinstance(e, NDArray))
    found = parse(a.shape, a.strides, a.offset, items)
    view = make_view(found.shape, found.strides, found.offset, a.dtype, a.device, a._handle)
    rest = [i for i in range(view.ndim) if i not in found.axes]
    batch = layout.broadcast_shapes("index", *(i.shape for i in found.arrays))
    indices = tuple(cast(i, int64) for i in found.arrays)
    return Selection(permute(view, [*found.axes, *rest]), indices, batch, found.position)


@array_function
def getitem(a: NDArray, index: Any) -> NDArray:
    """a[index]: a view for ints, slices, '...' and None; a copy with index arrays."""
    s = select(a, index)
    if not s.indices:
        return s.view
    out = empty(s.moved_shape, a.dtype, a.device)
    a.device.mod.gather(out, s.view, s.indices)
    return s.restore(out)


@array_function
def setitem(a: NDArray, index: Any, value: Any) -> None:
    """a[index] = value, in place; value broadcasts."""
    s = select(a, index)
    if not s.indices:
        return assign(s.view, value)
    # Through a full-size array of a's dtype: assign checks kinds and shapes the same way.
    values = empty(s.result_shape, a.dtype, a.device)
    assign(values, value)
    a.device.mod.scatter("set", s.view, s.indices, s.move(values))


@array_function
def add_at(a: NDArray, index: Any, value: NDArray) -> None:
    """a[index] += value in place, where repeated positions add up (NumPy's add.at)."""
    s = select(a, index)
    if not s.indices:
        return a.device.mod.binary("add", s.view, s.view, cast(value, a.dtype))
    values = broadcast_to(cast(value, a.dtype), s.result_shape)
    a.device.mod.scatter("add", s.view, s.indices, s.move(values))


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
    a.device.mod.gather(out, a, indices)
    return out


@array_function
def add_along(out: NDArray, index: NDArray, axis: int, value: NDArray) -> None:
    """out[i, index[i, j, k], k] += value[i, j, k] in place, for axis 1: PyTorch's scatter_add_."""
    axis = layout.normalize_axis(axis, out.ndim, "scatter_add")
    indices = _along("scatter_add", out, index, axis)
    values = broadcast_to(cast(value, out.dtype), index.shape)
    out.device.mod.scatter("add", out, indices, values)


@array_function
def one_hot(index: NDArray, n: int, dtype: Any) -> NDArray:
    """1 at the index and 0 elsewhere, on a new last axis of size n."""
    index = cast(index, int64)
    out = full_array((*index.shape, n), 0, dtype_of(dtype), index.device)
    shape, strides = (*index.shape, 1), (*index.strides, 0)
    expanded = make_view(shape, strides, index.offset, int64, index.device, index._handle)
    indices = _along("one_hot", out, expanded, out.ndim - 1)
    ones = full_array((), 1, out.dtype, out.device)
    out.device.mod.scatter("set", out, indices, broadcast_to(ones, expanded.shape))
    return out

