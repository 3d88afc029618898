"""Convolution along one to three spatial axes, and the windows underneath.

The core is channels-last: x (N, S..., C), w (K..., C/G, O), y (N, P..., O). `Conv`, `ConvByData`
and `ConvByWeight` are one bilinear form seen from its three sides, so each one's gradients are the
other two, to any order. PyTorch's layouts and names are in `needle.nn.functional`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...autograd import Tensor, TensorOp
from ...ndarray.kernels import conv as W
from ...ndarray.kernels.conv import Window
from ..common import check_tensor
from ..contraction import einsum

if TYPE_CHECKING:
    from ...types import Gradients, NDArray, Padding, Sizes

__all__ = [
    "Conv", "ConvByData", "ConvByWeight", "conv", "conv_channels_last",
    "conv_transpose_channels_last", "Unfold", "Fold", "unfold", "fold",
]  # fmt: skip


class Conv(TensorOp):
    """y[n, p, o] = Σ_k,c x[n, p·stride + k·dilation - padding, c] w[k, c, o]"""

    def __init__(
        self, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1, groups: int = 1
    ):
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups

    def window(self, size: tuple[int, ...]) -> Window:
        """The geometry for filters of this size."""
        return make_window("conv", size, self.stride, self.padding, self.dilation)

    def compute(self, x: NDArray, w: NDArray) -> NDArray:
        return W.conv(x, w, self.window(w.shape[:-2]), self.groups)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x, w = node.inputs
        window = self.window(w.shape[:-2])
        by_data = ConvByData(window, self.groups, x.shape[1:-1])
        by_weight = ConvByWeight(window, self.groups)
        return _wanted(x, by_data, out_grad, w), _wanted(w, by_weight, x, out_grad)


class ConvByData(TensorOp):
    """x = Σ over the windows of y that saw it: the adjoint of conv in x, the transposed conv"""

    def __init__(self, window: Window, groups: int, spatial: tuple[int, ...]):
        self.window = window
        self.groups = groups
        self.spatial = spatial

    def compute(self, y: NDArray, w: NDArray) -> NDArray:
        return W.conv_by_data(y, w, self.window, self.groups, self.spatial)

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor | None, Tensor | None]:
        y, w = node.inputs
        by_weight = ConvByWeight(self.window, self.groups)
        return (
            _wanted(y, _conv(self.window, self.groups), out_grad, w),
            _wanted(w, by_weight, out_grad, y),
        )


class ConvByWeight(TensorOp):
    """w = Σ over all places of x ⊗ y: the adjoint of conv in w"""

    def __init__(self, window: Window, groups: int):
        self.window = window
        self.groups = groups

    def compute(self, x: NDArray, y: NDArray) -> NDArray:
        return W.conv_by_weight(x, y, self.window, self.groups)

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, y = node.inputs
        by_data = ConvByData(self.window, self.groups, x.shape[1:-1])
        return (
            _wanted(x, by_data, y, out_grad),
            _wanted(y, _conv(self.window, self.groups), x, out_grad),
        )


def _conv(window: Window, groups: int) -> Conv:
    return Conv(window.stride, window.padding, window.dilation, groups)


def _wanted(target: Tensor, op: TensorOp, a: Tensor, b: Tensor) -> Tensor | None:
    """The gradient op(a, b) for an input that has one: pictures, as a rule, do not."""
    return op(a, b) if target.requires_grad else None


def conv_by_definition(x: Tensor, w: Tensor, window: Window, groups: int = 1) -> Tensor:
    """The composite that `Conv` equals: every window, times the filters."""
    rank, parts = len(window.size), (groups, -1)
    windows = Unfold(window)(x)  # (N, P..., K..., C)
    windows = windows.reshape((*windows.shape[: 1 + rank], math.prod(window.size), *parts))
    filters = w.reshape((math.prod(window.size), w.shape[-2], *parts))
    y = einsum("...kgc,kcgo->...go", windows, filters)
    return y.reshape((*y.shape[: 1 + rank], w.shape[-1]))


def conv(a: Tensor, b: Tensor, stride: Sizes = 1, padding: Sizes = 1) -> Tensor:
    """The course's convolution: a (N, H, W, C), b (K, K, C, O) -> (N, H', W', O)."""
    return conv_channels_last(a, b, stride, padding, op="conv")


def conv_channels_last(
    x: Tensor,
    w: Tensor,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    op: str = "conv",
) -> Tensor:
    """x (N, S..., C) with w (K..., C/groups, O) -> (N, P..., O), checked."""
    check_tensor(op, x)
    check_tensor(op, w)
    _check_rank(op, x, w)
    if groups < 1 or x.shape[-1] != w.shape[-2] * groups or w.shape[-1] % groups:
        raise ValueError(
            f"[{op}] channels differ: the input has {x.shape[-1]}, the weight takes "
            f"{w.shape[-2]} in each of {groups} groups and gives {w.shape[-1]}."
        )
    if padding == "same" and any(s != 1 for s in per_axis(op, "stride", stride, x.ndim - 2)):
        raise ValueError(f"[{op}] padding='same' needs stride 1, got {stride}.")
    window = make_window(op, w.shape[:-2], stride, padding, dilation)
    window.output(x.shape[1:-1], op)  # the user's error, before a kernel runs
    return Conv(stride, padding, dilation, groups)(x, w)


def conv_transpose_channels_last(
    x: Tensor,
    w: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    op: str = "conv_transpose",
) -> Tensor:
    """The adjoint of a convolution: x (N, P..., C) with w (K..., O/groups, C) -> (N, S..., O).

    S = (P - 1) stride - 2 padding + dilation (K - 1) + 1 + output_padding: a convolution with
    stride s gives the same P for s different S, and output_padding tells which of them.
    """
    check_tensor(op, x)
    check_tensor(op, w)
    _check_rank(op, x, w)
    if groups < 1 or x.shape[-1] != w.shape[-1] or x.shape[-1] % groups:
        raise ValueError(
            f"[{op}] channels differ: the input has {x.shape[-1]}, the weight takes "
            f"{w.shape[-1]} in {groups} groups."
        )
    rank = x.ndim - 2
    window = make_window(op, w.shape[:-2], stride, padding, dilation)
    extra = per_axis(op, "output_padding", output_padding, rank, least=0)
    for e, s, d in zip(extra, window.stride, window.dilation, strict=True):
        if e >= max(s, d):
            raise ValueError(
                f"[{op}] output_padding must be smaller than stride or dilation, got {extra} with "
                f"stride {window.stride} and dilation {window.dilation}."
            )
    # What output_padding adds is less padding at the end, and zeros where there was none left.
    pairs = tuple((a, max(b - e, 0)) for (a, b), e in zip(window.padding, extra, strict=True))
    zeros = tuple(max(e - b, 0) for (_, b), e in zip(window.padding, extra, strict=True))
    window = Window(window.size, window.stride, pairs, window.dilation)
    reach = window.room((0,) * rank)  # of a window that sees nothing but padding
    spatial = tuple(
        (n - 1) * s - r for n, s, r in zip(x.shape[1:-1], window.stride, reach, strict=True)
    )
    if min(spatial) < 1:
        raise ValueError(
            f"[{op}] padding takes more than the output has: its size would be {spatial} for "
            f"input {x.shape}, padding {padding}."
        )
    y = ConvByData(window, groups, spatial)(x, w)
    return y.pad(((0, 0), *((0, z) for z in zeros), (0, 0))) if any(zeros) else y


def _check_rank(op: str, x: Tensor, w: Tensor) -> None:
    if x.ndim != w.ndim or not 3 <= x.ndim <= 5:
        raise ValueError(
            f"[{op}] expected input and weight with the same number of axes (3 to 5), got "
            f"{x.shape} and {w.shape}."
        )


def per_axis(op: str, name: str, value: Sizes, rank: int, least: int = 1) -> tuple[int, ...]:
    """One number per spatial axis from a number or a sequence."""
    values: tuple[Any, ...] = tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
    if len(values) == 1 < rank:
        values *= rank
    whole = all(isinstance(v, (int, np.integer)) and v >= least for v in values)
    if len(values) != rank or not whole:
        raise ValueError(
            f"[{op}] {name} must be a whole number >= {least} or {rank} of them, got {value!r}."
        )
    return tuple(int(v) for v in values)


def make_window(
    op: str, size: Sequence[int], stride: Sizes, padding: Padding, dilation: Sizes
) -> Window:
    """A Window from numbers, sequences, (before, after) pairs, "same" or "valid"."""
    rank = len(size)
    dilation = per_axis(op, "dilation", dilation, rank)
    if padding == "valid":
        padding = 0
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, size, strict=True)]
        pairs = tuple((t // 2, t - t // 2) for t in total)
    elif isinstance(padding, (tuple, list)) and padding and isinstance(padding[0], (tuple, list)):
        pairs = tuple((a, b) for a, b in padding)
    elif isinstance(padding, str):
        raise ValueError(f"[{op}] padding must be numbers, 'same' or 'valid', got {padding!r}.")
    else:
        sizes = cast("Sizes", padding)
        pairs = tuple((p, p) for p in per_axis(op, "padding", sizes, rank, least=0))
    return Window(tuple(size), per_axis(op, "stride", stride, rank), pairs, dilation)


class Unfold(TensorOp):
    """Every window: (N, S..., C) -> (N, P..., K..., C)"""

    linear = True

    def __init__(self, window: Window):
        self.window = window

    def compute(self, x: NDArray) -> NDArray:
        return W.unfold(x, self.window)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return Fold(self.window, node.inputs[0].shape[1:-1])(out_grad)


class Fold(TensorOp):
    """The adjoint of Unfold: windows added up where they overlap"""

    linear = True

    def __init__(self, window: Window, spatial: tuple[int, ...]):
        self.window = window
        self.spatial = spatial

    def compute(self, windows: NDArray) -> NDArray:
        return W.fold(windows, self.window, self.spatial)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return Unfold(self.window)(out_grad)


def unfold(
    x: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Every window as a column (im2col): x (N, C, S...) -> (N, C K, P)."""
    if check_tensor("unfold", x).ndim < 3:
        raise ValueError(f"[unfold] expected (batch, channels, space...), got {x.shape}.")
    rank = x.ndim - 2
    window = make_window(
        "unfold", per_axis("unfold", "kernel_size", kernel_size, rank), stride, padding, dilation
    )
    counts = window.output(x.shape[2:], "unfold")
    windows = Unfold(window)(x.permute((0, *range(2, x.ndim), 1)))  # (N, P..., K..., C)
    last = 1 + 2 * rank
    columns = windows.permute((0, last, *range(1 + rank, last), *range(1, 1 + rank)))
    return columns.reshape((x.shape[0], x.shape[1] * math.prod(window.size), math.prod(counts)))


def fold(
    x: Tensor,
    output_size: Sequence[int],
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Columns added up at their places (col2im): (N, C K, P) -> (N, C, S...), unfold's adjoint."""
    check_tensor("fold", x)
    spatial = tuple(output_size)
    rank = len(spatial)
    window = make_window(
        "fold", per_axis("fold", "kernel_size", kernel_size, rank), stride, padding, dilation
    )
    counts = window.output(spatial, "fold")
    taps = math.prod(window.size)
    if x.ndim != 3 or x.shape[1] % taps or x.shape[2] != math.prod(counts):
        raise ValueError(
            f"[fold] expected (batch, a multiple of {taps}, {math.prod(counts)}) for kernel size "
            f"{window.size} on {spatial}, got {x.shape}."
        )
    n, channels = x.shape[0], x.shape[1] // taps
    columns = x.reshape((n, channels, *window.size, *counts))
    last = 2 + 2 * rank
    windows = columns.permute((0, *range(2 + rank, last), *range(2, 2 + rank), 1))
    y = Fold(window, spatial)(windows)
    return y.permute((0, 1 + rank, *range(1, 1 + rank)))
