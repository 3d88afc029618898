"""Functions of one variable: dy/dx in terms of the result y where the mathematics allows it."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from ..autograd import Tensor, TensorOp
from ..dtype import bool_, dtype_of, float64, floating, widened
from ..ndarray import functions as F
from ..tile import program as tp
from ..tile.program import Program, Symbol, program
from .common import FlatOp, check_tensor, no_out, whole_number
from .elementwise import Elementwise, astype, of_one
from .fused import FusedOp

if TYPE_CHECKING:
    from ..ndarray.array import NDArray

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

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * sign(node.inputs[0])


abs = of_one(Abs, "The absolute value.")


class Sign(Elementwise, FlatOp):
    """y = -1, 0 or 1"""

    kernel = "sign"


sign = of_one(Sign, "-1, 0 or 1, as x is negative, zero or positive.")


class Exp(Elementwise):
    """y = e^x,  dy/dx = y"""

    kernel = "exp"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * node


exp = of_one(Exp, "e to the power x.")


class Expm1(Elementwise):
    """y = e^x - 1,  dy/dx = y + 1"""

    kernel = "expm1"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * (node + 1)


expm1 = of_one(Expm1, "exp(x) - 1, accurate near 0.")


class Log(Elementwise):
    """y = ln x,  dy/dx = 1/x"""

    kernel = "log"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad / node.inputs[0]


log = of_one(Log, "The natural logarithm.")


class Log1p(Elementwise):
    """y = ln(1 + x),  dy/dx = 1/(1 + x)"""

    kernel = "log1p"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad / (node.inputs[0] + 1)


log1p = of_one(Log1p, "log(1 + x), accurate near 0.")


class LogOfBase(TensorOp):
    """y = ln x / ln b,  dy/dx = 1/(x ln b)

    A result that rounding left beside a whole number is that number: log2(8) is 3."""

    elementwise = True
    base: ClassVar[int]

    def compute(self, a: NDArray) -> NDArray:
        dtype = floating(dtype_of(a.dtype))
        return F.run(log_of_base(self.base, widened(dtype) is float64), F.cast(a, dtype))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad / math.log(self.base) / node.inputs[0]  # x ln b could overflow


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


log2 = of_one(Log2, "The logarithm to base 2; of powers of 2 it is exact.")


class Log10(LogOfBase):
    """y = ln x / ln 10,  dy/dx = 1/(x ln 10)"""

    base = 10


log10 = of_one(Log10, "The logarithm to base 10; of powers of 10 it is exact.")


class Sqrt(Elementwise):
    """y = √x,  dy/dx = 1/(2y)"""

    kernel = "sqrt"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * 0.5 / node


sqrt = of_one(Sqrt, "The square root.")


class Rsqrt(Elementwise):
    """y = 1/√x,  dy/dx = -y³/2"""

    kernel = "rsqrt"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * -0.5 * node * node * node


rsqrt = of_one(Rsqrt, "1 / sqrt(x).")


class Square(Elementwise):
    """y = x²,  dy/dx = 2x"""

    kernel = "square"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * 2 * node.inputs[0]


square = of_one(Square, "x * x.")


class Sin(Elementwise):
    """y = sin x,  dy/dx = cos x"""

    kernel = "sin"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * cos(node.inputs[0])


sin = of_one(Sin, "The sine of x radians.")


class Cos(Elementwise):
    """y = cos x,  dy/dx = -sin x"""

    kernel = "cos"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return -out_grad * sin(node.inputs[0])


cos = of_one(Cos, "The cosine of x radians.")


class Tan(Elementwise):
    """y = tan x,  dy/dx = 1 + y²"""

    kernel = "tan"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * (node * node + 1)


tan = of_one(Tan, "The tangent of x radians.")


class Asin(Elementwise):
    """y = arcsin x,  dy/dx = 1 / √(1 - x²)"""

    kernel = "asin"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * _asin_slope(node.inputs[0])


def _asin_slope(x: Tensor) -> Tensor:
    """1 / √((1 - x) (1 + x)): beside ±1, 1 - x² would have few digits"""
    return rsqrt((1 - x) * (x + 1))


asin = of_one(Asin, "The angle in [-π/2, π/2] whose sine is x; NaN where |x| > 1.")


class Acos(Elementwise):
    """y = arccos x,  dy/dx = -1 / √(1 - x²)"""

    kernel = "acos"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return -out_grad * _asin_slope(node.inputs[0])


acos = of_one(Acos, "The angle in [0, π] whose cosine is x; NaN where |x| > 1.")


class Atan(Elementwise):
    """y = arctan x,  dy/dx = 1 / (1 + x²)"""

    kernel = "atan"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad / (square(node.inputs[0]) + 1)


atan = of_one(Atan, "The angle in (-π/2, π/2) whose tangent is x.")


class Tanh(Elementwise):
    """y = tanh x,  dy/dx = 1 - y²"""

    kernel = "tanh"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return TanhGradient()(out_grad, node)


@program
def tanh_gradient(g: Symbol, y: Symbol) -> Symbol:
    return g * (1.0 - y * y)


class TanhGradient(FusedOp):
    """dx = g (1 - y²)"""

    elementwise = True
    formula = tanh_gradient


tanh = of_one(Tanh, "The hyperbolic tangent.")


class Sinh(Elementwise):
    """y = sinh x,  dy/dx = cosh x"""

    kernel = "sinh"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * cosh(node.inputs[0])


sinh = of_one(Sinh, "The hyperbolic sine.")


class Cosh(Elementwise):
    """y = cosh x,  dy/dx = sinh x"""

    kernel = "cosh"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * sinh(node.inputs[0])


cosh = of_one(Cosh, "The hyperbolic cosine.")


class Sigmoid(Elementwise):
    """y = 1 / (1 + e^-x),  dy/dx = y (1 - y)"""

    kernel = "sigmoid"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return SigmoidGradient()(out_grad, node)


@program
def sigmoid_gradient(g: Symbol, y: Symbol) -> Symbol:
    return g * y * (1.0 - y)


class SigmoidGradient(FusedOp):
    """dx = g y (1 - y)"""

    elementwise = True
    formula = sigmoid_gradient


sigmoid = of_one(Sigmoid, "1 / (1 + exp(-x)), without overflow.")


class ReLU(Elementwise):
    """y = max(x, 0),  dy/dx = 1 where x > 0, which is where y > 0, else 0"""

    kernel = "relu"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return ReLUGradient()(out_grad, node)  # y is there for the next layer, x for nobody else


@program
def relu_gradient(g: Symbol, y: Symbol) -> Symbol:
    return tp.where(y <= 0, 0.0, g)


class ReLUGradient(FusedOp):
    """dx = 0 where y <= 0, else g: also where y is NaN"""

    elementwise = True
    formula = relu_gradient


relu = of_one(ReLU, "max(x, 0); the derivative at 0 is 0.")


class Erf(Elementwise):
    """y = 2/√π ∫₀ˣ e^(-t²) dt,  dy/dx = 2/√π e^(-x²)"""

    kernel = "erf"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * (2 / math.sqrt(math.pi)) * exp(-square(node.inputs[0]))


erf = of_one(Erf, "The error function.")


class Floor(Elementwise, FlatOp):
    """y = the largest whole number not above x"""

    kernel = "floor"


floor = of_one(Floor, "The largest whole number not above x, in x's dtype.")


class Ceil(Elementwise, FlatOp):
    """y = the smallest whole number not below x"""

    kernel = "ceil"


ceil = of_one(Ceil, "The smallest whole number not below x, in x's dtype.")


class Round(Elementwise, FlatOp):
    """y = the nearest whole number, halves to even"""

    kernel = "round"


def round(x: Tensor, decimals: int = 0, *, out: None = None) -> Tensor:
    """To the nearest number with so many decimals, a whole number for 0, a multiple of 10 for -1;
    halves go to the even one."""
    no_out("round", out)
    kind = dtype_of(check_tensor("round", x).dtype)
    places = whole_number("round", "decimals", decimals)
    if places == 0 or (places > 0 and kind.is_integer):
        return Round()(x)
    if kind is bool_:
        raise TypeError("[round] expected numbers to round to decimals, got bool; cast them.")
    power = float(f"1e{-places if places < 0 else places}")
    if places > 0:
        return Round()(x * power) / power
    return astype(Round()(x / power) * power, kind)
