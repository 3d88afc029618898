"""Convolution in any number of spatial axes, and the windows underneath.

The core is channels-last: x (N, S..., C), w (K..., C/G, O), y (N, P..., O). `Conv`, `ConvByData`
and `ConvByWeight` are one bilinear form seen from its three sides, so each one's gradients are the
other two, to any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import Tensor, TensorOp
from ..ndarray import windows as W
from ..ndarray.windows import Window
from .common import check_tensor, fit

Sizes = int | Sequence[int]


class Conv(TensorOp):
    """y[n, p, o] = Σ_k,c x[n, p·stride + k·dilation - padding, c] w[k, c, o]"""

    def __init__(self, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1):
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups

    def window(self, size: tuple[int, ...]) -> Window:
        """The geometry for filters of this size."""
        return make_window("conv", size, self.stride, self.padding, self.dilation)

    def compute(self, x: Any, w: Any) -> Any:
        return W.conv(x, w, self.window(w.shape[:-2]), self.groups)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        x, w = node.inputs
        window = self.window(w.shape[:-2])
        by_data = ConvByData(window, self.groups, x.shape[1:-1])(out_grad, w)
        by_weight = ConvByWeight(window, self.groups)(x, out_grad)
        return fit(by_data, x), fit(by_weight, w)


class ConvByData(TensorOp):
    """x = Σ over the windows of y that saw it: the adjoint of conv in x, the transposed conv"""

    def __init__(self, window: Window, groups: int, spatial: tuple[int, ...]):
        self.window = window
        self.groups = groups
        self.spatial = spatial

    def compute(self, y: Any, w: Any) -> Any:
        return W.conv_by_data(y, w, self.window, self.groups, self.spatial)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        y, w = node.inputs
        return (
            fit(_conv(out_grad, w, self.window, self.groups), y),
            fit(ConvByWeight(self.window, self.groups)(out_grad, y), w),
        )


class ConvByWeight(TensorOp):
    """w = Σ over all places of x ⊗ y: the adjoint of conv in w"""

    def __init__(self, window: Window, groups: int):
        self.window = window
        self.groups = groups

    def compute(self, x: Any, y: Any) -> Any:
        return W.conv_by_weight(x, y, self.window, self.groups)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        x, y = node.inputs
        return (
            fit(ConvByData(self.window, self.groups, x.shape[1:-1])(y, out_grad), x),
            fit(_conv(x, out_grad, self.window, self.groups), y),
        )


def _conv(x: Tensor, w: Tensor, window: Window, groups: int) -> Tensor:
    return Conv(window.stride, window.padding, window.dilation, groups)(x, w)


def conv(a: Tensor, b: Tensor, stride: Sizes = 1, padding: Any = 1) -> Tensor:
    """The course's convolution: a (N, H, W, C), b (K, K, C, O) -> (N, H', W', O)."""
    return conv_channels_last(a, b, stride, padding, op="conv")


def conv_channels_last(
    x: Tensor,
    w: Tensor,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    op: str = "conv",
) -> Tensor:
    """x (N, S..., C) with w (K..., C/groups, O) -> (N, P..., O), checked."""
    check_tensor(op, x)
    check_tensor(op, w)
    if x.ndim != w.ndim or x.ndim < 3:
        raise ValueError(
            f"[{op}] expected input and weight with the same number of axes (3 or more), got "
            f"{x.shape} and {w.shape}."
        )
    if groups < 1 or x.shape[-1] != w.shape[-2] * groups or w.shape[-1] % groups:
        raise ValueError(
            f"[{op}] channels differ: the input has {x.shape[-1]}, the weight takes "
            f"{w.shape[-2]} in each of {groups} groups and gives {w.shape[-1]}."
        )
    if padding == "same" and any(s != 1 for s in per_axis(op, "stride", stride, x.ndim - 2)):
        raise ValueError(f"[{op}] padding='same' needs stride 1, got {stride}.")
    node = Conv(stride, padding, dilation, groups)
    node.window(w.shape[:-2]).output(x.shape[1:-1], op)  # the user's error, before a kernel runs
    return node(x, w)


def per_axis(op: str, name: str, value: Any, rank: int, least: int = 1) -> tuple[int, ...]:
    """One number per spatial axis from a number or a sequence."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
    if len(values) != rank or any(not isinstance(v, int) or v < least for v in values):
        raise ValueError(
            f"[{op}] {name} must be a whole number >= {least} or {rank} of them, got {value!r}."
        )
    return values


def make_window(op: str, size: Any, stride: Any, padding: Any, dilation: Any) -> Window:
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
        pairs = tuple((p, p) for p in per_axis(op, "padding", padding, rank, least=0))
    return Window(tuple(size), per_axis(op, "stride", stride, rank), pairs, dilation)


class Unfold(TensorOp):
    """Every window: (N, S..., C) -> (N, P..., K..., C)"""

    linear = True

    def __init__(self, window: Window):
        self.window = window

    def compute(self, x: Any) -> Any:
        return W.unfold(x, self.window)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return Fold(self.window, node.inputs[0].shape[1:-1])(out_grad)


class Fold(TensorOp):
    """The adjoint of Unfold: windows added up where they overlap"""

    linear = True

    def __init__(self, window: Window, spatial: tuple[int, ...]):
        self.window = window
        self.spatial = spatial

    def compute(self, windows: Any) -> Any:
        return W.fold(windows, self.window, self.spatial)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return Unfold(self.window)(out_grad)
