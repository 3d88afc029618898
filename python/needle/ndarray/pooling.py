"""The largest element of each window, and where it lies. Arrays are channels-last: (N, S..., C).

Of equal elements the first one of a window (in C order) is the largest; NaN is larger than all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..dtype import DType, bool_, int64
from .array import NDArray, from_numpy, full
from .functions import array_function, binary, reduce, unary, where
from .layout import Shape
from .windows import Tap, Window, spaced, unfold


def lowest(dtype: DType) -> Any:
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


def _winners(x: NDArray, window: Window) -> Iterator[tuple[Tap, NDArray]]:
    """Tap by tap: is the input that it sees the largest of the window?"""
    top = largest(x, window)
    counts = top.shape[1:-1]
    found = full(top.shape, False, bool_, x.device)
    for tap in window.taps(x.shape[1:-1], counts):
        values = spaced(x, tap.inputs, tap.counts, window.stride)
        wins = binary("equal", values, outputs(top, tap))
        if x.dtype.is_floating:
            wins = binary("logical_or", wins, unary("isnan", values))
        before = outputs(found, tap)
        first = binary("greater", wins, before)  # and not found before
        x.device.mod.binary("logical_or", before, before, wins)
        yield tap, first


def outputs(a: NDArray, tap: Tap) -> NDArray:
    """The part of (N, P..., C) whose windows meet the tap, as a view."""
    return spaced(a, tap.windows, tap.counts, (1,) * len(tap.counts))


@array_function
def pick_largest(x: NDArray, values: NDArray, window: Window) -> NDArray:
    """values (N, S..., C) at the largest element of each window of x: (N, P..., C)"""
    counts = window.output(x.shape[1:-1], "max_pool")
    out = full((x.shape[0], *counts, x.shape[-1]), 0, values.dtype, x.device)
    for tap, wins in _winners(x, window):
        target = outputs(out, tap)
        source = spaced(values, tap.inputs, tap.counts, window.stride)
        out.device.mod.where(target, wins, source, target)
    return out


@array_function
def spread_largest(x: NDArray, g: NDArray, window: Window) -> NDArray:
    """The adjoint of pick_largest: g (N, P..., C) added at the largest elements, (N, S..., C)"""
    out = full(x.shape, 0, g.dtype, x.device)
    zero = full((), 0, g.dtype, x.device)
    for tap, wins in _winners(x, window):
        target = spaced(out, tap.inputs, tap.counts, window.stride)
        out.device.mod.binary("add", target, target, where(wins, outputs(g, tap), zero))
    return out


@array_function
def largest_position(x: NDArray, window: Window) -> NDArray:
    """Where the largest element of each window lies: its place in (S...), counted in C order."""
    spatial = x.shape[1:-1]
    counts = window.output(spatial, "max_pool")
    out = full((x.shape[0], *counts, x.shape[-1]), 0, int64, x.device)
    places = np.arange(np.prod(spatial, dtype=int)).reshape(1, *spatial, 1)
    place = from_numpy(places, int64, x.device)
    for tap, wins in _winners(x, window):
        target = outputs(out, tap)
        seen = spaced(place, tap.inputs, tap.counts, window.stride)
        out.device.mod.where(target, wins, seen, target)
    return out


# Windows of unequal sizes -------------------------------------------------------------------------


def adaptive_bounds(n: int, parts: int) -> list[tuple[int, int]]:
    """The parts of n elements: part i is [floor(i n / parts), ceil((i + 1) n / parts))."""
    return [(i * n // parts, -(-(i + 1) * n // parts)) for i in range(parts)]


def adaptive_places(spatial: Shape, parts: Shape) -> np.ndarray[Any, Any]:
    """(P, K): the places in (S...) that each window sees; shorter windows repeat some."""
    places = np.zeros((1, 1), np.int64)
    for n, count in zip(spatial, parts, strict=True):
        bounds = adaptive_bounds(n, count)
        longest = max(b - a for a, b in bounds)
        along = np.array([[min(a + k, b - 1) for k in range(longest)] for a, b in bounds])
        grid = places[:, None, :, None] * n + along[None, :, None, :]
        places = grid.reshape(places.shape[0] * count, -1)
    return places
