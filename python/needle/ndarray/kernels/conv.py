"""Sliding windows over spatial axes, the sum that undoes them, and convolution.

Arrays are channels-last: (N, S..., C), with as many spatial axes S as `Window` has entries; P is
how many windows fit along them, K the window's own size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...dtype import promote, widened
from ..array import NDArray, empty, full, make_view
from ..functions import array_function, cast, pad, same_device
from ..layout import Shape


class Tap(NamedTuple):
    """One element of the window: the windows whose copy of it is inside the input, and where."""

    place: Shape  # of the element in the window
    windows: Shape  # the first of those windows, along each axis
    counts: Shape  # how many they are
    inputs: Shape  # the input that the first one sees


@dataclass(frozen=True)
class Window:
    """The geometry of a convolution or pooling: one entry per spatial axis."""

    size: Shape
    stride: Shape
    padding: tuple[tuple[int, int], ...]  # (before, after)
    dilation: Shape

    def output(self, spatial: Shape, op: str) -> Shape:
        """How many windows fit along each axis."""
        room = self.room(spatial)
        if min(room) < 0:
            raise ValueError(
                f"[{op}] the window is larger than the padded input: window {self.size} with "
                f"dilation {self.dilation} on spatial shape {spatial} with padding "
                f"{self.padding}; use a smaller kernel or more padding."
            )
        return tuple(r // step + 1 for r, step in zip(room, self.stride, strict=True))

    def room(self, spatial: Shape) -> Shape:
        """How far the first window can move along each axis."""
        axes = zip(spatial, self.padding, self.dilation, self.size, strict=True)
        return tuple(n + before + after - d * (k - 1) - 1 for n, (before, after), d, k in axes)

    def taps(self, spatial: Shape, counts: Shape) -> Iterator[Tap]:
        """The elements of the window in C order, without those that only see padding."""
        axes = [list(self._meetings(i, spatial[i], counts[i])) for i in range(len(spatial))]
        for chosen in itertools.product(*axes):
            yield Tap(*(tuple(axis) for axis in zip(*chosen, strict=True)))

    def _meetings(self, axis: int, n: int, count: int) -> Iterator[tuple[int, int, int, int]]:
        step, (before, _) = self.stride[axis], self.padding[axis]
        for k in range(self.size[axis]):
            shift = k * self.dilation[axis] - before  # window p sees input p·step + shift
            first = max(0, -(shift // step))
            stop = min(count, (n - 1 - shift) // step + 1)
            if first < stop:
                yield k, first, stop - first, first * step + shift


def spaced(a: NDArray, starts: Shape, counts: Shape, steps: Sequence[int]) -> NDArray:
    """a[:, start, start + step, ...] along the axes after the first, as a view."""
    end = 1 + len(starts)
    inner = a.strides[1:end]
    offset = a.offset + sum(s * i for s, i in zip(inner, starts, strict=True))
    strides = (a.strides[0], *(s * i for s, i in zip(inner, steps, strict=True)), *a.strides[end:])
    return _view(a, (a.shape[0], *counts, *a.shape[end:]), strides, offset)


def _view(a: NDArray, shape: Shape, strides: Shape, offset: int) -> NDArray:
    return make_view(shape, strides, offset, a.dtype, a.device, a._handle)


@array_function
def unfold(x: NDArray, window: Window, fill: float = 0) -> NDArray:
    """(N, S..., C) -> (N, P..., K..., C): every window, as a view of the padded array."""
    counts = window.output(x.shape[1:-1], "unfold")
    if any(map(any, window.padding)):
        x = pad(x, [(0, 0), *window.padding, (0, 0)], fill)
    spatial = x.strides[1:-1]
    steps = tuple(s * step for s, step in zip(spatial, window.stride, strict=True))
    taps = tuple(s * d for s, d in zip(spatial, window.dilation, strict=True))
    shape = (x.shape[0], *counts, *window.size, x.shape[-1])
    return _view(x, shape, (x.strides[0], *steps, *taps, x.strides[-1]), x.offset)


@array_function
def fold(windows: NDArray, window: Window, spatial: Shape) -> NDArray:
    """(N, P..., K..., C) -> (N, S..., C): windows added up where they overlap, padding dropped."""
    dtype = widened(windows.dtype)
    out = full((windows.shape[0], *spatial, windows.shape[-1]), 0, dtype, windows.device)
    _add_windows(out, cast(windows, dtype), window)
    return cast(out, windows.dtype)


def _add_windows(out: NDArray, windows: NDArray, window: Window) -> None:
    """out (N, S..., c...) += windows (N, P..., K..., c...), each at its place."""
    rank = len(window.size)
    inside = slice(1 + rank, 1 + 2 * rank)
    shape = (*windows.shape[: 1 + rank], *windows.shape[inside.stop :])
    strides = (*windows.strides[: 1 + rank], *windows.strides[inside.stop :])
    for tap in window.taps(out.shape[1 : 1 + rank], windows.shape[1 : 1 + rank]):
        within = sum(k * s for k, s in zip(tap.place, windows.strides[inside], strict=True))
        source = _view(windows, shape, strides, windows.offset + within)
        source = spaced(source, tap.windows, tap.counts, (1,) * rank)
        target = spaced(out, tap.inputs, tap.counts, window.stride)
        out.device.mod.binary("add", target, target, source)


# Convolution: x (N, S..., C), w (K..., C/G, O), y (N, P..., O) ------------------------------------


def _same_dtype(a: NDArray, b: NDArray) -> tuple[NDArray, NDArray]:
    same_device("conv", a, b)
    dtype = promote(a.dtype, b.dtype)
    return cast(a, dtype), cast(b, dtype)


def _steps(window: Window) -> tuple[Shape, Shape, Shape]:
    return window.stride, tuple(before for before, _ in window.padding), window.dilation


@array_function
def conv(x: NDArray, w: NDArray, window: Window, groups: int) -> NDArray:
    """y[n, p, o] = sum over taps k and channels c of x[n, p·stride + k·dilation, c] w[k, c, o]"""
    x, w = _same_dtype(x, w)
    counts = window.output(x.shape[1:-1], "conv")
    y = empty((x.shape[0], *counts, w.shape[-1]), x.dtype, x.device)
    x.device.mod.conv(y, x, w, *_steps(window), groups)
    return y


@array_function
def conv_by_data(y: NDArray, w: NDArray, window: Window, groups: int, spatial: Shape) -> NDArray:
    """The adjoint of conv in x: also the transposed convolution of y with w."""
    y, w = _same_dtype(y, w)
    x = empty((y.shape[0], *spatial, groups * w.shape[-2]), y.dtype, y.device)
    y.device.mod.conv_by_data(x, y, w, *_steps(window), groups)
    return x


@array_function
def conv_by_weight(x: NDArray, y: NDArray, window: Window, groups: int) -> NDArray:
    """The adjoint of conv in w."""
    x, y = _same_dtype(x, y)
    w = empty((*window.size, x.shape[-1] // groups, y.shape[-1]), x.dtype, x.device)
    x.device.mod.conv_by_weight(w, x, y, *_steps(window), groups)
    return w
