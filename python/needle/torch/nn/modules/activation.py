"""Activation functions as layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .... import torch
from .. import functional as F, init
from ..base.module import Module
from ..base.plain import Plain
from ..parameter import Parameter

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU",
    "Sigmoid", "SiLU", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign",
    "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class ReLU(Plain, function=F.relu):
    """max(x, 0)"""

    inplace: bool = False


class Threshold(Plain, function=F.threshold):
    """x where x > threshold, else value"""

    threshold: float
    value: float
    inplace: bool = False


class RReLU(Plain, function=F.rrelu):
    """leaky_relu with a slope that is drawn for each element in training."""

    lower: float = 1.0 / 8
    upper: float = 1.0 / 3
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(Plain, function=F.hardtanh):
    """x between two bounds, else the bound."""

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for former, name in (("min_value", "min_val"), ("max_value", "max_val")):
            if (value := kwargs.pop(former, None)) is not None:
                kwargs[name] = value
        super().__init__(*args, **kwargs)
        if not self.max_val > self.min_val:
            raise AssertionError(
                f"max_val must be larger than min_val, got {self.min_val} and {self.max_val}"
            )


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)"""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ELU(Plain, function=F.elu):
    """x where x > 0, else alpha (e^x - 1)"""

    alpha: float = 1.0
    inplace: bool = False


class CELU(Plain, function=F.celu):
    """max(x, 0) + min(alpha (e^(x / alpha) - 1), 0)"""

    alpha: float = 1.0
    inplace: bool = False


class SELU(Plain, function=F.selu):
    """elu scaled so that deep networks keep mean 0 and variance 1"""

    inplace: bool = False


class LeakyReLU(Plain, function=F.leaky_relu):
    """x where x > 0, else negative_slope x"""

    negative_slope: float = 1e-2
    inplace: bool = False


class SiLU(Plain, function=F.silu):
    """x σ(x)"""

    inplace: bool = False


class Mish(Plain, function=F.mish):
    """x tanh(ln(1 + e^x))"""

    inplace: bool = False


class _Quiet(Plain):
    """The repr says nothing."""

    def extra_repr(self) -> str:
        return ""


class Hardswish(_Quiet, function=F.hardswish):
    """0 up to -3, x from 3 on, x (x + 3) / 6 between"""

    inplace: bool = False


class Hardsigmoid(_Quiet, function=F.hardsigmoid):
    """x / 6 + 1/2, between 0 and 1"""

    inplace: bool = False


class GELU(Plain, function=F.gelu):
    """x Φ(x)"""

    approximate: str = "none"


class GLU(Plain, function=F.glu):
    """a σ(b), where a and b are the halves of x along dim"""

    dim: int = -1


class Softplus(Plain, function=F.softplus):
    """ln(1 + e^(βx)) / β"""

    beta: float = 1.0
    threshold: float = 20.0


class _Shrink(Plain):
    lambd: float

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink, function=F.hardshrink):
    """x where |x| > λ, else 0"""

    lambd: float = 0.5


class Softshrink(_Shrink, function=F.softshrink):
    """x moved by λ towards 0"""

    lambd: float = 0.5


class Tanhshrink(Plain, function=F.tanhshrink):
    """x - tanh(x)"""


class Sigmoid(Plain, function=F.sigmoid):
    """1 / (1 + e^-x)"""


class Tanh(Plain, function=F.tanh):
    """tanh(x)"""


class LogSigmoid(Plain, function=F.logsigmoid):
    """ln σ(x)"""


class Softsign(Plain, function=F.softsign):
    """x / (1 + |x|)"""


class Softmax(Plain, function=F.softmax):
    """e^x / Σ e^x along dim"""

    dim: int | None = None


class Softmin(Plain, function=F.softmin):
    """softmax(-x)"""

    dim: int | None = None


class LogSoftmax(Plain, function=F.log_softmax):
    """ln softmax(x) along dim"""

    dim: int | None = None


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


class PReLU(Module):
    """x where x > 0, else a x, with a parameter a, one or one for each channel"""

    __constants__ = ["num_parameters"]

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(torch.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The slope that was given."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
