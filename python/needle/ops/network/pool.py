"""Pooling over windows of space: x (N, C, S...) -> (N, C, P...), with PyTorch's rules."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd import Tensor, TensorOp
from ...dtype import dtype_of, widened
from ...ndarray.kernels import pool as pooling
from ...ndarray.kernels.conv import Window
from ...ndarray.layout import Shape
from ..common import check_tensor, constant
from ..elementwise import astype
from ..index.along_axis import Gather
from ..index.indexing import getitem, take
from ..reduce import argmax
from ..shape.concat import concatenate
from ..shape.pad import piece
from .conv import Unfold, per_axis

if TYPE_CHECKING:
    from ...types import DTypeLike, Gradients, NDArray, NumpyArray, Sizes

__all__ = [
    "MaxPool", "PickLargest", "SpreadLargest", "LargestPosition", "max_pool",
    "adaptive_max_pool", "global_max_pool", "avg_pool", "adaptive_avg_pool", "global_avg_pool",
]  # fmt: skip

MOST_TAPS = 64  # windows with more elements are not visited element by element


class MaxPool(TensorOp):
    """y[n, p, c] = the largest x of window p; the first of equals gets the gradient"""

    def __init__(self, window: Window):
        self.window = window

    def compute(self, x: NDArray) -> NDArray:
        return pooling.largest(x, self.window)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return SpreadLargest(self.window)(node.inputs[0], out_grad)


class PickLargest(TensorOp):
    """y[n, p, c] = the value where x is the largest of window p; linear in the values"""

    def __init__(self, window: Window):
        self.window = window

    def compute(self, x: NDArray, values: NDArray) -> NDArray:
        return pooling.pick_largest(x, values, self.window)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return None, SpreadLargest(self.window)(node.inputs[0], out_grad)


class SpreadLargest(TensorOp):
    """The adjoint of PickLargest: each value goes to where x is the largest of its window"""

    def __init__(self, window: Window):
        self.window = window

    def compute(self, x: NDArray, values: NDArray) -> NDArray:
        return pooling.spread_largest(x, values, self.window)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return None, PickLargest(self.window)(node.inputs[0], out_grad)


class LargestPosition(TensorOp):
    """y[n, p, c] = where x is the largest of window p: its place in space, counted in C order"""

    differentiable = False

    def __init__(self, window: Window):
        self.window = window

    def compute(self, x: NDArray) -> NDArray:
        return pooling.largest_position(x, self.window)


# Layout and geometry ------------------------------------------------------------------------------


def channels_last(x: Tensor) -> Tensor:
    """(N, C, S...) -> (N, S..., C), a view."""
    return x.permute((0, *range(2, x.ndim), 1))


def channels_first(x: Tensor) -> Tensor:
    """(N, S..., C) -> (N, C, S...), a view."""
    return x.permute((0, x.ndim - 1, *range(1, x.ndim - 1)))


def _space(op: str, x: Tensor) -> Shape:
    if check_tensor(op, x).ndim < 3:
        raise ValueError(f"[{op}] expected (batch, channels, space...), got {x.shape}.")
    return x.shape[2:]


def _window(
    op: str,
    spatial: Shape,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> Window:
    """The windows of a pooling; in ceil_mode the last one may reach over the end."""
    rank = len(spatial)
    size = per_axis(op, "kernel_size", kernel_size, rank)
    step = size if stride is None else per_axis(op, "stride", stride, rank)
    around = per_axis(op, "padding", padding, rank, least=0)
    dilation = per_axis(op, "dilation", dilation, rank)
    for p, k, d in zip(around, size, dilation, strict=True):
        if 2 * p > d * (k - 1) + 1:
            raise ValueError(
                f"[{op}] padding must be at most half of the window, got {around} for window "
                f"{size} with dilation {dilation}."
            )
    window = Window(size, step, tuple((p, p) for p in around), dilation)
    if ceil_mode:
        pairs = tuple(
            (p, p + _overhang(n + p, room, s))
            for n, p, room, s in zip(spatial, around, window.room(spatial), step, strict=True)
        )
        window = Window(size, step, pairs, dilation)
    window.output(spatial, op)  # the user's error, before a kernel runs
    return window


def _overhang(end: int, room: int, step: int) -> int:
    """How far beyond the padding the last window reaches, if it starts before the end."""
    windows = -(-room // step)
    return windows * step - room if windows * step < end else 0


# Largest ------------------------------------------------------------------------------------------


def max_pool(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window, one window per stride (its size, if not given).

    With return_indices also where it lies: the place in S..., counted in C order. A window that
    lies in the padding, as dilation allows, has -inf and the place -1."""
    spatial = _space("max_pool", x)
    window = _window("max_pool", spatial, kernel_size, stride, padding, dilation, ceil_mode)
    last = channels_last(x)
    y = channels_first(MaxPool(window)(last))
    return (y, channels_first(LargestPosition(window)(last))) if return_indices else y


def adaptive_max_pool(x: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest element of each of output_size parts of space (None: as many as there are)."""
    spatial = _space("adaptive_max_pool", x)
    parts = _parts("adaptive_max_pool", spatial, output_size)
    size = tuple(n // m for n, m in zip(spatial, parts, strict=True))
    even = all(n == m * k for n, m, k in zip(spatial, parts, size, strict=True))
    if even and math.prod(size) <= MOST_TAPS:
        return max_pool(x, size, return_indices=return_indices)
    places = pooling.adaptive_places(spatial, parts)  # (P, K)
    flat = x.reshape((*x.shape[:2], math.prod(spatial)))
    which = argmax(take(flat, places, 2), 3)  # (N, C, P), in 0 .. K-1
    rows = np.arange(places.shape[0]) * places.shape[1]
    index = take(constant(places.reshape(-1), x), which + constant(rows, x))
    shape = (*x.shape[:2], *parts)
    y = Gather(2)(flat, index).reshape(shape)
    return (y, index.reshape(shape)) if return_indices else y


def global_max_pool(x: Tensor) -> Tensor:
    """The largest element of each channel: (N, C, S...) -> (N, C)."""
    _space("global_max_pool", x)
    y: Tensor = adaptive_max_pool(x, 1)
    return y.reshape(x.shape[:2])


# Average ------------------------------------------------------------------------------------------


def avg_pool(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The average of each window; padding counts as zeros, or with count_include_pad=False not at
    all. divisor_override replaces the number of elements."""
    spatial = _space("avg_pool", x)
    if divisor_override is not None and divisor_override == 0:
        raise ValueError("[avg_pool] divisor_override must not be 0.")
    window = _window("avg_pool", spatial, kernel_size, stride, padding, 1, ceil_mode)
    rank = len(spatial)
    if window.size == window.stride and not any(map(any, window.padding)):
        total = _tile_sums(_wide(x), window)
    else:
        windows = Unfold(window)(channels_last(_wide(x)))  # (N, P..., K..., C)
        total = channels_first(windows.sum(tuple(range(1 + rank, 1 + 2 * rank))))
    if divisor_override is not None:
        average = total / divisor_override
    else:
        counts = _counts(window, spatial, count_include_pad)
        average = total / (counts.flat[0].item() if np.ptp(counts) == 0 else _like(counts, total))
    return astype(average, _average_dtype(x))


def _tile_sums(x: Tensor, window: Window) -> Tensor:
    """Sums over windows that lie side by side: their elements are axes of their own."""
    counts = window.output(x.shape[2:], "avg_pool")
    whole = tuple(p * k for p, k in zip(counts, window.size, strict=True))
    if x.shape[2:] != whole:
        x = getitem(x, (..., *(slice(n) for n in whole)))
    pairs = (n for pair in zip(counts, window.size, strict=True) for n in pair)
    return x.reshape((*x.shape[:2], *pairs)).sum(tuple(range(3, 2 * x.ndim - 2, 2)))


def _average_dtype(x: Tensor) -> DTypeLike:
    return x.dtype if dtype_of(x.dtype).is_floating else "float64"


def _wide(x: Tensor) -> Tensor:
    """x in the type to add up in."""
    return astype(x, widened(dtype_of(x.dtype)))


def _like(values: NumpyArray, x: Tensor) -> Tensor:
    return constant(values.astype(dtype_of(_average_dtype(x)).storage), x)


def _counts(window: Window, spatial: Shape, count_include_pad: bool) -> NumpyArray:
    """How many elements each window averages over: (P...). What ceil_mode adds never counts."""
    along = []
    axes = zip(spatial, window.output(spatial, "avg_pool"), window.size, window.stride, strict=True)
    for (n, count, k, step), (before, _) in zip(axes, window.padding, strict=True):
        start = np.arange(count) * step - before
        low, high = (-before, n + before) if count_include_pad else (0, n)
        along.append(np.minimum(start + k, high) - np.maximum(start, low))
    return np.asarray(functools.reduce(np.multiply.outer, along))


def adaptive_avg_pool(x: Tensor, output_size: Sizes) -> Tensor:
    """The average of each of output_size parts of space (None: as many as there are)."""
    spatial = _space("adaptive_avg_pool", x)
    parts = _parts("adaptive_avg_pool", spatial, output_size)
    if all(m == 1 for m in parts):
        return astype(_wide(x).mean(tuple(range(2, x.ndim)), True), _average_dtype(x))
    if not any(n % m for n, m in zip(spatial, parts, strict=True)):
        return avg_pool(x, tuple(n // m for n, m in zip(spatial, parts, strict=True)))
    y = _wide(x)
    for axis, (n, m) in enumerate(zip(spatial, parts, strict=True), start=2):
        if n != m:
            bounds = pooling.adaptive_bounds(n, m)
            y = concatenate([piece(y, axis, a, b).mean(axis, True) for a, b in bounds], axis)
    return astype(y, _average_dtype(x))


def global_avg_pool(x: Tensor) -> Tensor:
    """The average of each channel: (N, C, S...) -> (N, C)."""
    spatial = _space("global_avg_pool", x)
    return x.mean(tuple(range(2, 2 + len(spatial))))


def _parts(op: str, spatial: Shape, output_size: Sizes) -> Shape:
    if isinstance(output_size, Sequence):
        given = tuple(output_size)
        if len(given) == len(spatial):
            output_size = tuple(n if m is None else m for n, m in zip(spatial, given, strict=True))
    elif output_size is None:
        output_size = spatial
    if 0 in spatial:
        raise ValueError(f"[{op}] expected a space that is not empty, got {spatial}.")
    return per_axis(op, "output_size", output_size, len(spatial))
