"""Functions of one tensor, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd import Tensor as EngineTensor
from ...dtype import bool_, int64
from ...ndarray import functions as F
from ...ops import arithmetic as A, compare as C, unary as U
from ...ops.common import FlatOp, named, zeros_like as engine_zeros
from ...ops.elementwise import Elementwise
from ..core.dtypes import dtype_in_engine as kind, in_engine, result_in_engine
from ..core.tensor import Tensor
from .common import as_floating, cast, check, fail, is_floating, operand, plain, takes_out

One = Callable[..., Any]


def _floating(name: str, op: type[Any], doc: str) -> One:
    """A function whose result is floating: integers come in the default dtype."""

    def function(input: Any) -> Any:
        return op()(as_floating(check(name, input)))

    return _with_out(named(function, name, doc))


def _with_out(function: One) -> One:
    name = function.__name__

    def call(input: Any, *, out: Any = None) -> Any:
        if out is None:
            return function(input)
        from .common import give

        return give(name, out, function(input))

    return named(call, name, function.__doc__ or "")


exp = _floating("exp", U.Exp, "e^input")
expm1 = _floating("expm1", U.Expm1, "e^input - 1")
log = _floating("log", U.Log, "The natural logarithm.")
log1p = _floating("log1p", U.Log1p, "ln(1 + input)")
log2 = _floating("log2", U.Log2, "The logarithm to base 2.")
log10 = _floating("log10", U.Log10, "The logarithm to base 10.")
sqrt = _floating("sqrt", U.Sqrt, "The square root.")
rsqrt = _floating("rsqrt", U.Rsqrt, "1 / √input")
sin = _floating("sin", U.Sin, "The sine.")
cos = _floating("cos", U.Cos, "The cosine.")
tan = _floating("tan", U.Tan, "The tangent.")
asin = arcsin = _floating("asin", U.Asin, "The inverse of the sine.")
acos = arccos = _floating("acos", U.Acos, "The inverse of the cosine.")
atan = arctan = _floating("atan", U.Atan, "The inverse of the tangent.")
sinh = _floating("sinh", U.Sinh, "The hyperbolic sine.")
cosh = _floating("cosh", U.Cosh, "The hyperbolic cosine.")
tanh = _floating("tanh", U.Tanh, "The hyperbolic tangent.")
sigmoid = _floating("sigmoid", U.Sigmoid, "1 / (1 + e^-input)")
erf = _floating("erf", U.Erf, "The error function.")


def _composed(function: One) -> One:
    """The same of a function that is written of others."""
    name = function.__name__

    def call(input: Any) -> Any:
        return function(as_floating(check(name, input)))

    return _with_out(named(call, name, function.__doc__ or ""))


@_composed
def exp2(x: Any) -> Any:
    """2^input"""
    return A.ScalarPower(2.0)(x)


@_composed
def erfc(x: Any) -> Any:
    """1 - erf(input)"""
    return _special("erfc", x, lambda g, x, y: g * (-2 / math.sqrt(math.pi)) * (-x * x).exp())


@_composed
def erfinv(x: Any) -> Any:
    """The inverse of the error function."""
    return _special("erfinv", x, lambda g, x, y: g * (math.sqrt(math.pi) / 2) * (y * y).exp())


@_composed
def lgamma(x: Any) -> Any:
    """The logarithm of the gamma function's absolute value."""
    return _special("lgamma", x, lambda g, x, y: g * digamma(x))


@_composed
def digamma(x: Any) -> Any:
    """The derivative of lgamma."""
    return _special("digamma", x, lambda g, x, y: g * polygamma(1, x))


@_composed
def asinh(x: Any) -> Any:
    """The inverse of the hyperbolic sine."""
    return _special("arcsinh", x, lambda g, x, y: g / (x * x + 1).sqrt())


@_composed
def acosh(x: Any) -> Any:
    """The inverse of the hyperbolic cosine."""
    return _special("arccosh", x, lambda g, x, y: g / ((x - 1).sqrt() * (x + 1).sqrt()))


@_composed
def atanh(x: Any) -> Any:
    """The inverse of the hyperbolic tangent."""
    return _special("arctanh", x, lambda g, x, y: g / (1 - x * x))


@_composed
def sinc(x: Any) -> Any:
    """sin(π input) / (π input), 1 at 0"""
    angle = C.where(C.equal(x, 0), 1.0, x) * math.pi
    return C.where(C.equal(x, 0), 1.0 + engine_zeros(x), angle.sin() / angle)


@_composed
def i0(x: Any) -> Any:
    """The modified Bessel function of order 0."""
    from ..special.functions import i1

    return _special("i0", x, lambda g, x, y: g * i1(x))


arcsinh, arccosh, arctanh = asinh, acosh, atanh


class Special(Elementwise):
    """y = f(x) for a function that NumPy or special/values.py has"""

    def __init__(self, name: str, derivative: Callable[[Any, Any, Any], Any], *first: Any):
        self.name, self.derivative, self.first = name, derivative, first

    def compute(self, a: Any, *b: Any) -> Any:
        from ...ndarray.array import from_numpy
        from ..special import values

        dtype = a.dtype
        wide = a.numpy() if dtype != "bfloat16" else F.cast(a, "float32").numpy()
        function = getattr(values, self.name, None) or getattr(np, self.name)
        with np.errstate(all="ignore"):
            found = function(*self.first, wide.astype(np.float64))
        return from_numpy(np.asarray(found, wide.dtype), dtype, a.device)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return self.derivative(out_grad, node.inputs[0], node)


def _special(name: str, x: Any, derivative: Callable[[Any, Any, Any], Any], *first: Any) -> Any:
    return Special(name, derivative, *first)(x)


def polygamma(n: int, input: Any, *, out: Any = None) -> Any:
    """The n-th derivative of digamma."""
    x = as_floating(check("polygamma", input))
    if n < 0:
        raise fail("polygamma", "polygamma(n, x) does not support negative n.")
    if n == 0:
        return _given("polygamma", out, digamma(x))
    order = int(n)
    result = _special("polygamma", x, lambda g, x, y: g * polygamma(order + 1, x), order)
    return _given("polygamma", out, result)


# Signs and rounding -------------------------------------------------------------------------------


def _kept(name: str, op: type[Any], doc: str, whole: str = "itself") -> One:
    """A function whose result has the input's dtype."""

    def function(input: Any) -> Any:
        x = check(name, input)
        if whole == "itself" and kind(x).kind != "f":
            return x.clone()
        return op()(x)

    return _with_out(named(function, name, doc))


floor = _kept("floor", U.Floor, "The largest whole number not above.")
ceil = _kept("ceil", U.Ceil, "The smallest whole number not below.")


class Trunc(Elementwise, FlatOp):
    """y = x without what is behind the point"""

    def compute(self, a: Any, *b: Any) -> Any:
        return F.where(F.binary("less", a, 0), F.unary("ceil", a), F.unary("floor", a))


trunc = fix = _kept("trunc", Trunc, "The whole number towards zero.")


def round(input: Any, *, decimals: int = 0, out: Any = None) -> Any:
    """The nearest whole number, of two the even one; or so many decimals."""
    x = check("round", input)
    if not is_floating(x):
        result = x.clone()
    elif decimals == 0:
        result = U.Round()(x)
    elif decimals > 0:
        result = U.Round()(x * 10.0**decimals) / 10.0**decimals
    else:
        result = U.Round()(x / 10.0**-decimals) * 10.0**-decimals
    return _given("round", out, result)


def _given(name: str, out: Any, result: Any) -> Any:
    from .common import give

    return result if out is None else give(name, out, result)


@takes_out
def frac(input: Any) -> Any:
    """What is behind the point."""
    return check("frac", input) - trunc(input)


def abs(input: Any, *, out: Any = None) -> Any:
    """The absolute value."""
    x = check("abs", input)
    return _given("abs", out, x.clone() if kind(x) is bool_ else U.Abs()(x))


absolute = abs


def neg(input: Any, *, out: Any = None) -> Any:
    """-input"""
    if kind(check("neg", input)) is bool_:
        raise fail(
            "neg",
            "Negation, the `-` operator, on a bool tensor is not supported. If you are "
            "trying to invert a mask, use the `~` or `logical_not()` operator instead.",
        )
    return _given("neg", out, A.Negate()(input))


negative = neg


def positive(input: Any) -> Any:
    """input itself"""
    if kind(input) is bool_:
        raise fail("positive", "The `+` operator, on a bool tensor is not supported.")
    return input


def sign(input: Any, *, out: Any = None) -> Any:
    """-1, 0 or 1"""
    x = check("sign", input)
    if kind(x) is bool_:
        return _given("sign", out, x.clone())
    result = U.Sign()(x)
    return _given("sign", out, C.where(C.isnan(x), 0.0, result) if is_floating(x) else result)


sgn = sign


def signbit(input: Any, *, out: Any = None) -> Any:
    """Has it a minus sign, as -0.0?"""
    x = check("signbit", input)
    if not is_floating(x):
        return C.less(x, 0)
    return _given("signbit", out, C.less(C.where(C.equal(x, 0), 1 / x, x), 0))


def square(input: Any, *, out: Any = None) -> Any:
    """input²"""
    x = check("square", input)
    if kind(x) is bool_:
        x = cast(x, int64)
    return _given("square", out, U.Square()(x) if is_floating(x) else A.EWiseMul()(x, x))


@takes_out
def reciprocal(input: Any) -> Any:
    """1 / input"""
    return A.ScalarDiv(1)(as_floating(check("reciprocal", input)))


@takes_out
def logit(input: Any, eps: float | None = None) -> Any:
    """ln(input / (1 - input))"""
    x = as_floating(check("logit", input))
    x = x if eps is None else clamp(x, eps, 1 - eps)
    return (x / (1 - x)).log()


def deg2rad(input: Any) -> Any:
    """Degrees as radians."""
    return as_floating(input) * (math.pi / 180)


def rad2deg(input: Any) -> Any:
    """Radians as degrees."""
    return as_floating(input) * (180 / math.pi)


def _test(name: str, kernel: str, doc: str, otherwise: bool = False) -> One:
    def function(input: Any) -> Any:
        x = check(name, input)
        if is_floating(x):
            return C.Predicate(kernel)(x)
        from .creation import full_like

        return full_like(x, otherwise, dtype=in_engine(bool_))  # type: ignore[arg-type]

    return named(function, name, doc)


isnan = _test("isnan", "isnan", "Is it NaN?")
isinf = _test("isinf", "isinf", "Is it infinite?")
isfinite = _test("isfinite", "isfinite", "Is it neither NaN nor infinite?", True)


def isposinf(input: Any) -> Any:
    """Is it ∞?"""
    return C.equal(as_floating(input), math.inf)


def isneginf(input: Any) -> Any:
    """Is it -∞?"""
    return C.equal(as_floating(input), -math.inf)


def isreal(input: Any) -> Any:
    """Is it a real number? All are."""
    return C.logical_or(C.equal(input, input), C.not_equal(input, input))


# Limits -------------------------------------------------------------------------------------------


@takes_out
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """input limited to [min, max]; None leaves a side open."""
    if min is None and max is None:
        raise fail("clamp", "At least one of 'min' or 'max' must not be None")
    bounds = [b for b in (min, max) if b is not None]
    dtype = result_in_engine(check("clamp", input), *bounds)
    x = cast(input, dtype)
    if any(isinstance(b, EngineTensor) for b in bounds):
        given = [operand(b, dtype) for b in bounds]
        return C.ClipBetween(min is not None, max is not None)(x, *given)
    return _clamped(x, dtype, min, max)


def _clamped(x: Any, dtype: Any, min: Any, max: Any) -> Any:
    low, high = (None if b is None else plain(b) for b in (min, max))
    if dtype.is_floating:
        low, high = (None if b is None else float(b) for b in (low, high))
    if (low is not None and low != low) or (high is not None and high != high):
        return x * math.nan
    return C.Clip(low, high)(x)


clip = clamp


def clamp_min(input: Any, min: Any) -> Any:
    """The larger of input and min."""
    return clamp(input, min=min)


def clamp_max(input: Any, max: Any) -> Any:
    """The smaller of input and max."""
    return clamp(input, max=max)


@takes_out
def nan_to_num(
    input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """NaN as 0, infinities as the largest numbers, unless other numbers are given."""
    x = check("nan_to_num", input)
    if not is_floating(x):
        return x.clone()
    from ...dtype import finfo

    ends = finfo(kind(x))
    x = C.where(C.isnan(x), 0.0 if nan is None else float(nan), x)
    x = C.where(C.equal(x, math.inf), ends.max if posinf is None else float(posinf), x)
    return C.where(C.equal(x, -math.inf), ends.min if neginf is None else float(neginf), x)


def relu(input: Any) -> Any:
    """The larger of input and 0."""
    x = check("relu", input)
    return U.ReLU()(x) if is_floating(x) else clamp(x, 0)


def threshold(input: Any, threshold: float, value: float) -> Any:
    """input where it is above the threshold, else value"""
    return C.where(C.greater(input, threshold), input, value)


def prelu(input: Any, weight: Any) -> Any:
    """input where it is positive, else weight (one, or one for each channel) times it"""
    w = weight
    if w.cached_data.size != 1 and input.ndim > 1:
        w = w.reshape(1, -1, *[1] * (input.ndim - 2))
    return C.where(C.greater(input, 0), input, input * w)


def frexp(input: Any) -> Any:
    """input = mantissa 2^exponent"""
    from .creation import from_numpy
    from .named import frexp as both

    mantissa, exponent = np.frexp(check("frexp", input).realize_cached_data().numpy())
    return both(from_numpy(np.asarray(mantissa)), from_numpy(np.asarray(exponent, np.int32)))


def conj(input: Any) -> Any:
    """input: there are only real numbers"""
    return input


real = resolve_conj = resolve_neg = conj_physical = conj


def imag(input: Any) -> Tensor:
    """An error, as PyTorch's for real numbers."""
    raise fail("imag", "imag is not implemented for tensors with non-complex dtypes.")


def angle(input: Any) -> Any:
    """0 for positive numbers, π for negative ones"""
    x = as_floating(input)
    return C.where(C.isnan(x), x, C.where(C.less(x, 0), math.pi + engine_zeros(x), engine_zeros(x)))
