"""Shapes and strides: pure functions on tuples. No array, no device.

Strides count elements. A *layout* is (shape, strides, offset).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .. import _native

if TYPE_CHECKING:
    from ..types import Axes

Shape = tuple[int, ...]

# Networks ask the same questions in every step: a remembered answer is ten times as fast. Only for
# functions of checked ints, since 2.0 and 2 are one key.
remembered = lru_cache(4096)


class Size(int):
    """A number of elements (NumPy's x.size) that, called, is the shape (PyTorch's x.size()).

    >>> Size.of((2, 3)), Size.of((2, 3))(), Size.of((2, 3))(0)
    (6, (2, 3), 2)
    """

    shape: Shape

    @classmethod
    def of(cls, shape: Shape) -> Size:
        """The size of a shape."""
        size = cls(math.prod(shape))
        size.shape = shape
        return size

    def __call__(self, dim: int | None = None) -> tuple[int, ...] | int:
        if dim is None:
            return self.shape
        return self.shape[normalize_axis(dim, len(self.shape), "size")]

    def __reduce__(self) -> tuple[object, ...]:
        return (int, (int(self),))


@remembered
def compact_strides(shape: Shape) -> Shape:
    """Row-major strides.

    >>> compact_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    strides.reverse()
    return tuple(strides)


def is_row_major(shape: Shape, strides: Shape) -> bool:
    """Do these strides walk the elements in C order without gaps? Axes of size 1 don't matter."""
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1:
            if stride != step:
                return False
            step *= n
    return True


def effective_strides(shape: Shape, strides: Shape) -> Shape:
    """The strides, with 0 for axes of size 1, where every stride means the same.

    >>> effective_strides((2, 1, 3), (3, 7, 1))
    (3, 0, 1)
    """
    return tuple([0 if n == 1 else s for n, s in zip(shape, strides, strict=True)])


def strides_in_order(shape: Shape, strides: Shape) -> Shape:
    """Strides of another shape without gaps, whose axes lie in memory as those of these strides.

    >>> strides_in_order((2, 9, 4, 5), (60, 1, 15, 3))  # channels stay the last axis in memory
    (180, 1, 45, 9)
    """
    found, step = [0] * len(shape), 1
    for i in sorted(range(len(shape)), key=lambda i: -abs(strides[i]))[::-1]:
        found[i] = step
        step *= shape[i]
    return tuple(found)


def normalize_axis(axis: Any, ndim: int, op: str) -> int:
    """A valid non-negative axis, or an error that says what was wrong."""
    try:
        if isinstance(axis, bool):  # True is an int, and no axis
            raise TypeError
        value: int = axis.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"[{op}] axis must be an integer, got {axis!r:.60}.") from None
    if not -ndim <= value < ndim:
        raise ValueError(
            f"[{op}] axis {value} is out of range for an array with {ndim} axes; "
            + (f"use {-ndim} to {ndim - 1}." if ndim else "a 0-d array has no axes.")
        )
    return value + ndim if value < 0 else value


def names_element(axis: object, ndim: int) -> bool:
    """Is this axis 0 or -1 of a 0-d array? Along it lies the one element, as in PyTorch."""
    return ndim == 0 and hasattr(axis, "__index__") and axis.__index__() in (0, -1)


def normalize_axes(axes: Axes, ndim: int, op: str) -> Shape:
    """None (all), an int or a sequence of ints -> sorted distinct non-negative axes.

    Of a 0-d array, axis 0 gives no axes."""
    if axes is None:
        return tuple(range(ndim))
    if isinstance(axes, int) or not isinstance(axes, Iterable):
        return () if not ndim and names_element(axes, ndim) else (normalize_axis(axes, ndim, op),)
    listed = tuple(axes)
    if not ndim and len(listed) == 1 and names_element(listed[0], ndim):
        return ()
    found = [normalize_axis(a, ndim, op) for a in listed]
    if len(set(found)) != len(found):
        raise ValueError(f"[{op}] axes must be distinct, got {listed}.")
    return tuple(sorted(found))


def normalize_shape(shape: Any, op: str) -> Shape:
    """An int or a sequence of ints -> a tuple; negative sizes are left to the caller."""
    if hasattr(shape, "__index__") and not getattr(shape, "ndim", 0):  # no array of sizes
        shape = (shape,)
    try:
        return tuple([n.__index__() for n in shape])
    except (TypeError, AttributeError):
        raise TypeError(f"[{op}] a shape is made of integers, got {shape!r}.") from None


def check_sizes(shape: Shape, op: str) -> Shape:
    """The shape itself if no size is negative."""
    for n in shape:
        if n < 0:
            raise ValueError(f"[{op}] sizes must not be negative, got {shape}.")
    return shape


@remembered
def broadcast_shapes(op: str, *shapes: Shape) -> Shape:
    """The common shape by NumPy's rules: align on the right, sizes of 1 stretch.

    >>> broadcast_shapes("add", (3, 1), (4,))
    (3, 4)
    """
    found = _native.joined_shape(shapes)
    if isinstance(found, tuple):
        return found
    sizes = [shape[found] for shape in shapes if len(shape) >= -found and shape[found] != 1]
    other = next(n for n in sizes if n != sizes[0])
    listed = " and ".join(map(str, shapes))
    raise ValueError(
        f"[{op}] shapes {listed} do not broadcast: sizes {sizes[0]} and {other} differ in axis "
        f"{found}; sizes must be equal or 1."
    )


def broadcast_strides(shape: Shape, strides: Shape, new_shape: Shape, op: str) -> Shape:
    """The strides with which `shape` appears as `new_shape`: 0 on stretched axes."""
    check_sizes(new_shape, op)
    extra = len(new_shape) - len(shape)
    fits = extra >= 0 and all(n in (1, m) for n, m in zip(shape, new_shape[extra:], strict=True))
    if not fits:
        raise ValueError(
            f"[{op}] cannot broadcast {shape} to {new_shape}; aligned on the right, each size must "
            "be equal or 1."
        )
    stretched = (
        0 if n == 1 and m != 1 else s
        for n, m, s in zip(shape, new_shape[extra:], strides, strict=True)
    )
    return (0,) * extra + tuple(stretched)


@remembered
def infer_reshape(shape: Shape, new_shape: Shape) -> Shape:
    """Fill in one -1 and check the number of elements.

    >>> infer_reshape((2, 6), (-1, 4))
    (3, 4)
    """
    size = math.prod(shape)
    unknown = new_shape.count(-1)
    if unknown > 1 or any(n < -1 for n in new_shape):
        raise ValueError(f"[reshape] at most one size may be -1 and none below, got {new_shape}.")
    if unknown:
        known = math.prod(n for n in new_shape if n != -1)
        if known == 0 or size % known:
            raise ValueError(
                f"[reshape] cannot fill in -1: {shape} has {size} elements, and {new_shape} needs "
                f"a multiple of {known}."
            )
        new_shape = tuple(size // known if n == -1 else n for n in new_shape)
    if math.prod(new_shape) != size:
        raise ValueError(
            f"[reshape] cannot reshape {shape} ({size} elements) to {new_shape} "
            f"({math.prod(new_shape)} elements)."
        )
    return new_shape


@remembered
def reshape_strides(shape: Shape, strides: Shape, new_shape: Shape) -> Shape | None:
    """Strides that show the same elements as `new_shape` without a copy, or None.

    Old and new axes are matched in groups of equal product; inside a group the old axes must be
    one even walk (each stride = the next one's stride times its size).
    """
    if math.prod(shape) == 0:
        return compact_strides(new_shape)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    result: list[int] = []
    i = j = 0
    while j < len(new_shape):
        if new_shape[j] == 1:
            result.append(result[-1] if result else 1)
            j += 1
            continue
        (size, step), first = old[i], j
        i, j, new_size = i + 1, j + 1, new_shape[j]
        while size != new_size:
            if new_size < size:
                new_size *= new_shape[j]
                j += 1
            else:
                n, s = old[i]
                if step != n * s:
                    return None
                size, step, i = size * n, s, i + 1
        group = compact_strides(new_shape[first:j])
        result.extend(step * s for s in group)
    return tuple(result)


def permuted(values: Sequence[int], axes: Sequence[int]) -> Shape:
    """values in the order of axes."""
    return tuple([values[a] for a in axes])


def normalize_permutation(axes: Iterable[int], ndim: int, op: str) -> Shape:
    """All axes, each once, negative ones counted from the end."""
    found = tuple([normalize_axis(a, ndim, op) for a in axes])
    if sorted(found) != list(range(ndim)):
        raise ValueError(f"[{op}] axes must name each of the {ndim} axes once, got {tuple(axes)}.")
    return found


@remembered
def reduced_shape(shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    """The shape after reducing sorted, distinct axes."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)
