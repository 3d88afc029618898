"""Iteration spaces: how calls on arrays of different shapes can share one loop.

A space is a tuple of sizes, outermost in memory first, without sizes of 1. A strided view of its
elements is a tuple of steps, one per size, and an offset. A size can be split into factors without
changing what a view means, so two spaces fit together if they have a common refinement: that of
(2048, 384) and (8, 256, 384) is (8, 256, 384).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...ndarray.layout import Shape
from ..ir.graph import FlatValue, Operand


class Access(NamedTuple):
    """Where the elements of a space are in a value: a step per axis, and an offset."""

    value: FlatValue
    steps: Shape
    offset: int


def memory_order(x: Operand) -> list[int]:
    """The axes of an operand that have more than one element, longest stride first."""
    axes = [i for i, n in enumerate(x.shape) if n != 1]
    return sorted(axes, key=lambda i: -abs(x.strides[i]))


def access(x: Operand, shape: Shape, axes: Sequence[int]) -> Access:
    """The access of an operand, broadcast to `shape`, over some of that shape's axes in order."""
    missing = len(shape) - len(x.shape)
    steps = []
    for i in axes:
        own = i - missing
        steps.append(0 if own < 0 or x.shape[own] == 1 else x.strides[own])
    return Access(x.value, tuple(steps), x.offset)


def refinement(a: Shape, b: Shape) -> Shape | None:
    """The coarsest common refinement of two spaces, or None.

    >>> refinement((6, 4), (3, 8))
    (3, 2, 4)
    """
    if math.prod(a) != math.prod(b):
        return None
    cuts = sorted({*_cuts(a), *_cuts(b)})
    sizes = []
    before = 1
    for cut in cuts:
        if cut % before:
            return None
        sizes.append(cut // before)
        before = cut
    return tuple(reversed(sizes))


def _cuts(space: Shape) -> list[int]:
    """How many elements the innermost axis has, the innermost two, ..."""
    cuts = []
    total = 1
    for n in reversed(space):
        total *= n
        cuts.append(total)
    return cuts


def split(steps: Shape, space: Shape, refined: Shape) -> Shape:
    """The steps of a view of a space in a refinement of that space."""
    result: list[int] = []
    rest = list(refined)
    for n, step in zip(reversed(space), reversed(steps), strict=True):
        inner = 1
        while inner < n:
            size = rest.pop()
            result.append(step * inner)
            inner *= size
    return tuple(reversed(result))


def count_of(space: Shape, elements: int) -> int | None:
    """How many innermost axes have `elements` elements together; None if no number of them has."""
    total, count = 1, 0
    for n in reversed(space):
        if total == elements:
            return count
        total *= n
        count += 1
    return count if total == elements else None
