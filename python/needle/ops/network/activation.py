"""Activations that are more than one elementary function, as one operator each."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from ...autograd import Tensor, TensorOp
from ...ndarray import functions as F
from ...tile import program as tp
from ...tile.program import Program, Symbol, program
from ..common import check_tensor
from ..compare import greater, where
from ..fused import FusedOp
from ..reduce import in_floats
from ..unary import erf, exp, square

if TYPE_CHECKING:
    from ...ndarray.array import NDArray

ROOT_HALF = math.sqrt(0.5)
DENSITY = 1 / math.sqrt(2 * math.pi)  # of the normal distribution at 0
TANH_SCALE, TANH_CUBIC = math.sqrt(2 / math.pi), 0.044715  # Hendrycks & Gimpel, 2016


@program
def gelu_program(x: Symbol) -> Symbol:
    return tp.gelu(x)


@program
def gelu_gradient(g: Symbol, x: Symbol) -> Symbol:
    return g * tp.gelu_slope(x)


@program
def gelu_tanh(x: Symbol) -> Symbol:
    inner = x * TANH_SCALE * (tp.square(x) * TANH_CUBIC + 1.0)
    return x * 0.5 * (tp.tanh(inner) + 1.0)


@program
def gelu_tanh_gradient(g: Symbol, x: Symbol) -> Symbol:
    squared = tp.square(x) * TANH_CUBIC
    t = tp.tanh(x * TANH_SCALE * (squared + 1.0))
    slope = (squared * 3.0 + 1.0) * TANH_SCALE
    return g * 0.5 * ((t + 1.0) + x * (1.0 - tp.square(t)) * slope)


@program
def silu_program(x: Symbol) -> Symbol:
    return x * tp.sigmoid(x)


@program
def silu_gradient(g: Symbol, x: Symbol) -> Symbol:
    s = tp.sigmoid(x)
    return g * s * (x * (1.0 - s) + 1.0)


class Gelu(TensorOp):
    """y = x Φ(x),  Φ(x) = (1 + erf(x / √2)) / 2,  dy/dx = Φ(x) + x e^(-x²/2) / √(2π)

    Equals x * (1 + erf(x * √½)) / 2."""

    elementwise = True

    def compute(self, x: NDArray) -> NDArray:
        return F.run(gelu_program, in_floats(x))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return GeluGradient()(out_grad, node.inputs[0])


class GeluGradient(FusedOp):
    """dx = g (Φ(x) + x e^(-x²/2) / √(2π))"""

    elementwise = True

    def compute(self, g: NDArray, x: NDArray) -> NDArray:
        return F.run(gelu_gradient, g, x)

    def definition(self, g: Tensor, x: Tensor) -> Tensor:
        density = exp(square(x) * -0.5) * DENSITY
        return g * ((erf(x * ROOT_HALF) + 1) * 0.5 + x * density)


class GeluTanh(TensorOp):
    """y = x (1 + t) / 2,  t = tanh u,  u = √(2/π) (x + 0.044715 x³)

    dy/dx = (1 + t) / 2 + x (1 - t²) u' / 2. Equals its formula in operators."""

    elementwise = True

    def compute(self, x: NDArray) -> NDArray:
        return F.run(gelu_tanh, in_floats(x))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return GeluTanhGradient()(out_grad, node.inputs[0])


class GeluTanhGradient(FusedOp):
    """dx = g ((1 + t) / 2 + x (1 - t²) u' / 2)"""

    elementwise = True
    formula = gelu_tanh_gradient


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution's Φ(x); approximate="tanh" for the usual approximation."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"[gelu] approximate must be 'none' or 'tanh', got {approximate!r}.")
    return (Gelu() if approximate == "none" else GeluTanh())(check_tensor("gelu", input))


class Silu(TensorOp):
    """y = x σ(x),  dy/dx = σ (1 + x (1 - σ)) with σ = 1 / (1 + e^-x). Equals x * sigmoid(x)."""

    elementwise = True

    def compute(self, x: NDArray) -> NDArray:
        return F.run(silu_program, in_floats(x))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return SiluGradient()(out_grad, node.inputs[0])


class SiluGradient(FusedOp):
    """dx = g σ (1 + x (1 - σ))"""

    elementwise = True
    formula = silu_gradient


def silu(input: Tensor) -> Tensor:
    """x times the sigmoid of x."""
    return Silu()(check_tensor("silu", input))


@lru_cache(maxsize=64)
def leaky_relu_program(slope: float) -> Program:
    @program
    def leaky_relu(x: Symbol) -> Symbol:
        return tp.where(x > 0, x, x * slope)

    return leaky_relu


class LeakyRelu(TensorOp):
    """y = x where x > 0, else s x,  dy/dx = 1 where x > 0, else s"""

    elementwise = True

    def __init__(self, slope: float):
        self.slope = slope

    def compute(self, x: NDArray) -> NDArray:
        return F.run(leaky_relu_program(self.slope), in_floats(x))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return where(greater(node.inputs[0], 0), out_grad, out_grad * self.slope)


def leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    """x where x > 0, else slope times x."""
    return LeakyRelu(float(slope))(check_tensor("leaky_relu", x))


@lru_cache(maxsize=64)
def softplus_program(beta: float, threshold: float) -> Program:
    @program
    def softplus(x: Symbol) -> Symbol:
        z = x * beta
        smooth = (tp.relu(z) + tp.log1p(tp.exp(-tp.abs(z)))) / beta
        return tp.where(z > threshold, x, smooth)

    return softplus


@lru_cache(maxsize=64)
def softplus_gradient(beta: float, threshold: float) -> Program:
    @program
    def softplus_gradient(g: Symbol, x: Symbol) -> Symbol:
        z = x * beta
        return tp.where(z > threshold, g, g * tp.sigmoid(z))

    return softplus_gradient


class Softplus(TensorOp):
    """y = ln(1 + e^βx) / β, or x where βx > threshold;  dy/dx = σ(βx), or 1 there

    Computed as (max(βx, 0) + ln(1 + e^-|βx|)) / β: exp never overflows."""

    elementwise = True

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        self.beta = beta
        self.threshold = threshold

    def compute(self, x: NDArray) -> NDArray:
        return F.run(softplus_program(self.beta, self.threshold), in_floats(x))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return SoftplusGradient(self.beta, self.threshold)(out_grad, node.inputs[0])


class SoftplusGradient(FusedOp):
    """dx = g σ(βx), or g where βx > threshold"""

    elementwise = True

    def __init__(self, beta: float, threshold: float):
        self.formula = softplus_gradient(beta, threshold)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, without overflow; x itself above the threshold."""
    if beta == 0:
        raise ValueError("[softplus] expected beta other than 0.")
    return Softplus(beta, threshold)(check_tensor("softplus", input))


@lru_cache(maxsize=64)
def elu_program(alpha: float) -> Program:
    @program
    def elu(x: Symbol) -> Symbol:
        return tp.where(x <= 0, tp.expm1(x) * alpha, x)

    return elu


@lru_cache(maxsize=64)
def elu_gradient(alpha: float) -> Program:
    @program
    def elu_gradient(g: Symbol, x: Symbol) -> Symbol:
        below = tp.where(x < 0, x, 0.0)  # an infinite e^x times a gradient of 0 would be NaN
        return tp.where(x <= 0, g * tp.exp(below) * alpha, g)

    return elu_gradient


class Elu(TensorOp):
    """y = α (e^x - 1) where x <= 0, else x,  dy/dx = α e^x where x <= 0, else 1"""

    elementwise = True

    def __init__(self, alpha: float):
        self.alpha = alpha

    def compute(self, x: NDArray) -> NDArray:
        return F.run(elu_program(self.alpha), in_floats(x))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return EluGradient(self.alpha)(out_grad, node.inputs[0])


class EluGradient(FusedOp):
    """dx = g α e^x where x <= 0, else g"""

    elementwise = True

    def __init__(self, alpha: float):
        self.formula = elu_gradient(alpha)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha (e^x - 1)."""
    return Elu(float(alpha))(check_tensor("elu", x))
