"""Activations that are more than one elementary function, as one operator each."""

from __future__ import annotations

import math
from typing import Any

from ..autograd import Tensor, TensorOp
from ..ndarray import functions as F
from .common import check_tensor
from .compare import greater, where
from .unary import erf, exp, sigmoid, square, tanh

ROOT_HALF = math.sqrt(0.5)
TANH_SCALE, TANH_CUBIC = math.sqrt(2 / math.pi), 0.044715  # Hendrycks & Gimpel, 2016


class Gelu(TensorOp):
    """y = x Φ(x),  Φ(x) = (1 + erf(x / √2)) / 2,  dy/dx = Φ(x) + x e^(-x²/2) / √(2π)

    Equals x * (1 + erf(x * √½)) / 2."""

    elementwise = True

    def compute(self, x: Any) -> Any:
        spread = F.binary("add", F.unary("erf", F.binary("multiply", x, ROOT_HALF)), 1)
        return F.binary("multiply", F.binary("multiply", x, 0.5), spread)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        x = node.inputs[0]
        density = exp(square(x) * -0.5) * (1 / math.sqrt(2 * math.pi))
        return out_grad * ((erf(x * ROOT_HALF) + 1) * 0.5 + x * density)


class GeluTanh(TensorOp):
    """y = x (1 + t) / 2,  t = tanh u,  u = √(2/π) (x + 0.044715 x³)

    dy/dx = (1 + t) / 2 + x (1 - t²) u' / 2. Equals its formula in operators."""

    elementwise = True

    def compute(self, x: Any) -> Any:
        cubic = F.binary("add", F.binary("multiply", F.unary("square", x), TANH_CUBIC), 1)
        inner = F.binary("multiply", F.binary("multiply", x, TANH_SCALE), cubic)
        spread = F.binary("add", F.unary("tanh", inner), 1)
        return F.binary("multiply", F.binary("multiply", x, 0.5), spread)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        x = node.inputs[0]
        squared = square(x) * TANH_CUBIC
        t = tanh(x * TANH_SCALE * (squared + 1))
        slope = (squared * 3 + 1) * TANH_SCALE
        return out_grad * 0.5 * ((t + 1) + x * (1 - square(t)) * slope)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution's Φ(x); approximate="tanh" for the usual approximation."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"[gelu] approximate must be 'none' or 'tanh', got {approximate!r}.")
    return (Gelu() if approximate == "none" else GeluTanh())(check_tensor("gelu", x))


class Softplus(TensorOp):
    """y = ln(1 + e^βx) / β, or x where βx > threshold;  dy/dx = σ(βx), or 1 there

    Computed as (max(βx, 0) + ln(1 + e^-|βx|)) / β: exp never overflows."""

    elementwise = True

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        self.beta = beta
        self.threshold = threshold

    def compute(self, x: Any) -> Any:
        z = F.binary("multiply", x, self.beta)
        small = F.unary("log1p", F.unary("exp", F.unary("negative", F.unary("abs", z))))
        y = F.binary("divide", F.binary("add", F.unary("relu", z), small), self.beta)
        return F.where(F.binary("greater", z, self.threshold), x, y)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        z = node.inputs[0] * self.beta
        return where(greater(z, self.threshold), out_grad, out_grad * sigmoid(z))


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, without overflow; x itself above the threshold."""
    if beta == 0:
        raise ValueError("[softplus] expected beta other than 0.")
    return Softplus(beta, threshold)(check_tensor("softplus", x))
