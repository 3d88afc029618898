"""Arithmetic of two operands, comparisons, logic and bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...autograd import Tensor as EngineTensor
from ...dtype import bool_
from ...ops import arithmetic as A, compare as C
from ...ops.common import named, zeros_like as engine_zeros
from ...ops.elementwise import Elementwise
from ..core.dtypes import default_in_engine, dtype_in_engine, result_in_engine
from ..core.tensor import Tensor
from .common import (
    NUMBERS,
    as_floating,
    cast,
    check,
    fail,
    in_result_type,
    is_floating,
    number,
    operand,
    plain,
    takes_out,
)

Binary = Callable[..., Any]
kind = dtype_in_engine


def _two(name: str, op: type[Any], with_number: type[Any]) -> Callable[[Any, Any], Any]:
    """op of two tensors, or of a tensor and a number, in PyTorch's dtype."""

    def apply(a: Any, b: Any) -> Any:
        if isinstance(b, EngineTensor):
            if not isinstance(a, EngineTensor):
                a = number(a, result_in_engine(a, b))
            if kind(a) is kind(b):
                return op()(a, b)
            return op()(*in_result_type(a, b))
        if isinstance(b, NUMBERS) and is_floating(check(name, a)):
            return with_number(plain(b))(a)
        return op()(*in_result_type(a, b))

    return apply


_add = _two("add", A.EWiseAdd, A.AddScalar)
_mul = _two("mul", A.EWiseMul, A.MulScalar)


class Subtract(A.EWiseSub):
    """y = a - b"""


def _sub(a: Any, b: Any) -> Any:
    if isinstance(b, NUMBERS) and not isinstance(b, bool) and is_floating(check("sub", a)):
        return A.AddScalar(-plain(b))(a)
    a, b = in_result_type(a, b)
    if kind(a) is bool_:
        raise fail(
            "sub",
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use "
            "the `^` or `logical_xor()` operator instead.",
        )
    return Subtract()(a, b)


def _scaled(name: str, b: Any, alpha: Any) -> Any:
    if alpha == 1 and not isinstance(alpha, bool):
        return b
    if isinstance(alpha, float) and isinstance(b, EngineTensor) and not is_floating(b):
        raise fail(
            name, "For integral input tensors, argument alpha must not be a floating point number."
        )
    return _mul(b, alpha) if isinstance(b, EngineTensor) else b * plain(alpha)


def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input + alpha other"""
    if type(alpha) is not int or alpha != 1:
        other = _scaled("add", other, alpha)
    return _add(input, other) if out is None else _into("add", out, _add(input, other))


def sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input - alpha other"""
    result = _sub(input, _scaled("sub", other, alpha))
    return result if out is None else _into("sub", out, result)


def mul(input: Any, other: Any, *, out: Any = None) -> Any:
    """input other, element by element"""
    return _mul(input, other) if out is None else _into("mul", out, _mul(input, other))


def _into(name: str, out: Any, result: Any) -> Any:
    from .common import give

    return give(name, out, result)


subtract, multiply = sub, mul


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha input"""
    return _sub(other, _scaled("rsub", input, alpha))


@takes_out
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """input / other, of integers in floats; rounding_mode: None, "trunc" or "floor"."""
    if rounding_mode is None:
        return true_divide(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode != "trunc":
        raise fail(
            "div",
            "expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'",
        )
    a, b = in_result_type(input, other)
    if is_floating(a):
        from .pointwise import trunc

        return trunc(A.EWiseDiv()(a, b))
    return _truncated(a, b)


def _truncated(a: Any, b: Any) -> Any:
    """Whole numbers divided, rounded towards zero."""
    down = A.FloorDivide()(a, b)
    rest = Subtract()(a, A.EWiseMul()(down, b))
    up = C.logical_and(C.not_equal(rest, 0), C.less(down, 0))
    return A.EWiseAdd()(down, cast(up, kind(down)))


def true_divide(input: Any, other: Any) -> Any:
    """input / other, of integers in floats"""
    if isinstance(input, EngineTensor) and is_floating(input):
        if isinstance(other, EngineTensor):
            if kind(input) is kind(other):
                return A.EWiseDiv()(input, other)
        elif isinstance(other, NUMBERS):
            return A.DivScalar(plain(other))(input)
    dtype = result_in_engine(input, other)
    dtype = dtype if dtype.is_floating else default_in_engine()
    return A.EWiseDiv()(operand(input, dtype), operand(other, dtype))


divide = div


@takes_out
def floor_divide(input: Any, other: Any) -> Any:
    """The largest whole number not above input / other."""
    a, b = in_result_type(input, other)
    if not is_floating(a):
        _no_zero("floor_divide", other, b)
    return A.FloorDivide()(a, b)


def _no_zero(name: str, other: Any, b: Any) -> None:
    is_number = isinstance(other, (int, float))
    if other == 0 if is_number else bool(C.equal(b, 0).realize_cached_data().numpy().any()):
        raise fail(name, "ZeroDivisionError")


@takes_out
def remainder(input: Any, other: Any) -> Any:
    """The remainder of floor division, with the sign of other."""
    a, b = in_result_type(input, other)
    if not is_floating(a):
        _no_zero("remainder", other, b)
    return A.Remainder()(a, b)


class Fmod(Elementwise):
    """y = a - b trunc(a/b), with the sign of a;  dy/da = 1,  dy/db = -trunc(a/b)"""

    def compute(self, a: Any, *others: Any) -> Any:
        from ...ndarray import functions as F

        (b,) = others
        size = F.binary("remainder", F.unary("abs", a), F.unary("abs", b))
        return F.where(F.binary("less", a, 0), F.unary("negative", size), size)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        from .pointwise import trunc

        a, b = node.inputs
        return out_grad, -(out_grad * trunc(a / b))


@takes_out
def fmod(input: Any, other: Any) -> Any:
    """The remainder of division rounded towards zero, with the sign of input."""
    a, b = in_result_type(input, other)
    if not is_floating(a):
        _no_zero("fmod", other, b)
    return Fmod()(a, b)


@takes_out
def pow(input: Any, exponent: Any) -> Any:
    """input to the power of exponent"""
    if isinstance(input, EngineTensor) and isinstance(exponent, NUMBERS):
        if is_floating(input) and not isinstance(exponent, bool):
            return A.PowerScalar(plain(exponent))(input)
        if not isinstance(exponent, float) and int(exponent) < 0:
            raise fail("pow", "Integers to negative integer powers are not allowed.")
    if isinstance(input, NUMBERS) and is_floating(check("pow", exponent)):
        return A.ScalarPower(plain(input))(exponent)
    a, b = in_result_type(input, exponent)
    return A.EWisePow()(a, b)


def float_power(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """input to the power of exponent, in float64"""
    from ...dtype import float64

    result = A.EWisePow()(operand(input, float64), operand(exponent, float64))
    return result if out is None else _into("float_power", out, result)


def _floats(name: str, op: type[Any], doc: str) -> Binary:
    """A function of two tensors that is computed in floats."""

    def function(input: Any, other: Any) -> Any:
        a, b = in_result_type(input, other)
        return op()(as_floating(a), as_floating(b))

    return takes_out(named(function, name, doc))


atan2 = arctan2 = _floats("atan2", A.Atan2, "The angle of the point (other, input).")


# Larger and smaller -------------------------------------------------------------------------------


def _same_type(name: str, op: type[Any], doc: str) -> Binary:
    def function(input: Any, other: Any) -> Any:
        return op()(*in_result_type(input, other))

    return takes_out(named(function, name, doc))


maximum = _same_type("maximum", C.Maximum, "The larger one; NaN if either is.")
minimum = _same_type("minimum", C.Minimum, "The smaller one; NaN if either is.")


@takes_out
def fmax(input: Any, other: Any) -> Any:
    """The larger one; NaN if both are."""
    return _without_nan(maximum, input, other)


@takes_out
def fmin(input: Any, other: Any) -> Any:
    """The smaller one; NaN if both are."""
    return _without_nan(minimum, input, other)


def _without_nan(function: Binary, input: Any, other: Any) -> Any:
    a, b = in_result_type(input, other)
    if not is_floating(a):
        return function(a, b)
    filled = C.where(C.isnan(a), b, a), C.where(C.isnan(b), a, b)
    return C.where(C.logical_and(C.isnan(a), C.isnan(b)), a, function(*filled))


# Comparisons, logic and bits ----------------------------------------------------------------------


def _comparison(name: str, kernel: str, doc: str) -> Binary:
    def function(input: Any, other: Any) -> Any:
        if isinstance(other, EngineTensor) and isinstance(input, EngineTensor):
            if kind(input) is kind(other):
                return C.Predicate(kernel)(input, other)
        elif isinstance(other, float) and is_floating(input):
            return C.PredicateScalar(kernel, other)(input)
        elif isinstance(other, int) and kind(check(name, input)).kind in "iu":
            return C.PredicateScalar(kernel, int(other))(input)
        return C.Predicate(kernel)(*in_result_type(input, other))

    return takes_out(named(function, name, doc))


eq = _comparison("eq", "equal", "input == other, element by element")
ne = not_equal = _comparison("ne", "not_equal", "input != other, element by element")
lt = less = _comparison("lt", "less", "input < other, element by element")
le = less_equal = _comparison("le", "less_equal", "input <= other, element by element")
gt = greater = _comparison("gt", "greater", "input > other, element by element")
ge = greater_equal = _comparison("ge", "greater_equal", "input >= other, element by element")


def _logic(name: str, doc: str) -> Binary:
    def function(input: Any, other: Any) -> Any:
        return C.Predicate(name)(cast(input, bool_), operand(other, bool_))

    return takes_out(named(function, name, doc))


logical_and = _logic("logical_and", "Are both not zero?")
logical_or = _logic("logical_or", "Is one of them not zero?")
logical_xor = _logic("logical_xor", "Is one of them zero and the other not?")


def _bits(name: str, kernel: str, doc: str) -> Binary:
    def function(input: Any, other: Any) -> Any:
        a, b = in_result_type(input, other)
        if is_floating(a):
            raise NotImplementedError(f'"{name}_cpu" not implemented for {kind(a)}')
        return C.Predicate(kernel)(a, b)

    return takes_out(named(function, name, doc))


bitwise_and = _bits("bitwise_and", "bitwise_and", "input & other")
bitwise_or = _bits("bitwise_or", "bitwise_or", "input | other")
bitwise_xor = _bits("bitwise_xor", "bitwise_xor", "input ^ other")
bitwise_left_shift = _bits("bitwise_left_shift", "left_shift", "input << other")
bitwise_right_shift = _bits("bitwise_right_shift", "right_shift", "input >> other")


def logical_not(input: Any, *, out: Any = None) -> Any:
    """Is it zero?"""
    result = C.Predicate("logical_not")(check("logical_not", input))
    return result if out is None else _into("logical_not", out, result)


def bitwise_not(input: Any, *, out: Any = None) -> Any:
    """~input"""
    if is_floating(check("bitwise_not", input)):
        raise NotImplementedError(f'"bitwise_not_cpu" not implemented for {kind(input)}')
    result = C.Predicate("invert")(input)
    return result if out is None else _into("bitwise_not", out, result)


# Composed -----------------------------------------------------------------------------------------


@takes_out
def copysign(input: Any, other: Any) -> Any:
    """The size of input with the sign of other."""
    from .pointwise import abs, signbit

    a, b = in_result_type(input, other)
    a, b = as_floating(a), as_floating(b)
    size = abs(a)
    return C.where(signbit(b), A.Negate()(size), size)


@takes_out
def hypot(input: Any, other: Any) -> Any:
    """The length of (input, other)."""
    a, b = in_result_type(input, other)
    return (a * a + b * b).sqrt()


@takes_out
def logaddexp(input: Any, other: Any) -> Any:
    """ln(e^input + e^other)"""
    a, b = in_result_type(input, other)
    top = C.maximum(a, b)
    equal = C.logical_and(C.equal(a, b), C.isinf(a))
    rest = C.where(equal, 0.0 * engine_zeros(a), a - b)
    return (
        top + (-rest.abs()).exp().log1p()
        if not _any(equal)
        else C.where(equal, a, top + (-rest.abs()).exp().log1p())
    )


def _any(mask: Any) -> bool:
    return bool(mask.realize_cached_data().numpy().any())


@takes_out
def logaddexp2(input: Any, other: Any) -> Any:
    """log2(2^input + 2^other)"""
    factor = math.log(2)
    return logaddexp(input * factor, other * factor) / factor


@takes_out
def xlogy(input: Any, other: Any) -> Any:
    """input ln(other), 0 where input is 0"""
    dtype = result_in_engine(input, other)
    dtype = dtype if dtype.is_floating else default_in_engine()
    a, b = operand(input, dtype), operand(other, dtype)
    flat = C.logical_and(C.equal(a, 0), C.logical_not(C.isnan(b)))
    return C.where(flat, 0.0 * a, a * C.where(flat, 1, b).log())


@takes_out
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """input + weight (end - input)"""
    from ...compat.torch_math import Lerp

    if kind(check("lerp", input)) is not kind(check("lerp", end)):
        raise fail("lerp", f"expected dtype {input.dtype} for `end` but got dtype {end.dtype}")
    return Lerp()(input, end, operand(weight, kind(input)))


@takes_out
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value tensor1 tensor2"""
    product = _mul(tensor1, tensor2)
    return _add(input, product if value == 1 else _mul(product, value))


@takes_out
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value tensor1 / tensor2"""
    if not is_floating(tensor1) and not is_floating(tensor2):
        raise fail("addcdiv", "Integer division with addcdiv is no longer supported")
    quotient = true_divide(tensor1, tensor2)
    return _add(input, quotient if value == 1 else _mul(quotient, value))


def gcd(input: Any, other: Any, *, out: Any = None) -> Any:
    """The greatest common divisor."""
    result = _by_numpy("gcd", input, other)
    return result if out is None else _into("gcd", out, result)


def lcm(input: Any, other: Any, *, out: Any = None) -> Any:
    """The least common multiple."""
    result = _by_numpy("lcm", input, other)
    return result if out is None else _into("lcm", out, result)


@takes_out
def nextafter(input: Any, other: Any) -> Any:
    """The next number after input, towards other."""
    return _by_numpy("nextafter", input, other)


@takes_out
def ldexp(input: Any, other: Any) -> Any:
    """input 2^other"""
    return _mul(input, pow(2.0, as_floating(other)))


@takes_out
def heaviside(input: Any, values: Any) -> Any:
    """0 for negative numbers, 1 for positive ones, values for 0"""
    return _by_numpy("heaviside", input, values)


def _by_numpy(name: str, input: Any, other: Any) -> Tensor:
    """A function of NumPy's, which has no gradient."""
    import numpy as np

    from .creation import from_numpy

    a, b = (x.realize_cached_data().numpy() for x in in_result_type(input, other))
    return from_numpy(np.asarray(getattr(np, name)(a, b), a.dtype, order="C"))
