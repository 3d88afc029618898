"""Pooling and resizing layers, with PyTorch's signatures; (N, C, S...), or without the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .. import ops
from ..autograd import Tensor
from . import functional as F
from .module import Module

if TYPE_CHECKING:
    from ..types import Sizes

__all__ = [
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "GlobalAvgPool", "GlobalMaxPool", "Upsample", "PixelShuffle", "ZeroPad2d",
    "ReflectionPad2d",
]  # fmt: skip


class _Pool(Module):
    """A layer whose attributes are its function's arguments."""

    options: ClassVar[tuple[str, ...]]

    def arguments(self) -> dict[str, Any]:
        """What the function gets besides the input."""
        return {name: getattr(self, name) for name in self.options}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.arguments().items())


# Largest ------------------------------------------------------------------------------------------


class _MaxPool(_Pool):
    options = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode


class MaxPool1d(_MaxPool):
    """The largest of each window of (N, C, L)."""

    def forward(self, x: Tensor) -> Any:
        return F.max_pool1d(x, **self.arguments())


class MaxPool2d(_MaxPool):
    """The largest of each window of (N, C, H, W)."""

    def forward(self, x: Tensor) -> Any:
        return F.max_pool2d(x, **self.arguments())


class MaxPool3d(_MaxPool):
    """The largest of each window of (N, C, D, H, W)."""

    def forward(self, x: Tensor) -> Any:
        return F.max_pool3d(x, **self.arguments())


# Average ------------------------------------------------------------------------------------------


class AvgPool1d(_Pool):
    """The average of each window of (N, C, L)."""

    options: ClassVar[tuple[str, ...]] = (
        "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
    )  # fmt: skip

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool1d(x, **self.arguments())


class AvgPool2d(AvgPool1d):
    """The average of each window of (N, C, H, W)."""

    options = (*AvgPool1d.options, "divisor_override")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, **self.arguments())


class AvgPool3d(AvgPool2d):
    """The average of each window of (N, C, D, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool3d(x, **self.arguments())


# Parts of space, and all of it --------------------------------------------------------------------


class AdaptiveAvgPool1d(_Pool):
    """(N, C, L) -> (N, C, output_size): averages of equal parts."""

    options = ("output_size",)

    def __init__(self, output_size: Sizes):
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(x, self.output_size)


class AdaptiveAvgPool2d(AdaptiveAvgPool1d):
    """(N, C, H, W) -> (N, C, *output_size): averages of equal parts."""

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, self.output_size)


class AdaptiveMaxPool1d(_Pool):
    """(N, C, L) -> (N, C, output_size): the largest of equal parts."""

    options = ("output_size", "return_indices")

    def __init__(self, output_size: Sizes, return_indices: bool = False):
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, x: Tensor) -> Any:
        return F.adaptive_max_pool1d(x, **self.arguments())


class AdaptiveMaxPool2d(AdaptiveMaxPool1d):
    """(N, C, H, W) -> (N, C, *output_size): the largest of equal parts."""

    def forward(self, x: Tensor) -> Any:
        return F.adaptive_max_pool2d(x, **self.arguments())


class GlobalAvgPool(Module):
    """The average of each channel: (N, C, S...) -> (N, C)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.global_avg_pool(x)


class GlobalMaxPool(Module):
    """The largest element of each channel: (N, C, S...) -> (N, C)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.global_max_pool(x)


# Resolution ---------------------------------------------------------------------------------------


class Upsample(_Pool):
    """Space at another size, or by a factor; modes as in `functional.interpolate`."""

    options = ("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor")

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ):
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, **self.arguments())


class PixelShuffle(_Pool):
    """Channels as pixels: (N, C r r, H, W) -> (N, C, H r, W r), with r = upscale_factor."""

    options = ("upscale_factor",)

    def __init__(self, upscale_factor: int):
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_shuffle(x, self.upscale_factor)


# Borders ------------------------------------------------------------------------------------------


class ZeroPad2d(_Pool):
    """A border of zeros: padding is its width, or (left, right, top, bottom)."""

    options = ("padding",)
    mode = "constant"

    def __init__(self, padding: int | tuple[int, int, int, int]):
        self.padding = (padding,) * 4 if isinstance(padding, int) else tuple(padding)

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, self.padding, self.mode)


class ReflectionPad2d(ZeroPad2d):
    """A border that mirrors the pixels beside it."""

    mode = "reflect"
