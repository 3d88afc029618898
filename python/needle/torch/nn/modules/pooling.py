"""Pooling as layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import functional as F
from ..base.module import Module
from ..base.plain import Plain
from .utils import _ntuple

if TYPE_CHECKING:
    from ....autograd import Tensor

    Sizes = int | tuple[int, ...]

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


class _MaxPoolNd(Plain, function=F.max_pool1d):
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    dilation: Sizes = 1
    return_indices: bool = False
    ceil_mode: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stride = self.kernel_size if self.stride is None else self.stride

    def extra_repr(self) -> str:
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


class MaxPool1d(_MaxPoolNd, function=F.max_pool1d):
    """The largest of each window of (N, C, L)."""


class MaxPool2d(_MaxPoolNd, function=F.max_pool2d):
    """The largest of each window of (N, C, H, W)."""


class MaxPool3d(_MaxPoolNd, function=F.max_pool3d):
    """The largest of each window of (N, C, D, H, W)."""


class _AvgPoolNd(Plain, function=F.avg_pool1d):
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    ceil_mode: bool = False
    count_include_pad: bool = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stride = self.kernel_size if self.stride is None else self.stride

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd, function=F.avg_pool1d):
    """The average of each window of (N, C, L)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        single = _ntuple(1)
        self.kernel_size, self.stride = single(self.kernel_size), single(self.stride)
        self.padding = single(self.padding)


class AvgPool2d(_AvgPoolNd, function=F.avg_pool2d):
    """The average of each window of (N, C, H, W)."""

    divisor_override: int | None = None


class AvgPool3d(_AvgPoolNd, function=F.avg_pool3d):
    """The average of each window of (N, C, D, H, W)."""

    divisor_override: int | None = None


class AdaptiveAvgPool1d(Plain, function=F.adaptive_avg_pool1d):
    """(N, C, L) -> (N, C, output_size)"""

    output_size: Any


class AdaptiveAvgPool2d(Plain, function=F.adaptive_avg_pool2d):
    """(N, C, H, W) -> (N, C, *output_size)"""

    output_size: Any


class AdaptiveAvgPool3d(Plain, function=F.adaptive_avg_pool3d):
    """(N, C, D, H, W) -> (N, C, *output_size)"""

    output_size: Any


class _AdaptiveMaxPoolNd(Plain, function=F.adaptive_max_pool1d):
    output_size: Any
    return_indices: bool = False

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd, function=F.adaptive_max_pool1d):
    """(N, C, L) -> (N, C, output_size)"""


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd, function=F.adaptive_max_pool2d):
    """(N, C, H, W) -> (N, C, *output_size)"""


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd, function=F.adaptive_max_pool3d):
    """(N, C, D, H, W) -> (N, C, *output_size)"""


class _LPPoolNd(Plain, function=F.lp_pool1d):
    norm_type: float
    kernel_size: Sizes
    stride: Sizes | None = None
    ceil_mode: bool = False


class LPPool1d(_LPPoolNd, function=F.lp_pool1d):
    """The p-norm of each window of (N, C, L)."""


class LPPool2d(_LPPoolNd, function=F.lp_pool2d):
    """The p-norm of each window of (N, C, H, W)."""


class LPPool3d(_LPPoolNd, function=F.lp_pool3d):
    """The p-norm of each window of (N, C, D, H, W)."""


class _MaxUnpoolNd(Module):
    rank: int
    kernel_size: tuple[int, ...]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        every = _ntuple(self.rank)
        self.kernel_size = every(kernel_size)
        self.stride = every(kernel_size if stride is None else stride)
        self.padding = every(padding)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: list[int] | None = None
    ) -> Tensor:
        unpool = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[self.rank - 1]
        options = (self.kernel_size, self.stride, self.padding, output_size)
        return unpool(input, indices, *options)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """The elements at the places where MaxPool1d found them."""

    rank = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """The elements at the places where MaxPool2d found them."""

    rank = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """The elements at the places where MaxPool3d found them."""

    rank = 3
