"""Convolutions as layers; weights are (O, C/groups, K...), transposed (C, O/groups, K...)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .... import torch
from .. import functional as F, init
from ..base.lazy import LazyModuleMixin
from ..base.module import Module
from ..parameter import Parameter, UninitializedParameter
from .utils import _ntuple, _reverse_repeat_tuple

if TYPE_CHECKING:
    from ....autograd import Tensor

    Sizes = int | tuple[int, ...]

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]  # fmt: skip

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions have."""

    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels",
        "out_channels", "kernel_size",
    ]  # fmt: skip
    rank: ClassVar[int]
    transposed_class: ClassVar[bool] = False
    _function: ClassVar[Callable[..., Tensor]]
    weight: Tensor

    def _setup(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        dilation: Any, output_padding: Any, groups: int, bias: bool, padding_mode: str,
        device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode not in PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {set(PADDING_MODES)}, but got "
                f"padding_mode='{padding_mode}'"
            )
        every = _ntuple(self.rank)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride = every(kernel_size), every(stride)
        self.padding = padding if isinstance(padding, str) else every(padding)
        self.dilation = every(dilation)
        self.transposed = self.transposed_class
        self.output_padding = every(output_padding)
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._border()
        self._make(bias, {"device": device, "dtype": dtype})

    def _make(self, bias: bool, place: dict[str, Any]) -> None:
        """The parameters."""
        self.weight = Parameter(torch.empty(self._weight_shape(), **place))
        if bias:
            self.bias = Parameter(torch.empty(self.out_channels, **place))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        channels = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            channels = (self.in_channels, self.out_channels // self.groups)
        return (*channels, *self.kernel_size)

    def _border(self) -> list[int]:
        """The padding as F.pad takes it: the last axis first, before and after."""
        if not isinstance(self.padding, str):
            return list(_reverse_repeat_tuple(self.padding, 2))
        if self.padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {self.padding!r}, should be one of {{'valid', 'same'}}"
            )
        if self.padding == "valid":
            return [0] * (2 * self.rank)
        if any(s != 1 for s in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        found = []
        for d, k in zip(reversed(self.dilation), reversed(self.kernel_size), strict=True):
            total = d * (k - 1)
            found += [total // 2, total - total // 2]
        return found

    def reset_parameters(self) -> None:
        """Even numbers between ± 1/√fan_in."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        zeros, ones = (0,) * self.rank, (1,) * self.rank
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        for name, usual in (
            ("padding", zeros), ("dilation", ones), ("output_padding", zeros), ("groups", 1),
        ):  # fmt: skip
            if (value := getattr(self, name)) != usual:
                text += f", {name}={value}"
        text += "" if self.bias is not None else ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_ConvNd):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
        padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._setup(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            border = self._reversed_padding_repeated_twice
            input, padding = F.pad(input, border, self.padding_mode), 0
        options = (self.stride, padding, self.dilation, self.groups)
        return type(self)._function(input, weight, bias, *options)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """(N, C, L) -> (N, O, L')"""

    rank = 1
    _function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """(N, C, H, W) -> (N, O, H', W')"""

    rank = 2
    _function = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """(N, C, D, H, W) -> (N, O, D', H', W')"""

    rank = 3
    _function = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    transposed_class = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
        padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, bias: bool = True,
        dilation: Sizes = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._setup(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding,
            groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """What makes the output have this size."""
        if output_size is None:
            return self.output_padding
        size = list(output_size)[-self.rank :]
        found = []
        for i, wanted in enumerate(size):
            least = (input.shape[i - self.rank] - 1) * self.stride[i] - 2 * self.padding[i]
            least += self.dilation[i] * (self.kernel_size[i] - 1) + 1
            if not least <= wanted <= least + self.stride[i] - 1:
                raise ValueError(
                    f"requested an output size of {size}, but valid sizes range from {least} to "
                    f"{least + self.stride[i] - 1} (for an input of {list(input.shape)[2:]})"
                )
            found.append(wanted - least)
        return tuple(found)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        options = (self.stride, self.padding, extra, self.groups, self.dilation)
        return type(self)._function(input, self.weight, self.bias, *options)


class ConvTranspose1d(_ConvTransposeNd):
    """The adjoint of Conv1d."""

    rank = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The adjoint of Conv2d."""

    rank = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The adjoint of Conv3d."""

    rank = 3
    _function = staticmethod(F.conv_transpose3d)


class _LazyConv(LazyModuleMixin, _ConvNd):
    """A convolution with in_channels from the first input."""

    def __init__(self, out_channels: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(0, out_channels, *args, **kwargs)

    def _make(self, bias: bool, place: dict[str, Any]) -> None:
        self.weight = UninitializedParameter(**place)
        if bias:
            self.bias = UninitializedParameter(**place)
        else:
            self.register_parameter("bias", None)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.in_channels = input.shape[-self.rank - 1]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        self.weight.materialize(self._weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class LazyConv1d(_LazyConv, Conv1d):
    """Conv1d, with in_channels from the first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """Conv2d, with in_channels from the first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """Conv3d, with in_channels from the first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConv, ConvTranspose1d):
    """ConvTranspose1d, with in_channels from the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConv, ConvTranspose2d):
    """ConvTranspose2d, with in_channels from the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConv, ConvTranspose3d):
    """ConvTranspose3d, with in_channels from the first input."""

    cls_to_become = ConvTranspose3d
