"""The largest element of each window, and where it lies. Arrays are channels-last: (N, S..., C).

Of equal elements the first one of a window (in C order) is the largest; NaN is larger than all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...dtype import DType, bool_, int64
from ...tile import program as tp
from ...tile.program import Program, Symbol, program
from ..array import NDArray, from_numpy, full
from ..functions import array_function, reduce
from ..layout import Shape
from .conv import Tap, Window, spaced, unfold

if TYPE_CHECKING:
    from ...types import NumpyArray

Operands = Callable[[Tap], tuple[NDArray, NDArray]]


def lowest(dtype: DType) -> float | int:
    """What no element of the dtype is below."""
    if dtype is bool_:
        return False
    return -float("inf") if dtype.is_floating else int(np.iinfo(dtype.storage).min)


@array_function
def largest(x: NDArray, window: Window) -> NDArray:
    """(N, S..., C) -> (N, P..., C)"""
    rank = len(window.size)
    windows = unfold(x, window, lowest(x.dtype))
    return reduce("max", windows, tuple(range(1 + rank, 1 + 2 * rank)))


def _first_win(x: Symbol, top: Symbol, found: Symbol) -> tuple[Symbol, Symbol]:
    """For one tap of all windows, which sees x: has the largest been found now, and is it here?"""
    wins = tp.logical_or(tp.equal(x, top), tp.not_equal(x, x))
    return tp.logical_or(found, wins), wins > found


@program
def add_to_winner(
    x: Symbol, top: Symbol, found: Symbol, g: Symbol, sums: Symbol
) -> Symbol | tuple[Symbol, ...]:
    now_found, is_here = _first_win(x, top, found)
    return now_found, sums + tp.where(is_here, g, 0.0)


@program
def take_from_winner(
    x: Symbol, top: Symbol, found: Symbol, seen: Symbol, out: Symbol
) -> Symbol | tuple[Symbol, ...]:
    now_found, is_here = _first_win(x, top, found)
    return now_found, tp.where(is_here, seen, out)


def _visit(source: Program, x: NDArray, window: Window, operands: Operands) -> None:
    """Run a program for each tap, in place; `operands` gives its last two for one."""
    top = largest(x, window)
    found = full(top.shape, False, bool_, x.device)
    for tap in window.taps(x.shape[1:-1], top.shape[1:-1]):
        values = spaced(x, tap.inputs, tap.counts, window.stride)
        given, target = operands(tap)
        ins = (values, outputs(top, tap), outputs(found, tap), given, target)
        typed = source.for_dtypes(tuple([a.dtype for a in ins]))
        x.device.mod.run(typed, (ins[2], target), ins, 0)


def outputs(a: NDArray, tap: Tap) -> NDArray:
    """The part of (N, P..., C) whose windows meet the tap, as a view."""
    return spaced(a, tap.windows, tap.counts, (1,) * len(tap.counts))


@array_function
def pick_largest(x: NDArray, values: NDArray, window: Window) -> NDArray:
    """values (N, S..., C) at the largest element of each window of x: (N, P..., C)"""
    counts = window.output(x.shape[1:-1], "max_pool")
    out = full((x.shape[0], *counts, x.shape[-1]), 0, values.dtype, x.device)

    def operands(tap: Tap) -> tuple[NDArray, NDArray]:
        return spaced(values, tap.inputs, tap.counts, window.stride), outputs(out, tap)

    _visit(take_from_winner, x, window, operands)
    return out


@array_function
def spread_largest(x: NDArray, g: NDArray, window: Window) -> NDArray:
    """The adjoint of pick_largest: g (N, P..., C) added at the largest elements, (N, S..., C)"""
    x, g = x.compact(), g.compact()  # each tap would read them across memory
    out = full(x.shape, 0, g.dtype, x.device)

    def operands(tap: Tap) -> tuple[NDArray, NDArray]:
        return outputs(g, tap), spaced(out, tap.inputs, tap.counts, window.stride)

    _visit(add_to_winner, x, window, operands)
    return out


@array_function
def largest_position(x: NDArray, window: Window) -> NDArray:
    """Where the largest element of each window lies: its place in (S...), counted in C order; -1
    for a window that lies in the padding."""
    spatial = x.shape[1:-1]
    counts = window.output(spatial, "max_pool")
    out = full((x.shape[0], *counts, x.shape[-1]), -1, int64, x.device)
    places = np.arange(np.prod(spatial, dtype=int)).reshape(1, *spatial, 1)
    place = from_numpy(places, int64, x.device)

    def operands(tap: Tap) -> tuple[NDArray, NDArray]:
        seen = spaced(place, tap.inputs, tap.counts, window.stride)
        return seen, outputs(out, tap)

    _visit(take_from_winner, x, window, operands)
    return out


# Windows of unequal sizes -------------------------------------------------------------------------


def adaptive_bounds(n: int, parts: int) -> list[tuple[int, int]]:
    """The parts of n elements: part i is [floor(i n / parts), ceil((i + 1) n / parts))."""
    return [(i * n // parts, -(-(i + 1) * n // parts)) for i in range(parts)]


def adaptive_places(spatial: Shape, parts: Shape) -> NumpyArray:
    """(P, K): the places in (S...) that each window sees; shorter windows repeat some."""
    places = np.zeros((1, 1), np.int64)
    for n, count in zip(spatial, parts, strict=True):
        bounds = adaptive_bounds(n, count)
        longest = max(b - a for a, b in bounds)
        along = np.array([[min(a + k, b - 1) for k in range(longest)] for a, b in bounds])
        grid = places[:, None, :, None] * n + along[None, :, None, :]
        places = grid.reshape(places.shape[0] * count, -1)
    return places
