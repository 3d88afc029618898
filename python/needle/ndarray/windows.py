"""Sliding windows over spatial axes, the sum that undoes them, and the products between.

Arrays are channels-last: (N, S..., C), with as many spatial axes S as `Window` has entries; P is
how many windows fit along them, K the window's own size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..dtype import DType, float32, promote
from .array import NDArray, empty, full, make_view
from .functions import array_function, binary, cast, pad, permute, reduce, reshape, same_device
from .layout import Shape, reshape_strides

# Windows are copied out and multiplied in blocks: of this size they stay in the cache between.
BLOCK_BYTES = 4 << 20
MOST_BYTES = 64 << 20


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

    @property
    def is_point(self) -> bool:
        """Is each window one input, in order?"""
        return set(self.size + self.stride) == {1} and not any(map(any, self.padding))

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

    def from_row(self, row: int) -> Window:
        """The same windows counted from this one on, along the first axis."""
        (before, after), *others = self.padding
        moved = (before - row * self.stride[0], after)
        return Window(self.size, self.stride, (moved, *others), self.dilation)


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
    dtype = _wide(windows.dtype)
    out = full((windows.shape[0], *spatial, windows.shape[-1]), 0, dtype, windows.device)
    _add_windows(out, cast(windows, dtype), window)
    return cast(out, windows.dtype)


def _wide(dtype: DType) -> DType:
    """The type in which sums are kept: float32 for the half types."""
    return float32 if dtype.is_floating and dtype.itemsize == 2 else dtype


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


# Convolution: (N, S..., C) with weights (K..., C/G, O) -> (N, P..., O) --------------------------
#
# Its matrices have a row for each window: G of them side by side, (G, N, P, ...).


class Block(NamedTuple):
    """Some images, or some rows (along the first spatial axis) of one."""

    images: tuple[int, int]
    rows: tuple[int, int]

    def of(self, a: NDArray) -> NDArray:
        """The part of (N, P..., ...), as a view."""
        (first, last), (top, bottom) = self.images, self.rows
        shape = (last - first, bottom - top, *a.shape[2:])
        return _view(a, shape, a.strides, a.offset + first * a.strides[0] + top * a.strides[1])


def _blocks(n: int, counts: Shape, row_bytes: int, limit: int) -> Iterator[Block]:
    """All windows, in parts whose matrix rows (one per window) take up to `limit` bytes."""
    line = max(1, math.prod(counts[1:]) * row_bytes)
    images, lines = limit // (line * counts[0]), max(1, limit // line)
    if images:
        for i in range(0, n, images):
            yield Block((i, min(n, i + images)), (0, counts[0]))
    else:
        for i, top in itertools.product(range(n), range(0, counts[0], lines)):
            yield Block((i, i + 1), (top, min(counts[0], top + lines)))


def _rows_shape(windows: NDArray, groups: int, rank: int) -> Shape:
    n, counts, rest = windows.shape[0], windows.shape[1 : 1 + rank], windows.shape[1 + rank :]
    return (groups, n, math.prod(counts), math.prod(rest) // groups)


def _window_rows(windows: NDArray, groups: int, rank: int) -> NDArray:
    """(N, P..., K..., C) -> (G, N, P, K C/G): a copy, unless windows have one element."""
    return reshape(_channel_groups(windows, groups), _rows_shape(windows, groups, rank))


def _rows_are_a_view(windows: NDArray, groups: int, rank: int) -> bool:
    split = _channel_groups(windows, groups)
    shape = _rows_shape(windows, groups, rank)
    return reshape_strides(split.shape, split.strides, shape) is not None


def _channel_groups(a: NDArray, groups: int) -> NDArray:
    """(..., C) -> (G, ..., C/G), a view."""
    split = reshape(a, (*a.shape[:-1], groups, a.shape[-1] // groups))
    last = split.ndim - 1
    return permute(split, [last - 1, *range(last - 1), last])


def _output_rows(y: NDArray, groups: int) -> NDArray:
    """(N, P..., O) -> (G, N, P, O/G), a view of a compact y."""
    flat = reshape(y, (y.shape[0], math.prod(y.shape[1:-1]), y.shape[-1]))
    return _channel_groups(flat, groups)


def _merged(rows: NDArray) -> NDArray:
    """(G, N, P, ...) -> (G, N P, ...)"""
    groups, n, count, columns = rows.shape
    return reshape(rows, (groups, n * count, columns))


def _weight_matrix(w: NDArray, groups: int) -> NDArray:
    """(K..., C/G, O) -> (G, 1, K C/G, O/G)"""
    return _channel_groups(reshape(w, (1, math.prod(w.shape[:-1]), w.shape[-1])), groups)


def _same_dtype(a: NDArray, b: NDArray) -> tuple[NDArray, NDArray]:
    same_device("conv", a, b)
    dtype = promote(a.dtype, b.dtype)
    return cast(a, dtype), cast(b, dtype)


def _row_bytes(w_shape: Shape, groups: int, a: NDArray) -> int:
    return math.prod(w_shape[:-1]) * groups * a.dtype.itemsize


@array_function
def conv(x: NDArray, w: NDArray, window: Window, groups: int) -> NDArray:
    """y[n, p, o] = sum over taps k and channels c of x[n, p·stride + k·dilation, c] w[k, c, o]"""
    x, w = _same_dtype(x, w)
    rank = len(window.size)
    if _is_depthwise(w.shape, groups):
        return _depthwise_conv(x, w, window)
    windows = unfold(x, window)
    n, counts = windows.shape[0], windows.shape[1 : 1 + rank]
    y = empty((n, *counts, w.shape[-1]), x.dtype, x.device)
    matrix = _weight_matrix(w, groups)
    if _rows_are_a_view(windows, groups, rank):
        rows = _window_rows(windows, groups, rank)
        y.device.mod.matmul(_output_rows(y, groups), rows, matrix)
        return y
    for block in _blocks(n, counts, _row_bytes(w.shape, groups, x), BLOCK_BYTES):
        rows = _window_rows(block.of(windows), groups, rank)
        y.device.mod.matmul(_output_rows(block.of(y), groups), rows, matrix)
    return y


@array_function
def conv_by_data(y: NDArray, w: NDArray, window: Window, groups: int, spatial: Shape) -> NDArray:
    """The adjoint of conv in x: also the transposed convolution of y with w."""
    y, w = _same_dtype(y, w)
    if _is_depthwise(w.shape, groups):
        return _depthwise_by_data(y, w, window, spatial)
    n, counts, channels = y.shape[0], y.shape[1:-1], w.shape[-2]
    dtype = y.dtype if window.is_point else _wide(y.dtype)
    x = full((n, *spatial, groups * channels), 0, dtype, y.device)
    matrix = permute(_weight_matrix(w, groups), (0, 1, 3, 2))  # (G, 1, O/G, K C/G)
    if window.is_point:
        y.device.mod.matmul(_output_rows(x, groups), _output_rows(y, groups), matrix)
        return x
    split = reshape(x, (n, *spatial, groups, channels))
    for block in _blocks(n, counts, _row_bytes(w.shape, groups, y), BLOCK_BYTES):
        part = block.of(y)
        rows = _output_rows(part, groups)
        product = empty((*rows.shape[:-1], matrix.shape[-1]), y.dtype, y.device)
        y.device.mod.matmul(product, rows, matrix)
        windows = reshape(cast(product, dtype), (groups, *part.shape[:-1], *window.size, channels))
        last = windows.ndim - 1
        windows = permute(windows, [*range(1, last), 0, last])  # (N, P..., K..., G, C/G)
        images = Block(block.images, (0, spatial[0])).of(split)
        _add_windows(images, windows, window.from_row(block.rows[0]))
    return cast(x, y.dtype)


@array_function
def conv_by_weight(x: NDArray, y: NDArray, window: Window, groups: int) -> NDArray:
    """The adjoint of conv in w."""
    x, y = _same_dtype(x, y)
    rank = len(window.size)
    shape = (*window.size, x.shape[-1] // groups, y.shape[-1])
    if _is_depthwise(shape, groups):
        return _depthwise_by_weight(x, y, window)
    windows = unfold(x, window)
    matrix = (groups, math.prod(shape[:-1]), y.shape[-1] // groups)
    total = full(matrix, 0, _wide(x.dtype), x.device)
    # Each block adds a whole weight: blocks are larger than that, so that most of the time is spent
    # on products.
    limit = min(MOST_BYTES, max(BLOCK_BYTES, 4 * total.nbytes))
    product = empty(matrix, x.dtype, x.device)
    for block in _blocks(y.shape[0], y.shape[1:-1], _row_bytes(shape, groups, x), limit):
        left = _merged(_window_rows(block.of(windows), groups, rank))
        right = _merged(_output_rows(block.of(y), groups))
        x.device.mod.matmul(product, permute(left, (0, 2, 1)), right)
        x.device.mod.binary("add", total, total, cast(product, total.dtype))
    return reshape(permute(cast(total, x.dtype), (1, 0, 2)), shape)


# One channel per group: sums of products, element by element ------------------------------------


def _is_depthwise(w_shape: Shape, groups: int) -> bool:
    return groups > 1 and w_shape[-2] == 1 and w_shape[-1] == groups


def _meetings(x: NDArray, y: NDArray, window: Window) -> Iterator[tuple[Shape, NDArray, NDArray]]:
    """(tap, the inputs that it sees, the outputs that see it), by blocks of images, as views."""
    image = math.prod((*x.shape[1:], x.dtype.itemsize))
    images = max(1, BLOCK_BYTES // 8 // max(1, image))
    for i in range(0, x.shape[0], images):
        last = min(x.shape[0], i + images)
        inputs, outputs = (Block((i, last), (0, a.shape[1])).of(a) for a in (x, y))
        for tap in window.taps(x.shape[1:-1], y.shape[1:-1]):
            seen = spaced(inputs, tap.inputs, tap.counts, window.stride)
            made = spaced(outputs, tap.windows, tap.counts, (1,) * len(tap.counts))
            yield tap.place, seen, made


def _channels_inside(a: NDArray) -> NDArray:
    """In the type to add up in, and with the channels of one place side by side."""
    wide = cast(a, _wide(a.dtype))
    return wide if wide.strides[-1] == 1 else wide.copy()


def _at_tap(w: NDArray, place: Shape) -> NDArray:
    """(K..., 1, C) -> (C,), a view."""
    offset = w.offset + sum(k * s for k, s in zip(place, w.strides, strict=False))
    return _view(w, w.shape[-1:], w.strides[-1:], offset)


def _add_product(out: NDArray, a: NDArray, b: NDArray) -> None:
    """out += a b"""
    product = empty(out.shape, out.dtype, out.device)
    out.device.mod.binary("multiply", product, a, b)
    out.device.mod.binary("add", out, out, product)


def _depthwise_conv(x: NDArray, w: NDArray, window: Window) -> NDArray:
    dtype, counts = x.dtype, window.output(x.shape[1:-1], "conv")
    x, w = _channels_inside(x), _channels_inside(w)
    y = full((x.shape[0], *counts, x.shape[-1]), 0, x.dtype, x.device)
    for place, seen, made in _meetings(x, y, window):
        _add_product(made, seen, _at_tap(w, place))
    return cast(y, dtype)


def _depthwise_by_data(y: NDArray, w: NDArray, window: Window, spatial: Shape) -> NDArray:
    dtype = y.dtype
    y, w = _channels_inside(y), _channels_inside(w)
    x = full((y.shape[0], *spatial, y.shape[-1]), 0, y.dtype, y.device)
    for place, seen, made in _meetings(x, y, window):
        _add_product(seen, made, _at_tap(w, place))
    return cast(x, dtype)


def _depthwise_by_weight(x: NDArray, y: NDArray, window: Window) -> NDArray:
    dtype = x.dtype
    x, y = _channels_inside(x), _channels_inside(y)
    w = full((*window.size, 1, x.shape[-1]), 0, x.dtype, x.device)
    for place, seen, made in _meetings(x, y, window):
        total = _at_tap(w, place)
        part = reduce("sum", binary("multiply", seen, made), tuple(range(seen.ndim - 1)))
        w.device.mod.binary("add", total, total, part)
    return cast(w, dtype)
