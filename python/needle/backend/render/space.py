"""The space that a rendered program runs over: rows of elements, and where operands have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ...tile.ir import TypedProgram
    from ...types import Shape
    from ..protocol import Operand


class NotRendered(Exception):
    """A program that has no C form here; the message says why."""


class Steps(NamedTuple):
    """How an operand moves, in elements: from row to row, and along a row."""

    outer: Shape
    inner: Shape


@dataclass(frozen=True)
class Space:
    """Rows of elements, and how each operand lies there (outputs first).

    Without inner axes a row is one element, and the outer axis is the elements' own.
    """

    outer: Shape
    inner: Shape
    steps: tuple[Steps, ...]

    @property
    def rows(self) -> int:
        return math.prod(self.outer)

    @property
    def length(self) -> int:
        return math.prod(self.inner)

    @property
    def is_flat(self) -> bool:
        return not self.inner

    @property
    def is_transposed(self) -> bool:
        """Are the elements of an operand's rows further apart than its rows?"""
        return any(
            0 < abs(row) < abs(col)
            for steps in self.steps
            for row in steps.outer
            for col in steps.inner
        )


def space_of(
    typed: TypedProgram, outs: Sequence[Operand], ins: Sequence[Operand], inner: int
) -> Space:
    """The space of a call. Operands have a shape and strides, as in `Backend.run`."""
    operands = (*outs, *ins)
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    if 0 in shape:
        raise NotRendered("it has no elements")
    strides = [_spread(x, shape) for x in operands]
    if typed.is_elementwise:
        axes = list(range(len(shape)))
        if not typed.is_random:  # whose numbers follow C order
            axes.sort(key=lambda d: -abs(strides[0][d]))
        sizes, steps = _merged([shape[d] for d in axes], [[s[d] for d in axes] for s in strides])
        if len(sizes) <= 1:
            return Space(sizes or (1,), (), tuple(Steps(s or (0,), ()) for s in steps))
        return Space(sizes[:-1], sizes[-1:], tuple(Steps(s[:-1], s[-1:]) for s in steps))
    cut = len(shape) - inner
    outer, over = _merged(shape[:cut], [s[:cut] for s in strides])
    rest, along = _merged(shape[cut:], [s[cut:] for s in strides])
    if not rest:
        rest, along = (1,), [(0,) for _ in operands]
    return Space(outer, rest, tuple(map(Steps, over, along)))


def _spread(x: Operand, shape: Shape) -> list[int]:
    """The strides of an operand that is broadcast to a shape."""
    own = [0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)]
    return [0] * (len(shape) - len(own)) + own


def _merged(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[Shape, list[Shape]]:
    """Fewer axes with the same elements in the same order: those of size 1 go, and two become one
    where all operands walk through both as through one."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(own[-1] == s[d] * n for own, s in zip(steps, strides, strict=True)):
            sizes[-1] *= n
            for own, s in zip(steps, strides, strict=True):
                own[-1] = s[d]
        else:
            sizes.append(n)
            for own, s in zip(steps, strides, strict=True):
                own.append(s[d])
    return tuple(sizes), [tuple(s) for s in steps]
