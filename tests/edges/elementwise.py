"""What elementwise functions and their slopes are at special values, in NumPy.

A formula is computed with the digits and the range of `np.longdouble`, so that it neither overflows
nor loses digits where a float does, and rounded once. `own` formulas are computed in the dtype
itself: there the operator is documented to overflow as its formula does (docs/numerics.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import needle as ndl
from needle.nn import functional as F

from .values import UNITS, Array, Function

PI = np.longdouble("3.14159265358979323846264338327950288")


@dataclass(frozen=True)
class Edge:
    """A function of tensors, its value and its slopes by each operand."""

    name: str
    function: Function
    value: Callable[..., Array]  # of the operands
    slopes: tuple[Callable[..., Array], ...]  # of the operands, and the value behind them
    units: float = UNITS  # of rounding that a result may be off
    own: bool = False  # computed in the dtype itself, not in more digits
    absolute: float = 0.0  # error of slopes in which digits cancel, in units of rounding
    value_absolute: float = 0.0  # and of values
    tiny: bool = False  # results below the smallest normal number may be 0

    def expected(self, arrays: list[Array]) -> list[Array]:
        """The value and the slopes, each rounded to the dtype of the operands."""
        dtype = arrays[0].dtype
        inputs = arrays if self.own else [a.astype(np.longdouble) for a in arrays]
        with np.errstate(all="ignore"):
            y = np.asarray(self.value(*inputs))
            slopes = [
                np.broadcast_to(s(*inputs, y), x.shape)
                for s, x in zip(self.slopes, inputs, strict=True)
            ]
            return [np.asarray(v).astype(dtype) for v in (y, *slopes)]

    def error(self, what: int, dtype: Any) -> float:
        """The absolute error that the value (0) or the slopes (1, 2, ...) may have."""
        info = np.finfo(dtype)
        units = self.absolute if what else self.value_absolute
        return max(units * float(info.eps), float(info.tiny) if self.tiny else 0.0)

    def __str__(self) -> str:
        return self.name


def zero(*_: Array) -> Array:
    return np.asarray(0.0)


def one(*_: Array) -> Array:
    return np.asarray(1.0)


def sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def normal_below(x: Array) -> Array:
    """Φ(x), in double precision."""
    return np.vectorize(math.erfc, otypes=[np.float64])(x * -math.sqrt(0.5)) / 2


def normal_density(x: Array) -> Array:
    return np.exp(-x * x / 2) / np.sqrt(2 * PI)


def tanh_of_gelu(x: Array) -> Array:
    return np.tanh(np.sqrt(2 / PI) * (x + 0.044715 * x**3))


def mish_slope(x: Array, y: Array) -> Array:
    t = np.tanh(softplus(x))
    return t + x * sigmoid(x) * (1 - t * t)


def gelu_tanh_slope(x: Array, y: Array) -> Array:
    t = tanh_of_gelu(x)
    return (1 + t + x * (1 - t * t) * np.sqrt(2 / PI) * (1 + 3 * (0.044715 * (x * x)))) / 2


def silu_slope(x: Array, y: Array) -> Array:
    s = sigmoid(x)
    return s * (1 + x * (1 - s))


def softsign_slope(x: Array, y: Array) -> Array:
    return 1 / (1 + np.abs(x)) - y / (1 + np.abs(x)) * np.sign(x)


def hardswish(x: Array) -> Array:
    return np.where(x <= -3, 0, np.where(x >= 3, x, x * (x + 3) / 6))


def hardswish_slope(x: Array, y: Array) -> Array:
    return np.where(x <= -3, 0, np.where(x < 3, x / 3 + 0.5, 1))


def outside(x: Array, low: float, high: float) -> Array:
    return (x <= low) | (x >= high)


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848, 1.0507009873554804934


def elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x <= 0, alpha * np.expm1(x), x)


def elu_slope(x: Array, y: Array, alpha: float = 1.0) -> Array:
    return np.where(x <= 0, alpha * np.exp(x), 1)


def unary(name: str, value: Any, slope: Any, function: Any = None, **facts: Any) -> Edge:
    return Edge(name, function or getattr(ndl, name), value, (slope,), **facts)


# NaN is on the side of a bend on which the gradient passes, as in PyTorch.
FUNCTIONS = (
    unary("abs", np.abs, lambda x, y: np.sign(x)),
    unary("sign", np.sign, zero),
    unary("negate", np.negative, lambda x, y: -1),
    unary("square", np.square, lambda x, y: 2 * x),
    unary("reciprocal", lambda x: 1 / x, lambda x, y: -1 / (x * x)),
    unary("relu", lambda x: np.maximum(x, 0), lambda x, y: np.where(x <= 0, 0, 1)),
    unary("exp", np.exp, lambda x, y: y),
    unary("expm1", np.expm1, lambda x, y: np.exp(x), absolute=1),
    unary("log", np.log, lambda x, y: 1 / x),
    unary("log1p", np.log1p, lambda x, y: 1 / (1 + x)),
    unary("log2", np.log2, lambda x, y: 1 / (x * np.log(np.longdouble(2)))),
    unary("log10", np.log10, lambda x, y: 1 / (x * np.log(np.longdouble(10)))),
    unary("sqrt", np.sqrt, lambda x, y: 0.5 / y),
    unary("rsqrt", lambda x: 1 / np.sqrt(x), lambda x, y: -0.5 * y * y * y),
    unary("sin", np.sin, lambda x, y: np.cos(x)),
    unary("cos", np.cos, lambda x, y: -np.sin(x)),
    unary("tan", np.tan, lambda x, y: 1 + y * y),
    unary("asin", np.arcsin, lambda x, y: 1 / np.sqrt(1 - x * x)),
    unary("acos", np.arccos, lambda x, y: -1 / np.sqrt(1 - x * x)),
    unary("atan", np.arctan, lambda x, y: 1 / (1 + x * x), tiny=True),
    unary("tanh", np.tanh, lambda x, y: 1 - y * y, absolute=2),
    unary("sinh", np.sinh, lambda x, y: np.cosh(x)),
    unary("cosh", np.cosh, lambda x, y: np.sinh(x)),
    unary("sigmoid", sigmoid, lambda x, y: y * (1 - y), absolute=1),
    unary("erf", erf, lambda x, y: 2 / np.sqrt(PI) * np.exp(-x * x), units=2000),
    unary("floor", np.floor, zero),
    unary("ceil", np.ceil, zero),
    unary("round", np.rint, zero),
)  # fmt: skip

ACTIVATIONS = (
    unary("relu6", lambda x: np.clip(x, 0, 6), lambda x, y: np.where(outside(x, 0, 6), 0, 1),
          F.relu6),
    unary("hardtanh", lambda x: np.clip(x, -1, 1), lambda x, y: np.where(outside(x, -1, 1), 0, 1),
          F.hardtanh),
    unary("hardsigmoid", lambda x: np.clip(x, -3, 3) / 6 + 0.5,
          lambda x, y: np.where((x > -3) & (x < 3), 1 / np.longdouble(6), 0), F.hardsigmoid,
          value_absolute=1),
    unary("hardswish", hardswish, hardswish_slope, F.hardswish, absolute=1),
    unary("elu", elu, elu_slope, F.elu),
    unary("selu", lambda x: SELU_SCALE * elu(x, SELU_ALPHA),
          lambda x, y: SELU_SCALE * elu_slope(x, y, SELU_ALPHA), F.selu),
    unary("leaky_relu", lambda x: np.where(x > 0, x, 0.01 * x),
          lambda x, y: np.where(x > 0, 1, 0.01), F.leaky_relu),
    unary("silu", lambda x: x * sigmoid(x), silu_slope, F.silu, absolute=1, tiny=True),
    unary("mish", lambda x: x * np.tanh(softplus(x)), mish_slope, F.mish, absolute=4,
          tiny=True),
    unary("gelu", lambda x: x * normal_below(x),
          lambda x, y: normal_below(x) + x * normal_density(x), F.gelu, absolute=1),
    unary("gelu of tanh", lambda x: x * (1 + tanh_of_gelu(x)) / 2, gelu_tanh_slope,
          lambda x: F.gelu(x, "tanh"), own=True, absolute=8, value_absolute=4),
    unary("logsigmoid", lambda x: -softplus(-x), lambda x, y: sigmoid(-x), F.logsigmoid),
    unary("softsign", lambda x: x / (1 + np.abs(x)), softsign_slope, F.softsign, own=True,
          absolute=1),
    unary("softplus", lambda x: np.where(x > 20, x, softplus(x)),
          lambda x, y: np.where(x > 20, 1, sigmoid(x)), F.softplus),
    unary("softplus of 2 x", lambda x: np.where(2 * x > 5, x, softplus(2 * x) / 2),
          lambda x, y: np.where(2 * x > 5, 1, sigmoid(2 * x)), lambda x: F.softplus(x, 2.0, 5.0)),
)  # fmt: skip


def clip(low: float | None, high: float | None) -> Edge:
    def inside(x: Array, y: Array) -> Array:
        above = x >= (-np.inf if low is None else low)
        return np.where(above & (x <= (np.inf if high is None else high)), 1, 0)

    return unary(
        f"clip to {low}, {high}", lambda x: np.clip(x, low, high), inside,
        lambda x: ndl.clip(x, low, high),
    )  # fmt: skip


BOUNDS = ((-1, 1), (None, 1), (0, None), (1, -1), (-0.5, 0.5), (0.0, math.inf))
CLIPS = tuple(clip(low, high) for low, high in BOUNDS)


def power_of(s: float) -> Edge:
    """x ** s, as C's pow has it; x ** 0.5 is the square root."""
    if s == 0.5:
        return unary("x ** 0.5", np.sqrt, lambda x, y: 0.5 / y, lambda x: x**0.5)

    def slope(x: Array, y: Array) -> Array:
        return s * np.power(x, s - 1) if s else np.zeros_like(x)

    # x^(s-1) may overflow where |s| times it would not.
    return unary(f"x ** {s}", lambda x: np.power(x, s), slope, lambda x: x**s, own=abs(s) < 1)


def of_power(s: float) -> Edge:
    def slope(x: Array, y: Array) -> Array:
        if s == 0:  # 0 ** x is flat from 0 on, and infinite below
            return np.where(x >= 0, 0, y * -np.inf)
        return y * (np.log(s) if s > 0 else np.nan)

    return unary(f"{s} ** x", lambda x: np.power(np.longdouble(s), x), slope, lambda x: s**x)


def with_number(s: float) -> tuple[Edge, ...]:
    """Arithmetic with a number, one that float32 holds exactly."""
    n = np.longdouble(s)

    def edge(name: str, value: Any, slope: Any, function: Any) -> Edge:
        return unary(name.format(s), value, slope, function)

    return (
        of_power(s),
        edge("x + {}", lambda x: x + n, one, lambda x: x + s),
        edge("{} - x", lambda x: n - x, lambda x, y: -1, lambda x: s - x),
        edge("{} * x", lambda x: n * x, lambda x, y: n, lambda x: s * x),
        edge("x / {}", lambda x: x / n, lambda x, y: 1 / n, lambda x: x / s),
        edge("{} / x", lambda x: n / x, lambda x, y: -(y / x), lambda x: s / x),
        edge("x % {}", lambda x: np.remainder(x, n), one, lambda x: x % s),
        edge("x // {}", lambda x: np.floor_divide(x, n), zero, lambda x: x // s),
    )


NUMBERS = (0, 1, -1, 2, 0.5, -2, 2.0**40, math.inf)
EXPONENTS = (0, 1, 2, 3, -1, 0.5, -0.5, -2, 1.7, -3, 4, math.inf, -math.inf, math.nan)
UNARY = (
    *FUNCTIONS, *ACTIVATIONS, *CLIPS, *(power_of(s) for s in EXPONENTS),
    *(edge for s in NUMBERS for edge in with_number(s)),
)  # fmt: skip
