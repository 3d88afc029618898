"""Sliding windows over spatial axes, and the sum that undoes them.

Arrays are channels-last: (N, S..., C), with as many spatial axes S as `Window` has entries.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from ..dtype import promote
from .array import NDArray, empty, full, make_view
from .functions import array_function, cast, pad, permute, reshape, same_device
from .layout import Shape


class Window(NamedTuple):
    """The geometry of a convolution or pooling: one entry per spatial axis."""

    size: Shape
    stride: Shape
    padding: tuple[tuple[int, int], ...]  # (before, after)
    dilation: Shape

    def output(self, spatial: Shape, op: str) -> Shape:
        """How many windows fit along each axis."""
        counts = []
        for n, k, step, (before, after), d in zip(spatial, *self, strict=True):
            reach = d * (k - 1) + 1
            room = n + before + after - reach
            if room < 0:
                raise ValueError(
                    f"[{op}] the window is larger than the padded input: window {self.size} with "
                    f"dilation {self.dilation} on spatial shape {spatial} with padding "
                    f"{self.padding}; use a smaller kernel or more padding."
                )
            counts.append(room // step + 1)
        return tuple(counts)

    def padded(self, spatial: Shape) -> Shape:
        return tuple(n + a + b for n, (a, b) in zip(spatial, self.padding, strict=True))


def _around(window: Window, ndim: int) -> list[tuple[int, int]]:
    """The padding of all axes: none on batch and channels."""
    return [(0, 0), *window.padding, (0, 0)] if ndim else []


@array_function
def unfold(x: NDArray, window: Window, fill: float = 0) -> NDArray:
    """(N, S..., C) -> (N, O..., K..., C): every window, as a view of the padded array."""
    counts = window.output(x.shape[1:-1], "unfold")
    if any(a or b for a, b in window.padding):
        x = pad(x, _around(window, x.ndim), fill)
    spatial = x.strides[1:-1]
    steps = tuple(s * step for s, step in zip(spatial, window.stride, strict=True))
    taps = tuple(s * d for s, d in zip(spatial, window.dilation, strict=True))
    shape = (x.shape[0], *counts, *window.size, x.shape[-1])
    strides = (x.strides[0], *steps, *taps, x.strides[-1])
    return make_view(shape, strides, x.offset, x.dtype, x.device, x._handle)


@array_function
def fold(windows: NDArray, window: Window, spatial: Shape) -> NDArray:
    """(N, O..., K..., C) -> (N, S..., C): windows added up where they overlap, padding dropped."""
    n, channels = windows.shape[0], windows.shape[-1]
    rank = len(spatial)
    out = full((n, *window.padded(spatial), channels), 0, windows.dtype, windows.device)
    counts = windows.shape[1 : 1 + rank]
    steps = tuple(s * step for s, step in zip(out.strides[1:-1], window.stride, strict=True))
    strides = (out.strides[0], *steps, out.strides[-1])
    kept = (windows.strides[0], *windows.strides[1 : 1 + rank], windows.strides[-1])
    for tap in itertools.product(*map(range, window.size)):
        start = sum(
            t * d * s for t, d, s in zip(tap, window.dilation, out.strides[1:-1], strict=True)
        )
        target = _part(out, (n, *counts, channels), strides, start)
        within = sum(t * s for t, s in zip(tap, windows.strides[1 + rank : -1], strict=True))
        source = _part(windows, (n, *counts, channels), kept, windows.offset + within)
        out.device.mod.binary("add", target, target, source)
    begin = sum(a * s for (a, _), s in zip(window.padding, out.strides[1:-1], strict=True))
    return _part(out, (n, *spatial, channels), out.strides, begin)


def _part(a: NDArray, shape: Shape, strides: Shape, offset: int) -> NDArray:
    return make_view(shape, strides, offset, a.dtype, a.device, a._handle)


# Convolution: (N, S..., C) with weights (K..., C/G, O) -> (N, P..., O) --------------------------


def _grouped(windows: NDArray, groups: int, rank: int) -> NDArray:
    """(N, P..., K..., C) -> (G, N P, K C/G): the left matrix of each group's product."""
    n, counts = windows.shape[0], windows.shape[1 : 1 + rank]
    taps, channels = windows.shape[1 + rank : -1], windows.shape[-1]
    split = reshape(windows, (n, *counts, *taps, groups, channels // groups))
    g = split.ndim - 2
    moved = permute(split, [g, *range(g), g + 1])
    rows, columns = n * _product(counts), _product(taps) * (channels // groups)
    return reshape(moved, (groups, rows, columns))


def _weight_matrix(w: NDArray, groups: int) -> NDArray:
    """(K..., C/G, O) -> (G, K C/G, O/G)"""
    out = w.shape[-1]
    split = reshape(w, (_product(w.shape[:-1]), groups, out // groups))
    return permute(split, (1, 0, 2))


def _output_matrix(y: NDArray, groups: int) -> NDArray:
    """(N, P..., O) -> (G, N P, O/G)"""
    out = y.shape[-1]
    split = reshape(y, (_product(y.shape[:-1]), groups, out // groups))
    return permute(split, (1, 0, 2))


def _product(sizes: Any) -> int:
    total = 1
    for n in sizes:
        total *= n
    return total


def _matmul(a: NDArray, b: NDArray) -> NDArray:
    out = empty((a.shape[0], a.shape[1], b.shape[2]), a.dtype, a.device)
    a.device.mod.matmul(out, a, b)
    return out


@array_function
def conv(x: NDArray, w: NDArray, window: Window, groups: int) -> NDArray:
    """y[n, p, o] = sum over taps k and channels c of x[n, p·stride + k·dilation, c] w[k, c, o]"""
    device = same_device("conv", x, w)
    dtype = promote(x.dtype, w.dtype)
    x, w = cast(x, dtype), cast(w, dtype)
    assert x.device == device
    rank = len(window.size)
    windows = unfold(x, window)
    product = _matmul(_grouped(windows, groups, rank), _weight_matrix(w, groups))
    joined = permute(product, (1, 0, 2))  # (N P, G, O/G)
    return reshape(joined, (*windows.shape[: 1 + rank], w.shape[-1]))


@array_function
def conv_by_data(y: NDArray, w: NDArray, window: Window, groups: int, spatial: Shape) -> NDArray:
    """The adjoint of conv in x: also the transposed convolution of y with w."""
    dtype = promote(y.dtype, w.dtype)
    y, w = cast(y, dtype), cast(w, dtype)
    n, counts = y.shape[0], y.shape[1:-1]
    weights = permute(_weight_matrix(w, groups), (0, 2, 1))  # (G, O/G, K C/G)
    product = _matmul(_output_matrix(y, groups), weights)  # (G, N P, K C/G)
    per_group = w.shape[-2]
    split = reshape(product, (groups, n, *counts, *window.size, per_group))
    last = split.ndim - 1
    moved = permute(split, [*range(1, last), 0, last])  # (N, P..., K..., G, C/G)
    windows = reshape(moved, (n, *counts, *window.size, groups * per_group))
    return fold(windows, window, spatial)


@array_function
def conv_by_weight(x: NDArray, y: NDArray, window: Window, groups: int) -> NDArray:
    """The adjoint of conv in w."""
    dtype = promote(x.dtype, y.dtype)
    x, y = cast(x, dtype), cast(y, dtype)
    rank = len(window.size)
    left = permute(_grouped(unfold(x, window), groups, rank), (0, 2, 1))  # (G, K C/G, N P)
    product = _matmul(left, _output_matrix(y, groups))  # (G, K C/G, O/G)
    joined = permute(product, (1, 0, 2))
    return reshape(joined, (*window.size, x.shape[-1] // groups, y.shape[-1]))
