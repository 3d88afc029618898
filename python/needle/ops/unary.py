"""Functions of one variable: dy/dx in terms of the result y where the mathematics allows it."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, ClassVar

from ..autograd import Tensor, TensorOp
from ..dtype import dtype_of, float64, floating, widened
from ..ndarray import functions as F
from ..tile import program as tp
from ..tile.program import Program, Symbol, program
from .common import FlatOp, check_tensor
from .elementwise import Elementwise
from .fused import FusedOp

# Exported as needle.<name>; the functions are also methods of Tensor.
__all__ = [
    "Abs", "abs", "Sign", "sign", "Exp", "exp", "Expm1", "expm1", "Log", "log", "Log1p",
    "log1p", "Log2", "log2", "Log10", "log10", "Sqrt", "sqrt", "Rsqrt", "rsqrt", "Square",
    "square", "Sin", "sin", "Cos", "cos", "Tan", "tan", "Asin", "asin", "Acos",
    "acos", "Atan", "atan", "Tanh", "tanh", "Sinh", "sinh", "Cosh",
    "cosh", "Sigmoid", "sigmoid", "ReLU", "relu", "Erf", "erf", "Floor", "floor", "Ceil", "ceil",
    "Round", "round",
]  # fmt: skip


class Abs(Elementwise):
    """y = |x|,  dy/dx = sign x"""

    kernel = "abs"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * sign(node.inputs[0])


def abs(x: Tensor) -> Tensor:
    """The absolute value."""
    return Abs()(check_tensor("abs", x))


class Sign(Elementwise, FlatOp):
    """y = -1, 0 or 1"""

    kernel = "sign"


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1, as x is negative, zero or positive."""
    return Sign()(check_tensor("sign", x))


class Exp(Elementwise):
    """y = e^x,  dy/dx = y"""

    kernel = "exp"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * node


def exp(x: Tensor) -> Tensor:
    """e to the power x."""
    return Exp()(check_tensor("exp", x))


class Expm1(Elementwise):
    """y = e^x - 1,  dy/dx = y + 1"""

    kernel = "expm1"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * (node + 1)


def expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, accurate near 0."""
    return Expm1()(check_tensor("expm1", x))


class Log(Elementwise):
    """y = ln x,  dy/dx = 1/x"""

    kernel = "log"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad / node.inputs[0]


def log(x: Tensor) -> Tensor:
    """The natural logarithm."""
    return Log()(check_tensor("log", x))


class Log1p(Elementwise):
    """y = ln(1 + x),  dy/dx = 1/(1 + x)"""

    kernel = "log1p"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad / (node.inputs[0] + 1)


def log1p(x: Tensor) -> Tensor:
    """log(1 + x), accurate near 0."""
    return Log1p()(check_tensor("log1p", x))


class LogOfBase(TensorOp):
    """y = ln x / ln b,  dy/dx = 1/(x ln b)

    A result that rounding left beside a whole number is that number: log2(8) is 3."""

    elementwise = True
    base: ClassVar[int]

    def compute(self, a: Any) -> Any:
        dtype = floating(dtype_of(a.dtype))
        return F.run(log_of_base(self.base, widened(dtype) is float64), F.cast(a, dtype))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad / (node.inputs[0] * math.log(self.base))


@cache
def log_of_base(base: int, double: bool) -> Program:
    factor = 1 / math.log(base)
    off = 2.0**-51 if double else 2.0**-22  # rounding of ln x and of the product, and no more

    @program
    def log_of_base(x: Symbol) -> Symbol:
        y = tp.log(x) * factor
        whole = tp.round(y)
        return tp.where(tp.abs(y - whole) <= tp.abs(whole) * off, whole, y)

    return log_of_base


class Log2(LogOfBase):
    """y = ln x / ln 2,  dy/dx = 1/(x ln 2)"""

    base = 2


def log2(x: Tensor) -> Tensor:
    """The logarithm to base 2; of powers of 2 it is exact."""
    return Log2()(check_tensor("log2", x))


class Log10(LogOfBase):
    """y = ln x / ln 10,  dy/dx = 1/(x ln 10)"""

    base = 10


def log10(x: Tensor) -> Tensor:
    """The logarithm to base 10; of powers of 10 it is exact."""
    return Log10()(check_tensor("log10", x))


class Sqrt(Elementwise):
    """y = √x,  dy/dx = 1/(2y)"""

    kernel = "sqrt"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * 0.5 / node


def sqrt(x: Tensor) -> Tensor:
    """The square root."""
    return Sqrt()(check_tensor("sqrt", x))


class Rsqrt(Elementwise):
    """y = 1/√x,  dy/dx = -y³/2"""

    kernel = "rsqrt"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * -0.5 * node * node * node


def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x)."""
    return Rsqrt()(check_tensor("rsqrt", x))


class Square(Elementwise):
    """y = x²,  dy/dx = 2x"""

    kernel = "square"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * 2 * node.inputs[0]


def square(x: Tensor) -> Tensor:
    """x * x."""
    return Square()(check_tensor("square", x))


class Sin(Elementwise):
    """y = sin x,  dy/dx = cos x"""

    kernel = "sin"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * cos(node.inputs[0])


def sin(x: Tensor) -> Tensor:
    """The sine of x radians."""
    return Sin()(check_tensor("sin", x))


class Cos(Elementwise):
    """y = cos x,  dy/dx = -sin x"""

    kernel = "cos"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return -out_grad * sin(node.inputs[0])


def cos(x: Tensor) -> Tensor:
    """The cosine of x radians."""
    return Cos()(check_tensor("cos", x))


class Tan(Elementwise):
    """y = tan x,  dy/dx = 1 + y²"""

    kernel = "tan"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * (node * node + 1)


def tan(x: Tensor) -> Tensor:
    """The tangent of x radians."""
    return Tan()(check_tensor("tan", x))


class Asin(Elementwise):
    """y = arcsin x,  dy/dx = 1 / √(1 - x²)"""

    kernel = "asin"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * rsqrt(1 - square(node.inputs[0]))


def asin(x: Tensor) -> Tensor:
    """The angle in [-π/2, π/2] whose sine is x; NaN where |x| > 1."""
    return Asin()(check_tensor("asin", x))


class Acos(Elementwise):
    """y = arccos x,  dy/dx = -1 / √(1 - x²)"""

    kernel = "acos"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return -out_grad * rsqrt(1 - square(node.inputs[0]))


def acos(x: Tensor) -> Tensor:
    """The angle in [0, π] whose cosine is x; NaN where |x| > 1."""
    return Acos()(check_tensor("acos", x))


class Atan(Elementwise):
    """y = arctan x,  dy/dx = 1 / (1 + x²)"""

    kernel = "atan"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad / (square(node.inputs[0]) + 1)


def atan(x: Tensor) -> Tensor:
    """The angle in (-π/2, π/2) whose tangent is x."""
    return Atan()(check_tensor("atan", x))


class Tanh(Elementwise):
    """y = tanh x,  dy/dx = 1 - y²"""

    kernel = "tanh"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return TanhGradient()(out_grad, node)


@program
def tanh_gradient(g: Symbol, y: Symbol) -> Symbol:
    return g * (1.0 - y * y)


class TanhGradient(FusedOp):
    """dx = g (1 - y²)"""

    elementwise = True
    formula = tanh_gradient


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return Tanh()(check_tensor("tanh", x))


class Sinh(Elementwise):
    """y = sinh x,  dy/dx = cosh x"""

    kernel = "sinh"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * cosh(node.inputs[0])


def sinh(x: Tensor) -> Tensor:
    """The hyperbolic sine."""
    return Sinh()(check_tensor("sinh", x))


class Cosh(Elementwise):
    """y = cosh x,  dy/dx = sinh x"""

    kernel = "cosh"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * sinh(node.inputs[0])


def cosh(x: Tensor) -> Tensor:
    """The hyperbolic cosine."""
    return Cosh()(check_tensor("cosh", x))


class Sigmoid(Elementwise):
    """y = 1 / (1 + e^-x),  dy/dx = y (1 - y)"""

    kernel = "sigmoid"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return SigmoidGradient()(out_grad, node)


@program
def sigmoid_gradient(g: Symbol, y: Symbol) -> Symbol:
    return g * y * (1.0 - y)


class SigmoidGradient(FusedOp):
    """dx = g y (1 - y)"""

    elementwise = True
    formula = sigmoid_gradient


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), without overflow."""
    return Sigmoid()(check_tensor("sigmoid", x))


class ReLU(Elementwise):
    """y = max(x, 0),  dy/dx = 1 where x > 0, which is where y > 0, else 0"""

    kernel = "relu"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return ReLUGradient()(out_grad, node)  # y is there for the next layer, x for nobody else


@program
def relu_gradient(g: Symbol, y: Symbol) -> Symbol:
    return tp.where(y > 0, g, 0.0)


class ReLUGradient(FusedOp):
    """dx = g where y > 0, else 0"""

    elementwise = True
    formula = relu_gradient


def relu(x: Tensor) -> Tensor:
    """max(x, 0); the derivative at 0 is 0."""
    return ReLU()(check_tensor("relu", x))


class Erf(Elementwise):
    """y = 2/√π ∫₀ˣ e^(-t²) dt,  dy/dx = 2/√π e^(-x²)"""

    kernel = "erf"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * (2 / math.sqrt(math.pi)) * exp(-square(node.inputs[0]))


def erf(x: Tensor) -> Tensor:
    """The error function."""
    return Erf()(check_tensor("erf", x))


class Floor(Elementwise, FlatOp):
    """y = the largest whole number not above x"""

    kernel = "floor"


def floor(x: Tensor) -> Tensor:
    """The largest whole number not above x, in x's dtype."""
    return Floor()(check_tensor("floor", x))


class Ceil(Elementwise, FlatOp):
    """y = the smallest whole number not below x"""

    kernel = "ceil"


def ceil(x: Tensor) -> Tensor:
    """The smallest whole number not below x, in x's dtype."""
    return Ceil()(check_tensor("ceil", x))


class Round(Elementwise, FlatOp):
    """y = the nearest whole number, halves to even"""

    kernel = "round"


def round(x: Tensor) -> Tensor:
    """Round to the nearest whole number; halves go to the even one."""
    return Round()(check_tensor("round", x))
