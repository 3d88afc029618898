"""Iteration spaces: what calls on arrays of other shapes have in common.

A space is a tuple of sizes, outermost in memory first and without sizes of 1. A strided view of its
elements is a tuple of steps, one per size, and an offset. Sizes can be split further without
changing what a view means, so two spaces fit together if they have a common refinement:
(2048, 384) and (8, 256, 384) meet in (8, 256, 384).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..ndarray.layout import Shape
from .graph import FlatValue, Operand


class Access(NamedTuple):
    """How the elements of a space lie in a value."""

    value: FlatValue
    steps: Shape
    offset: int


def memory_order(x: Operand) -> list[int]:
    """The axes of an operand that have more than one element, the longest steps first."""
    axes = [i for i, n in enumerate(x.shape) if n != 1]
    return sorted(axes, key=lambda i: -abs(x.strides[i]))


def access(x: Operand, shape: Shape, axes: Sequence[int]) -> Access:
    """An operand that broadcasts to `shape`, over some of that shape's axes in an order."""
    missing = len(shape) - len(x.shape)
    steps = []
    for i in axes:
        own = i - missing
        steps.append(0 if own < 0 or x.shape[own] == 1 else x.strides[own])
    return Access(x.value, tuple(steps), x.offset)


def refinement(a: Shape, b: Shape) -> Shape | None:
    """The coarsest space that splits both, or None."""
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
    """The numbers of elements in the innermost axis, the innermost two, ..."""
    cuts = []
    total = 1
    for n in reversed(space):
        total *= n
        cuts.append(total)
    return cuts


def split(steps: Shape, space: Shape, refined: Shape) -> Shape:
    """The steps of a view when its space is split further."""
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
    """How many innermost axes have so many elements together; None if no number has."""
    total, count = 1, 0
    for n in reversed(space):
        if total == elements:
            return count
        total *= n
        count += 1
    return count if total == elements else None
