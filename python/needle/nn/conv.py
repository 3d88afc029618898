"""Convolution layers: the course's `Conv`, and PyTorch's with their layouts and starting values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .. import init
from ..autograd import Tensor
from ..ops.network.conv import conv, make_window, per_axis
from . import functional as F
from .module import KERNEL_IN_OUT, OUT_IN, Module, Parameter, layouts

if TYPE_CHECKING:
    from ..types import DeviceLike, DTypeLike, Padding, Placed, Sizes

__all__ = [
    "Conv", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d",
]  # fmt: skip

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class Conv(Module):
    """The course's convolution, (N, C, H, W) -> (N, O, H', W'), padded by (k - 1) // 2.

    weight (k, k, C, O), bias (O,)."""

    _layouts = layouts(weight=KERNEL_IN_OUT)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        k: Any = kernel_size[0] if isinstance(kernel_size, tuple) else kernel_size
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = k
        self.stride = stride[0] if isinstance(stride, tuple) else stride
        fan_in = in_channels * k * k
        options: Placed = {"device": device, "dtype": dtype}
        shape = (k, k, in_channels, out_channels)
        self.weight = Parameter(
            init.kaiming_uniform(fan_in, out_channels * k * k, shape=shape, **options)
        )
        self.bias = None
        if bias:
            bound = 1 / math.sqrt(fan_in)
            self.bias = Parameter(init.rand(out_channels, low=-bound, high=bound, **options))

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[1] != self.weight.shape[2]:
            raise ValueError(
                f"[Conv] expected input (batch, {self.weight.shape[2]}, H, W), got {x.shape}."
            )
        padding = (self.kernel_size - 1) // 2
        y = conv(x.permute((0, 2, 3, 1)), self.weight, self.stride, padding)  # (N, H', W', O)
        if self.bias is not None:
            y = y + self.bias
        return y.permute((0, 3, 1, 2))

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, bias={self.bias is not None}"
        )


class _ConvNd(Module):
    """What convolutions share: sizes per axis, a weight and a bias from U(±1/√fan_in)."""

    _layouts = layouts(weight=OUT_IN)
    rank: ClassVar[int]
    transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        name, rank = type(self).__name__, self.rank
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"[{name}] groups must divide both in_channels and out_channels, got "
                f"{in_channels}, {out_channels} and groups={groups}."
            )
        known = PADDING_MODES[:1] if self.transposed else PADDING_MODES
        if padding_mode not in known:
            raise ValueError(
                f"[{name}] padding_mode must be one of {', '.join(known)}, got {padding_mode!r}."
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_axis(name, "kernel_size", kernel_size, rank)
        self.stride = per_axis(name, "stride", stride, rank)
        self.dilation = per_axis(name, "dilation", dilation, rank)
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ValueError(f"[{name}] padding='same' needs stride 1, got {stride}.")
        window = make_window(name, self.kernel_size, self.stride, padding, self.dilation)
        # Any: "same", "valid", or a number per axis
        self.padding: Any = padding
        if not isinstance(padding, str):
            self.padding = tuple(a for a, _ in window.padding)
        self._around = window.padding
        self.groups = groups
        self.padding_mode = padding_mode
        channels = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (channels[0], channels[1] // groups, *self.kernel_size)
        self._draw(shape, bias, device, dtype)

    def _draw(
        self, shape: tuple[int, ...], bias: bool, device: DeviceLike | None, dtype: DTypeLike
    ) -> None:
        fan_in = math.prod(shape[1:])
        bound = 1 / math.sqrt(fan_in) if fan_in else 0
        options: Placed = {"device": device, "dtype": dtype}
        weight = init.rand(*shape, low=-bound, high=bound, **options)
        rank = len(self.kernel_size)  # in memory (K..., C, O), as convolutions use it
        inside = weight.permute((*range(2, 2 + rank), 1, 0)).clone()
        self.weight = Parameter(inside.permute((rank + 1, rank, *range(rank))))
        self.bias = None
        if bias:
            self.bias = Parameter(init.rand(self.out_channels, low=-bound, high=bound, **options))

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        for name, usual in self._defaults().items():
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        text += "" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode}"
        return text if self.bias is not None else text + ", bias=False"

    def _defaults(self) -> dict[str, Sizes]:
        """What the repr leaves out."""
        return {"padding": (0,) * self.rank, "dilation": (1,) * self.rank, "groups": 1}


class _Conv(_ConvNd):
    def forward(self, x: Tensor) -> Tensor:
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self.rank - 1]
        padding = self.padding
        if self.padding_mode != "zeros":
            flat = [n for pair in reversed(self._around) for n in pair]
            x, padding = F.pad(x, flat, self.padding_mode), 0
        return convolve(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """(N, C, L) -> (N, O, L'); weight (O, C/groups, K), bias (O,). As in PyTorch."""

    rank = 1


class Conv2d(_Conv):
    """(N, C, H, W) -> (N, O, H', W'); weight (O, C/groups, K, K), bias (O,). As in PyTorch."""

    rank = 2


class Conv3d(_Conv):
    """(N, C, D, H, W) -> (N, O, D', H', W'); weight (O, C/groups, K, K, K). As in PyTorch."""

    rank = 3


class _ConvTranspose(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        name = type(self).__name__
        if isinstance(padding, str):
            raise ValueError(f"[{name}] padding must be numbers, got {padding!r}.")
        self.output_padding = per_axis(name, "output_padding", output_padding, self.rank, least=0)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, x: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.rank - 1]
        extra = self.output_padding if output_size is None else self._extra(x, output_size)
        options = (self.stride, self.padding, extra, self.groups, self.dilation)
        return convolve(x, self.weight, self.bias, *options)

    def _defaults(self) -> dict[str, Sizes]:
        return {**super()._defaults(), "output_padding": (0,) * self.rank}

    def _extra(self, x: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output padding that gives this size."""
        wanted = tuple(output_size)[-self.rank :]
        axes = zip(
            x.shape[-self.rank :], self.stride, self._around, self.dilation, self.kernel_size,
            strict=True,
        )  # fmt: skip
        least = tuple((n - 1) * s - a - b + d * (k - 1) + 1 for n, s, (a, b), d, k in axes)
        extra = tuple(m - n for m, n in zip(wanted, least, strict=True))
        if any(not 0 <= e < s for e, s in zip(extra, self.stride, strict=True)):
            most = tuple(n + s - 1 for n, s in zip(least, self.stride, strict=True))
            raise ValueError(
                f"[{type(self).__name__}] output_size must be from {least} to {most} for input "
                f"{x.shape}, got {wanted}."
            )
        return extra


class ConvTranspose1d(_ConvTranspose):
    """The adjoint of Conv1d: (N, C, L) -> (N, O, L'); weight (C, O/groups, K). As in PyTorch."""

    rank = 1


class ConvTranspose2d(_ConvTranspose):
    """The adjoint of Conv2d: (N, C, H, W) -> (N, O, H', W'); weight (C, O/groups, K, K)."""

    rank = 2


class ConvTranspose3d(_ConvTranspose):
    """The adjoint of Conv3d; weight (C, O/groups, K, K, K)."""

    rank = 3
