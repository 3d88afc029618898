"""NumPy index expressions -> views and index arrays. Pure bookkeeping: no kernel runs here.

`parse` splits `a[index]` into a *view* (ints, slices, `...`, `None`: a shape, strides, offset) and
the *advanced* part (integer arrays on some axes of that view), and says where the axes of the
advanced part go in the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..layout import Shape


class Parsed(NamedTuple):
    """The view, then which of its axes are indexed by `arrays` (all of one broadcast shape)."""

    shape: Shape
    strides: Shape
    offset: int
    axes: tuple[int, ...]  # axes of the view that the arrays index, in order
    sources: tuple[int, ...]  # the same axes in the array itself, for error messages
    arrays: tuple[Any, ...]
    position: int  # where the broadcast axes of the arrays stand in the result


class Item(NamedTuple):
    """One normalised entry of an index expression."""

    # "int", "slice", "new", "array", "mask0" (an array on a new axis of size 1), or "gap": an
    # ellipsis that stands for no axis, but still parts its neighbours
    kind: str
    value: Any = None
    mask_size: int | None = None  # for an array that came from a mask: the mask's size there


Expand = Callable[[Any], list[Any]]


def normalize(
    entries: list[object], ndim: int, expand_mask: Expand, is_array: Callable[[object], bool]
) -> list[Item]:
    """One Item per entry, `...` written out, masks replaced by the positions of their true ones.

    `expand_mask(mask)` gives one integer array per axis of the mask (for a 0-d mask: one array of
    zeros that indexes a new axis of size 1).
    """
    items: list[Item] = []
    rest: int | None = None  # position of `...` in items
    for entry in entries:
        if entry is Ellipsis:
            if rest is not None:
                raise IndexError("[index] an index may have one ellipsis ('...') only.")
            rest = len(items)
        elif entry is None:
            items.append(Item("new"))
        elif isinstance(entry, slice):
            items.append(Item("slice", entry))
        elif is_array(entry):
            items.extend(_array_items(entry, expand_mask))
        elif hasattr(entry, "__index__"):
            items.append(Item("int", entry.__index__()))
        else:
            raise IndexError(
                "[index] expected integers, slices, '...', None, integer or bool arrays, "
                f"got {type(entry).__name__}."
            )
    used = sum(item.kind not in ("new", "mask0") for item in items)  # axes
    if used > ndim:
        raise IndexError(f"[index] too many indices: {used} for an array with {ndim} axes.")
    everything = [Item("slice", slice(None))] * (ndim - used)
    if rest is None:
        return items + everything
    return items[:rest] + (everything or [Item("gap")]) + items[rest:]


def _array_items(entry: Any, expand_mask: Expand) -> list[Item]:
    if entry.dtype == "bool":
        positions = expand_mask(entry)
        if entry.ndim == 0:
            return [Item("mask0", positions[0])]
        return [Item("array", p, n) for p, n in zip(positions, entry.shape, strict=True)]
    if not entry.dtype.is_integer:
        raise IndexError(
            f"[index] arrays used as indices must be integers or bools, got {entry.dtype}; "
            "cast them first, for example with .astype('int64')."
        )
    return [Item("array", entry)]


def parse(shape: Shape, strides: Shape, offset: int, items: list[Item]) -> Parsed:
    """The view and the advanced part of normalised items (see the module's first lines)."""
    advanced = any(item.kind in ("array", "mask0") for item in items)
    joined = {"array", "mask0", "int"} if advanced else set()
    # NumPy: next to arrays an int counts as an array; neighbours stay in place, others go first.
    places = [i for i, item in enumerate(items) if item.kind in joined]
    adjacent = bool(places) and places == list(range(places[0], places[-1] + 1))

    new_shape: list[int] = []
    new_strides: list[int] = []
    axes: list[int] = []
    sources: list[int] = []
    arrays: list[Any] = []
    position = 0
    axis = 0
    for i, (kind, value, mask_size) in enumerate(items):
        if adjacent and i == places[0]:
            position = len(new_shape)
        if kind == "gap":
            continue
        if kind in ("array", "mask0"):
            axes.append(len(new_shape))
            sources.append(axis)
            arrays.append(value)
        if kind in ("new", "mask0"):  # an axis that the array does not have
            new_shape.append(1)
            new_strides.append(0)
            continue
        size, stride = shape[axis], strides[axis]
        if mask_size not in (None, size):
            raise IndexError(
                f"[index] a bool array must have the size of the axis that it indexes: axis {axis} "
                f"has size {size}, got {mask_size}."
            )
        if kind == "int":
            offset += check_position(value, size, axis) * stride
        elif kind == "slice":
            start, stop, step = _slice_indices(value, size)
            count = len(range(start, stop, step))
            new_shape.append(count)
            new_strides.append(stride * step if count > 1 else stride)  # steps may be huge
            offset += start * stride if count else 0
        else:
            new_shape.append(size)
            new_strides.append(stride)
        axis += 1
    layout = tuple(new_shape), tuple(new_strides), offset
    return Parsed(*layout, tuple(axes), tuple(sources), tuple(arrays), position)


def check_position(value: int, size: int, axis: int) -> int:
    """A non-negative position on an axis."""
    if not -size <= value < size:
        raise out_of_bounds("index", value, size, axis)
    return value + size if value < 0 else value


def out_of_bounds(
    op: str, value: int | str, size: int, axis: int, least: int | None = None
) -> IndexError:
    """The error for a position that an axis does not have; `least` is the first that may be asked
    for, by default the first from the end."""
    least = -size if least is None else least
    advice = f"use {least} to {size - 1}" if size else "the axis is empty"
    return IndexError(
        f"[{op}] index {value} is out of bounds for axis {axis} with size {size}; {advice}."
    )


def _slice_indices(value: slice, size: int) -> tuple[int, int, int]:
    try:
        return value.indices(size)
    except (TypeError, ValueError) as error:
        raise IndexError(f"[index] bad slice {value}: {error}.") from None
