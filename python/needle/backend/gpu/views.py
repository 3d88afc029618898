"""Operands as kernels see them: new ones, other views of old ones, and spaces of axes in bytes.

What a kernel takes is a struct: addresses, then what `members` packs. `Operands` of operand.cuh are
addresses, too, followed by what `space` packs.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ..._native import cuda
from ...dtype import DType
from ..protocol import Handle, Operand, Steps

PER_BLOCK = 256 * 4  # elements that a block of an elementwise kernel sees to (operand.cuh)
MOST_AXES = 8


class View:
    """A strided view of a handle: an operand."""

    __slots__ = ("_handle", "shape", "strides", "offset", "dtype")

    def __init__(self, handle: Any, shape: Steps, strides: Steps, offset: int, dtype: DType):
        self._handle = handle
        self.shape, self.strides, self.offset, self.dtype = shape, strides, offset, dtype


def compact_strides(shape: Steps) -> Steps:
    """Of C order."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def new(shape: Steps, dtype: DType) -> View:
    """A new operand in C order."""
    handle: Handle = cuda.empty(math.prod(shape), dtype)
    return View(handle, shape, compact_strides(shape), 0, dtype)


def seen_as(a: Operand, shape: Steps, strides: Steps, offset: int = 0) -> View:
    """Another view of an operand's memory, `offset` elements further."""
    return View(a._handle, shape, strides, a.offset + offset, a.dtype)


def one_of(a: Operand, index: int) -> View:
    """a[index]"""
    return seen_as(a, a.shape[1:], a.strides[1:], index * a.strides[0])


def broadcast_strides(a: Operand, shape: Steps) -> Steps:
    """The strides with which a's elements fill a shape."""
    missing = len(shape) - len(a.shape)
    own = zip(a.shape, a.strides, shape[missing:], strict=True)
    return (0,) * missing + tuple(0 if n == 1 else stride for n, stride, _ in own)


def front(a: Operand, shape: Steps, last: int) -> Steps:
    """The strides of all axes but the last few, broadcast to a shape of such axes."""
    cut = len(a.shape) - last
    return broadcast_strides(View(None, a.shape[:cut], a.strides[:cut], 0, a.dtype), shape)


def joined(shape: Steps, strides: Sequence[Steps]) -> list[tuple[int, Steps]]:
    """Axes that neighbour in every operand as one: (size, its stride in each operand)."""
    axes: list[tuple[int, Steps]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        steps = tuple(s[axis] for s in strides)
        if axes and axes[-1][1] == tuple(size * step for step in steps):
            axes[-1] = (axes[-1][0] * size, steps)
        else:
            axes.append((size, steps))
    return axes


def step_over(shape: Steps, strides: Steps) -> int | None:
    """The one stride that visits these axes in C order, if there is one."""
    axes = joined(shape, [strides])
    if len(axes) > 1:
        return None
    return axes[0][1][0] if axes else 0


def space(shape: Steps, strides: Sequence[Steps], least: int = 1) -> tuple[int, bytes]:
    """The rank of Operands (1, 2, 4 or 8, at least so many) and its bytes after the addresses."""
    axes = joined(shape, strides)
    rank = next(n for n in (1, 2, 4, MOST_AXES) if n >= max(len(axes), least))
    axes = [(1, (0,) * len(strides))] * (rank - len(axes)) + axes
    steps = [axis[1][i] for i in range(len(strides)) for axis in axes]
    sizes = [axis[0] for axis in axes]
    return rank, struct.pack(f"{len(steps)}q{rank}II0q", *steps, *sizes, math.prod(sizes))


def members(layout: str, *values: float) -> bytes:
    """Members of a struct, up to a multiple of 8 bytes: "2q3I" are two i64 and three u32."""
    return struct.pack(layout + "0q", *values)


def has_few_axes(shape: Steps, strides: Sequence[Steps]) -> bool:
    """Can a kernel take this space?"""
    return len(joined(shape, strides)) <= MOST_AXES


def in_compact(a: Operand) -> View:
    """A copy of an operand in C order."""
    from .elementwise import copy

    result = new(tuple(a.shape), a.dtype)
    copy(result, a)
    return result


def through_compact(
    call: Callable[..., None], outs: Sequence[Operand | None], ins: Sequence[Operand | None]
) -> None:
    """Call a kernel with operands in C order, for those that it cannot take as they are."""
    from .elementwise import copy

    made = [None if o is None else new(tuple(o.shape), o.dtype) for o in outs]
    call(*made, *(None if a is None else in_compact(a) for a in ins))
    for out, result in zip(outs, made, strict=True):
        if out is not None and result is not None:
            copy(out, result)


def blocks_for(count: int, each: int = 256) -> int:
    """How many blocks see to so many items."""
    return -(-count // each)
