"""Arithmetic of two operands: tensors, or a tensor and a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from .. import autograd
from ..autograd import Tensor
from ..dtype import DType, dtype_of, float32, float64, promote, promote_scalar
from ..ndarray import functions as F
from ..ndarray.array import as_scalar
from ..tile import program as tp
from ..tile.program import Symbol, program
from .common import FlatOp, Scalar, Ufunc, check_tensor, is_scalar, report_as, zeros_like
from .compare import equal, greater_equal, isfinite, logical_and, logical_not, where
from .elementwise import Elementwise, WithScalar, astype, of_two, pair, ufunc
from .fused import FusedOp, FusedTupleOp, run_composites

if TYPE_CHECKING:
    from ..types import Gradients, NDArray, TensorLike

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

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return out_grad, out_grad


class AddScalar(WithScalar):
    """y = x + s"""

    kernel = "add"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad


def add_scalar(a: Tensor, scalar: Scalar) -> Tensor:
    """a + scalar, a number (the course's name; `a + 2` is the same)."""
    return AddScalar(as_scalar(scalar, "add_scalar"))(a)


def add(a: TensorLike, b: TensorLike, **numpy: Unpack[Ufunc]) -> Tensor:
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

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
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

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return out_grad, -out_grad


def subtract(a: TensorLike, b: TensorLike, **numpy: Unpack[Ufunc]) -> Tensor:
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


def _add_negative(a: TensorLike, b: TensorLike) -> Tensor:
    if is_scalar(b):
        b = as_scalar(b, "subtract")  # -numpy.uint8(1) would be 255
        if _has_negative(a, b):
            return add(check_tensor("subtract", a), -b)
    if is_scalar(a):
        b = check_tensor("subtract", b)
        dtype = promote_scalar(dtype_of(b.dtype), type(as_scalar(a, "subtract")))
        return add(Negate()(_widened(b, dtype)), a)
    a, b = pair("subtract", a, b)
    return EWiseAdd()(a, Negate()(_widened(b, promote(dtype_of(a.dtype), dtype_of(b.dtype)))))


def _widened(b: Tensor, dtype: DType) -> Tensor:
    """b in the dtype of a - b: in a narrower integer type, -b would wrap around."""
    return b if dtype_of(b.dtype).is_floating else astype(b, dtype)


def _has_negative(x: TensorLike, scalar: Scalar) -> bool:
    """Is -s a value of x's dtype? (If not, wrapping negation of a tensor gives the right sum.)"""
    return not isinstance(x, Tensor) or F.fits(dtype_of(x.dtype), -scalar)


class EWiseMul(Elementwise):
    """y = a b,  dy/da = b,  dy/db = a"""

    kernel = "multiply"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        a, b = node.inputs
        return out_grad * b, out_grad * a


class MulScalar(WithScalar):
    """y = s x"""

    kernel = "multiply"
    linear = True

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * self.scalar


def mul_scalar(a: Tensor, scalar: Scalar) -> Tensor:
    """a * scalar, a number (the course's name; `a * 2` is the same)."""
    return MulScalar(as_scalar(scalar, "mul_scalar"))(a)


def multiply(a: TensorLike, b: TensorLike, **numpy: Unpack[Ufunc]) -> Tensor:
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

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        a, b = node.inputs
        by_a = out_grad / b if a.requires_grad else None
        return by_a, _by_divisor(out_grad, node, b) if b.requires_grad else None


def _by_divisor(out_grad: Tensor, quotient: Tensor, b: Tensor) -> Tensor:
    return QuotientGradient()(out_grad, quotient, astype(b, quotient.dtype))


@program
def quotient_gradient(g: Symbol, y: Symbol, b: Symbol) -> Symbol:
    return -g * (y / b)


class QuotientGradient(FusedOp):
    """db = -g (y / b): y / b is right where g / b would overflow, as for 0 / 1e-45"""

    elementwise = True
    formula = quotient_gradient


class DivScalar(WithScalar):
    """y = x / s"""

    kernel = "divide"
    linear = True

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad / self.scalar


class ScalarDiv(WithScalar):
    """y = s / x,  dy/dx = -y/x"""

    kernel = "divide"

    def compute(self, a: NDArray) -> NDArray:
        return F.binary(self.kernel, self.scalar, a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return _by_divisor(out_grad, node, node.inputs[0])


def divide_scalar(a: Tensor, scalar: Scalar) -> Tensor:
    """a / scalar, a number (the course's name; `a / 2` is the same)."""
    return DivScalar(as_scalar(scalar, "divide_scalar"))(a)


def divide(a: TensorLike, b: TensorLike, **numpy: Unpack[Ufunc]) -> Tensor:
    """a / b; either may be a number. Integers divide to float64."""
    if numpy:
        return ufunc(divide, numpy, a, b)
    if is_scalar(b):
        return DivScalar(b)(check_tensor("divide", a))
    if is_scalar(a):
        return ScalarDiv(a)(check_tensor("divide", b))
    return EWiseDiv()(*pair("divide", a, b))


class EWisePow(Elementwise):
    """y = a^b,  dy/da = b a^(b-1)  (0 where b = 0),  dy/db = y ln a  (0 where a = 0 <= b)"""

    kernel = "power"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        a, b = node.inputs
        by_a = by_b = None
        # Where a rule has 0 · ∞ or 0 · NaN, the base 1 makes it 0, also for second derivatives.
        if a.requires_grad:
            flat = logical_and(equal(b, 0), logical_not(isfinite(1 / a)))
            base = where(flat, 1, a)
            by_a = out_grad * b * base ** (b - 1)
        if b.requires_grad:
            flat = logical_and(equal(a, 0), greater_equal(b, 0))
            by_b = out_grad * node * where(flat, 1, a).log()
        return by_a, by_b


# Powers that take one or two operations, where others take fifty: as NumPy's ** has them.
SHORT_POWERS: dict[Scalar, Callable[[NDArray], NDArray]] = {
    2: lambda x: F.unary("square", x),
    3: lambda x: F.binary("multiply", F.unary("square", x), x),
    -1: lambda x: F.binary("divide", 1, x),
    0.5: lambda x: F.unary("sqrt", x),
}


class PowerScalar(WithScalar):
    """y = x^s,  dy/dx = s x^(s-1)"""

    kernel = "power"

    def compute(self, a: NDArray) -> NDArray:
        is_wide = dtype_of(a.dtype) in (float32, float64)  # halves would be rounded twice
        short = SHORT_POWERS.get(self.scalar) if is_wide else None
        return super().compute(a) if short is None else short(a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        (x,) = node.inputs
        if self.scalar == 0:
            return zeros_like(x)
        if self.scalar == 0.5:  # as of `sqrt`
            return out_grad * 0.5 / node
        rest = x if self.scalar == 2 else x ** (self.scalar - 1)
        return out_grad * self.scalar * rest


class ScalarPower(WithScalar):
    """y = s^x,  dy/dx = y ln s  (0 where s = 0 <= x)"""

    kernel = "power"

    def compute(self, a: NDArray) -> NDArray:
        return F.binary(self.kernel, self.scalar, a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        (x,) = node.inputs
        if self.scalar == 0:
            return where(greater_equal(x, 0), 0, out_grad * node * -math.inf)
        return out_grad * node * (math.log(self.scalar) if self.scalar > 0 else math.nan)


def power_scalar(a: Tensor, scalar: Scalar) -> Tensor:
    """a ** scalar, a number (the course's name; `a**2` is the same)."""
    return PowerScalar(as_scalar(scalar, "power_scalar"))(a)


def power(a: TensorLike, b: TensorLike, **numpy: Unpack[Ufunc]) -> Tensor:
    """a ** b; either may be a number."""
    if numpy:
        return ufunc(power, numpy, a, b)
    if is_scalar(b):
        return PowerScalar(b)(check_tensor("power", a))
    if is_scalar(a):
        return ScalarPower(a)(check_tensor("power", b))
    return EWisePow()(*pair("power", a, b))


class Atan2(Elementwise):
    """z = the angle of the point (x, y),  dz/dy = x / (x² + y²),  dz/dx = -y / (x² + y²)

    At the origin both are 0."""

    kernel = "atan2"

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, ...]:
        y, x = node.inputs
        wide = (astype(v, node.dtype) for v in (y, x))
        return Atan2Gradient()(out_grad, *wide).tuple()


@program
def atan2_gradient(g: Symbol, y: Symbol, x: Symbol) -> tuple[Symbol, ...]:
    # Divided by the larger coordinate, a square neither overflows nor vanishes (Smith, 1962).
    is_x = tp.abs(x) >= tp.abs(y)
    small, large = tp.where(is_x, y, x), tp.where(is_x, x, y)
    large = tp.where(tp.equal(large, 0.0), math.inf, large)  # at the origin
    ratio = small / large
    scale = large + small * ratio  # (x² + y²) / large
    by_large, by_small = g / scale, g * ratio / scale
    return tp.where(is_x, by_large, by_small), tp.where(is_x, -by_small, -by_large)


class Atan2Gradient(FusedTupleOp):
    """(dy, dx) of `Atan2`: g x / (x² + y²) and -g y / (x² + y²)"""

    def compute(self, g: NDArray, y: NDArray, x: NDArray) -> tuple[NDArray, ...]:
        return F.run_all(atan2_gradient, g, y, x)

    def definition(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return run_composites(atan2_gradient, *inputs)


def atan2(y: TensorLike, x: TensorLike, **numpy: Unpack[Ufunc]) -> Tensor:
    """The angle in [-π, π] between the x axis and the direction to the point (x, y)."""
    if numpy:
        return ufunc(atan2, numpy, y, x)
    return Atan2()(*pair("atan2", y, x))


class Remainder(Elementwise):
    """y = a - b floor(a/b), with the sign of b;  dy/da = 1,  dy/db = -floor(a/b)"""

    kernel = "remainder"

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        a, b = node.inputs
        return out_grad, -out_grad * floor_divide(a, b)


remainder = of_two(
    Remainder, "The remainder of floor division; it has the sign of b, as in Python."
)


class FloorDivide(Elementwise, FlatOp):
    """y = floor(a / b)"""

    kernel = "floor_divide"


floor_divide = of_two(FloorDivide, "The largest whole number not above a / b.")
