"""Convolution layers."""

from __future__ import annotations

import math
from typing import Any

from .. import init
from ..autograd import Tensor
from ..ops.conv import conv
from .module import Module, Parameter


class Conv(Module):
    """The course's convolution, (N, C, H, W) -> (N, O, H', W'), padded by (k - 1) // 2.

    weight (k, k, C, O), bias (O,)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        bias: bool = True,
        device: Any = None,
        dtype: Any = "float32",
    ):
        k = kernel_size[0] if isinstance(kernel_size, tuple) else kernel_size
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = k
        self.stride = stride[0] if isinstance(stride, tuple) else stride
        fan_in = in_channels * k * k
        options = {"device": device, "dtype": dtype}
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
