"""Arithmetic of two operands: tensors, or a tensor and a number."""

from __future__ import annotations

import math
from typing import Any, Unpack

from .. import autograd
from ..autograd import Tensor
from ..dtype import DType, dtype_of, float32, float64, promote, promote_scalar
from ..ndarray import functions as F
from ..ndarray.array import as_scalar
from .common import FlatOp, Scalar, Ufunc, check_tensor, is_scalar, report_as, zeros_like
from .compare import equal, logical_and, where
from .elementwise import Elementwise, WithScalar, astype, of_two, pair, ufunc

__all__ = [
    "EWiseAdd", "AddScalar", "add_scalar", "add", "Negate", "negate", "subtract", "EWiseMul",
    "MulScalar", "mul_scalar", "multiply", "EWiseDiv", "DivScalar", "ScalarDiv",
    "divide_scalar", "divide", "EWisePow", "PowerScalar", "ScalarPower", "power_scalar",
    "power", "Atan2", "atan2", "Remainder", "remainder", "FloorDivide", "floor_divide",
]  # fmt: skip


class EWiseAdd(Elementwise):
    """y = a + b"""

    kernel = "add"
    linear = True

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad, out_grad


class AddScalar(WithScalar):
    """y = x + s"""

    kernel = "add"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad


def add_scalar(a: Tensor, scalar: Scalar) -> Tensor:
    """a + scalar, a number (the course's name; `a + 2` is the same)."""
    return AddScalar(as_scalar(scalar, "add_scalar"))(a)


def add(a: Any, b: Any, **numpy: Unpack[Ufunc]) -> Tensor:
    """a + b; either may be a number."""
    if numpy:
        return ufunc(add, numpy, a, b)
    if isinstance(a, Tensor) and isinstance(b, Tensor):  # first: the others take longer to tell
        return EWiseAdd()(a, b)
    if is_scalar(b):
        return AddScalar(b)(check_tensor("add", a))
    if is_scalar(a):
        return AddScalar(a)(check_tensor("add", b))
    return EWiseAdd()(*pair("add", a, b))


class Negate(Elementwise):
    """y = -x"""

    kernel = "negative"
    linear = True

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return -out_grad


def negate(a: Tensor) -> Tensor:
    """-a, element by element."""
    return Negate()(check_tensor("negate", a))


def positive(a: Tensor) -> Tensor:
    """+a: a itself."""
    return check_tensor("positive", a)


class EWiseSub(Elementwise):
    """y = a - b"""

    kernel = "subtract"
    linear = True

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad, -out_grad


def subtract(a: Any, b: Any, **numpy: Unpack[Ufunc]) -> Tensor:
    """a - b: in a graph a + (-b), as the course has it."""
    if numpy:
        return ufunc(subtract, numpy, a, b)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        recorded = autograd.is_grad_enabled() and (a.requires_grad or b.requires_grad)
        if not recorded and not autograd.LAZY_MODE:
            return EWiseSub()(a, b)
    try:
        return _add_negative(a, b)
    except (TypeError, ValueError) as error:
        report_as("subtract", error)
        raise


def _add_negative(a: Any, b: Any) -> Tensor:
    if is_scalar(b):
        b = as_scalar(b, "subtract")  # -numpy.uint8(1) would be 255
        if _has_negative(a, b):
            return add(check_tensor("subtract", a), -b)
    if is_scalar(a):
        check_tensor("subtract", b)
        dtype = promote_scalar(dtype_of(b.dtype), type(as_scalar(a, "subtract")))
        return add(Negate()(_widened(b, dtype)), a)
    a, b = pair("subtract", a, b)
    return EWiseAdd()(a, Negate()(_widened(b, promote(dtype_of(a.dtype), dtype_of(b.dtype)))))


def _widened(b: Tensor, dtype: DType) -> Tensor:
    """b in the dtype of a - b: in a narrower integer type, -b would wrap around."""
    return b if dtype_of(b.dtype).is_floating else astype(b, dtype)


def _has_negative(x: Any, scalar: Scalar) -> bool:
    """Is -s a value of x's dtype? (If not, wrapping negation of a tensor gives the right sum.)"""
    return not isinstance(x, Tensor) or F.fits(dtype_of(x.dtype), -scalar)


class EWiseMul(Elementwise):
    """y = a b,  dy/da = b,  dy/db = a"""

    kernel = "multiply"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        a, b = node.inputs
        return out_grad * b, out_grad * a


class MulScalar(WithScalar):
    """y = s x"""

    kernel = "multiply"
    linear = True

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad * self.scalar


def mul_scalar(a: Tensor, scalar: Scalar) -> Tensor:
    """a * scalar, a number (the course's name; `a * 2` is the same)."""
    return MulScalar(as_scalar(scalar, "mul_scalar"))(a)


def multiply(a: Any, b: Any, **numpy: Unpack[Ufunc]) -> Tensor:
    """a * b; either may be a number."""
    if numpy:
        return ufunc(multiply, numpy, a, b)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return EWiseMul()(a, b)
    if is_scalar(b):
        return MulScalar(b)(check_tensor("multiply", a))
    if is_scalar(a):
        return MulScalar(a)(check_tensor("multiply", b))
    return EWiseMul()(*pair("multiply", a, b))


class EWiseDiv(Elementwise):
    """y = a / b,  dy/da = 1/b,  dy/db = -y/b"""

    kernel = "divide"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        over_b = out_grad / node.inputs[1]
        return over_b, -over_b * node


class DivScalar(WithScalar):
    """y = x / s"""

    kernel = "divide"
    linear = True

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad / self.scalar


class ScalarDiv(WithScalar):
    """y = s / x,  dy/dx = -y/x"""

    kernel = "divide"

    def compute(self, a: Any) -> Any:
        return F.binary(self.kernel, self.scalar, a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        (x,) = node.inputs
        return -out_grad * node / x


def divide_scalar(a: Tensor, scalar: Scalar) -> Tensor:
    """a / scalar, a number (the course's name; `a / 2` is the same)."""
    return DivScalar(as_scalar(scalar, "divide_scalar"))(a)


def divide(a: Any, b: Any, **numpy: Unpack[Ufunc]) -> Tensor:
    """a / b; either may be a number. Integers divide to float64."""
    if numpy:
        return ufunc(divide, numpy, a, b)
    if is_scalar(b):
        return DivScalar(b)(check_tensor("divide", a))
    if is_scalar(a):
        return ScalarDiv(a)(check_tensor("divide", b))
    return EWiseDiv()(*pair("divide", a, b))


class EWisePow(Elementwise):
    """y = a^b,  dy/da = b a^(b-1)  (0 where a = b = 0),  dy/db = y ln a  (0 where a = 0)"""

    kernel = "power"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        a, b = node.inputs
        zero = equal(a, 0)
        log_a = where(zero, 1, a).log()
        base: Any = where(logical_and(zero, equal(b, 0)), 1, a)  # 0^-1 would make 0 · ∞
        return out_grad * b * base ** (b - 1), out_grad * node * log_a


# Powers that take one or two operations, where others take fifty: as NumPy's ** has them.
SHORT_POWERS: dict[Scalar, Any] = {
    2: lambda x: F.unary("square", x),
    3: lambda x: F.binary("multiply", F.unary("square", x), x),
    -1: lambda x: F.binary("divide", 1, x),
    0.5: lambda x: F.unary("sqrt", x),
}


class PowerScalar(WithScalar):
    """y = x^s,  dy/dx = s x^(s-1)"""

    kernel = "power"

    def compute(self, a: Any) -> Any:
        is_wide = dtype_of(a.dtype) in (float32, float64)  # halves would be rounded twice
        short = SHORT_POWERS.get(self.scalar) if is_wide else None
        return super().compute(a) if short is None else short(a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        (x,) = node.inputs
        if self.scalar == 0:
            return zeros_like(x)
        rest = x if self.scalar == 2 else x ** (self.scalar - 1)
        return out_grad * self.scalar * rest


class ScalarPower(WithScalar):
    """y = s^x,  dy/dx = y ln s"""

    kernel = "power"

    def compute(self, a: Any) -> Any:
        return F.binary(self.kernel, self.scalar, a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        rate = math.log(self.scalar) if self.scalar > 0 else (0 if self.scalar == 0 else math.nan)
        return out_grad * node * rate


def power_scalar(a: Tensor, scalar: Scalar) -> Tensor:
    """a ** scalar, a number (the course's name; `a**2` is the same)."""
    return PowerScalar(as_scalar(scalar, "power_scalar"))(a)


def power(a: Any, b: Any, **numpy: Unpack[Ufunc]) -> Tensor:
    """a ** b; either may be a number."""
    if numpy:
        return ufunc(power, numpy, a, b)
    if is_scalar(b):
        return PowerScalar(b)(check_tensor("power", a))
    if is_scalar(a):
        return ScalarPower(a)(check_tensor("power", b))
    return EWisePow()(*pair("power", a, b))


class Atan2(Elementwise):
    """z = the angle of the point (x, y),  dz/dy = x / (x² + y²),  dz/dx = -y / (x² + y²)"""

    kernel = "atan2"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        y, x = node.inputs
        scaled = out_grad / (x * x + y * y)
        return scaled * x, -scaled * y


def atan2(y: Any, x: Any, **numpy: Unpack[Ufunc]) -> Tensor:
    """The angle in [-π, π] between the x axis and the direction to the point (x, y)."""
    if numpy:
        return ufunc(atan2, numpy, y, x)
    return Atan2()(*pair("atan2", y, x))


class Remainder(Elementwise):
    """y = a - b floor(a/b), with the sign of b;  dy/da = 1,  dy/db = -floor(a/b)"""

    kernel = "remainder"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        a, b = node.inputs
        return out_grad, -out_grad * floor_divide(a, b)


remainder = of_two(
    Remainder, "The remainder of floor division; it has the sign of b, as in Python."
)


class FloorDivide(Elementwise, FlatOp):
    """y = floor(a / b)"""

    kernel = "floor_divide"


floor_divide = of_two(FloorDivide, "The largest whole number not above a / b.")
