"""Activation functions as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..autograd import Tensor
from ..init import full
from . import functional as F
from .module import Module, Parameter

if TYPE_CHECKING:
    from ..types import DeviceLike, DTypeLike

__all__ = [
    "ReLU", "ReLU6", "Sigmoid", "LogSigmoid", "Tanh", "GELU", "SiLU", "Mish", "Softplus",
    "Softsign", "ELU", "SELU", "LeakyReLU", "PReLU", "Hardtanh", "Hardsigmoid", "Hardswish",
    "GLU", "Softmax", "LogSoftmax",
]  # fmt: skip


class _Activation(Module):
    """A module whose settings are its only attributes; the repr lists them."""

    def extra_repr(self) -> str:
        settings = ((k, v) for k, v in self.__dict__.items() if k not in ("training", "_hooks"))
        return ", ".join(f"{name}={value!r}" for name, value in settings)


class _InPlace(_Activation):
    """`inplace` is for PyTorch's scripts, and changes nothing: the result has its own memory."""

    def __init__(self, inplace: bool = False):
        pass


class ReLU(_InPlace):
    """max(x, 0)"""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x)


class ReLU6(_InPlace):
    """min(max(x, 0), 6)"""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu6(x)


class Sigmoid(_Activation):
    """1 / (1 + e^-x)"""

    def forward(self, x: Tensor) -> Tensor:
        return F.sigmoid(x)


class LogSigmoid(_Activation):
    """ln σ(x)"""

    def forward(self, x: Tensor) -> Tensor:
        return F.logsigmoid(x)


class Tanh(_Activation):
    """tanh x"""

    def forward(self, x: Tensor) -> Tensor:
        return F.tanh(x)


class GELU(_Activation):
    """x Φ(x), Φ the normal distribution; approximate="tanh" for the usual approximation"""

    def __init__(self, approximate: str = "none"):
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, self.approximate)


class SiLU(_InPlace):
    """x σ(x)"""

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(x)


class Mish(_InPlace):
    """x tanh(ln(1 + e^x))"""

    def forward(self, x: Tensor) -> Tensor:
        return F.mish(x)


class Softplus(_Activation):
    """ln(1 + e^βx) / β, or x where βx > threshold"""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        self.beta = beta
        self.threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(x, self.beta, self.threshold)


class Softsign(_Activation):
    """x / (1 + |x|)"""

    def forward(self, x: Tensor) -> Tensor:
        return F.softsign(x)


class ELU(_Activation):
    """x where x > 0, else alpha (e^x - 1)"""

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return F.elu(x, self.alpha)


class SELU(_InPlace):
    """ELU scaled so that deep networks keep mean 0 and variance 1"""

    def forward(self, x: Tensor) -> Tensor:
        return F.selu(x)


class LeakyReLU(_Activation):
    """x where x > 0, else negative_slope x"""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, self.negative_slope)


class PReLU(Module):
    """x where x > 0, else w x, with a learned w for all channels, or one for each (N, C, ...)"""

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        if num_parameters < 1:
            raise ValueError(f"[PReLU] expected num_parameters >= 1, got {num_parameters}.")
        self.num_parameters = num_parameters
        self.weight = Parameter(full(num_parameters, init, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return F.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Hardtanh(_Activation):
    """x between two bounds, else the bound"""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, x: Tensor) -> Tensor:
        return F.hardtanh(x, self.min_val, self.max_val)


class Hardsigmoid(_InPlace):
    """x / 6 + 1/2, between 0 and 1"""

    def forward(self, x: Tensor) -> Tensor:
        return F.hardsigmoid(x)


class Hardswish(_InPlace):
    """0 up to -3, x from 3 on, x (x + 3) / 6 between"""

    def forward(self, x: Tensor) -> Tensor:
        return F.hardswish(x)


class _AlongDim(_Activation):
    """Along one axis, by default the last."""

    def __init__(self, dim: int = -1):
        self.dim = dim


class GLU(_AlongDim):
    """a σ(b), where a and b are the halves of x along dim"""

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(x, self.dim)


class Softmax(_AlongDim):
    """e^x / Σ e^x along dim"""

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x, self.dim)


class LogSoftmax(_AlongDim):
    """ln softmax(x) along dim"""

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(x, self.dim)
