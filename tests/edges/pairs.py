"""Functions of two and three operands at special values: see elementwise.py."""

from __future__ import annotations

import numpy as np

import needle as ndl
from needle.nn import functional as F

from .elementwise import Edge, one, sigmoid, softplus, zero
from .values import Array


def atan2_slope(over: Array, y: Array, x: Array) -> Array:
    """over / (x² + y²): 0 at the origin and in the direction of an axis at infinity."""
    squares = x * x + y * y
    flat = (squares == 0) | (np.isinf(x) != np.isinf(y)) & ~np.isnan(x + y)
    return np.where(flat, 0, over / squares)


def share(a: Array, b: Array) -> Array:
    """What `a` gets of the gradient of the one that is larger: half where they are equal."""
    return np.where(b > a, 0, np.where(a == b, 0.5, 1))


def lerp(a: Array, b: Array, w: Array) -> Array:
    return np.where(np.abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w))


def huber_slope(x: Array, t: Array) -> Array:
    d = x - t
    return np.sign(d) * np.where(np.isnan(d), d, np.minimum(np.abs(d), 1))


def huber(x: Array, t: Array) -> Array:
    d = np.abs(x - t)
    return np.where(d < 1, d * d / 2, d - 0.5)


def kl(x: Array, t: Array) -> Array:
    return np.where(t == 0, 0, t * (np.log(t) - x))


def loss(name, value, by_input, by_target, **facts):
    def function(x, t):
        return getattr(F, name)(x, t, reduction="none")

    return Edge(name, function, value, (by_input, by_target), **facts)


LOSSES = (
    loss("mse_loss", lambda x, t: (x - t) ** 2, lambda x, t, y: 2 * (x - t),
         lambda x, t, y: -2 * (x - t)),
    loss("l1_loss", lambda x, t: np.abs(x - t), lambda x, t, y: np.sign(x - t),
         lambda x, t, y: -np.sign(x - t)),
    loss("huber_loss", huber, lambda x, t, y: huber_slope(x, t),
         lambda x, t, y: -huber_slope(x, t), own=True),
    loss("smooth_l1_loss", huber, lambda x, t, y: huber_slope(x, t),
         lambda x, t, y: -huber_slope(x, t), own=True),
    loss("binary_cross_entropy_with_logits",
         lambda x, t: (1 - t) * x + softplus(-x),
         lambda x, t, y: (1 - t) * sigmoid(x) - t * sigmoid(-x), lambda x, t, y: -x, own=True,
         absolute=1, value_absolute=1),
    loss("kl_div", kl, lambda x, t, y: np.where(t == 0, 0, -t),
         lambda x, t, y: np.where(t == 0, 0, np.log(t) - x + t / t), own=True),
)  # fmt: skip

PAIRS = (
    Edge("add", ndl.add, np.add, (one, one)),
    Edge("subtract", ndl.subtract, np.subtract, (one, lambda a, b, y: -1)),
    Edge("multiply", ndl.multiply, np.multiply, (lambda a, b, y: b, lambda a, b, y: a)),
    Edge("divide", ndl.divide, np.divide, (lambda a, b, y: 1 / b, lambda a, b, y: -(y / b)),
         tiny=True),
    Edge("power", ndl.power, np.power,
         (lambda a, b, y: np.where(b == 0, 0, b * np.power(a, b - 1)),
          lambda a, b, y: np.where((a == 0) & (b >= 0), 0, y * np.log(a))), own=True),
    Edge("atan2", ndl.atan2, np.arctan2,
         (lambda a, b, y: atan2_slope(b, a, b), lambda a, b, y: atan2_slope(-a, a, b)), tiny=True),
    Edge("remainder", ndl.remainder, np.remainder,
         (one, lambda a, b, y: -np.floor_divide(a, b))),
    Edge("floor_divide", ndl.floor_divide, np.floor_divide, (zero, zero)),
    Edge("maximum", ndl.maximum, np.maximum,
         (lambda a, b, y: share(a, b), lambda a, b, y: share(b, a))),
    Edge("minimum", ndl.minimum, np.minimum,
         (lambda a, b, y: share(-a, -b), lambda a, b, y: share(-b, -a))),
    Edge("where", lambda a, b: ndl.where(a > b, a, b), lambda a, b: np.where(a > b, a, b),
         (lambda a, b, y: np.where(a > b, 1, 0), lambda a, b, y: np.where(a > b, 0, 1))),
    Edge("clip from below", ndl.clip, np.maximum,
         (lambda a, b, y: np.where(a >= b, 1, 0), lambda a, b, y: np.where(a < b, 1, 0))),
    Edge("clip from above", lambda a, b: ndl.clip(a, max=b), np.minimum,
         (lambda a, b, y: np.where(a <= b, 1, 0), lambda a, b, y: np.where(a > b, 1, 0))),
    Edge("prelu", lambda a, b: _prelu(a, b), lambda a, b: np.where(a > 0, a, b * a),
         (lambda a, b, y: np.where(a > 0, 1, b), lambda a, b, y: np.where(a > 0, 0, a))),
    *LOSSES,
)  # fmt: skip


def _prelu(x, weight):
    """A weight for each element: the elements as channels."""
    return F.prelu(x.reshape(1, -1), weight).reshape(-1)


def by_low(x: Array, low: Array, high: Array, y: Array) -> Array:
    return np.where((x < low) & (low < high), 1, 0)


TRIPLES = (
    Edge("clip between", ndl.clip, lambda x, low, high: np.minimum(np.maximum(x, low), high),
         (lambda x, low, high, y: np.where((x >= low) & (x <= high), 1, 0), by_low,
          lambda x, low, high, y: np.where((x > high) | (high < low), 1, 0))),
    Edge("lerp", ndl.lerp, lerp,
         (lambda a, b, w, y: 1 - w, lambda a, b, w, y: w, lambda a, b, w, y: b - a), own=True),
    Edge("addcmul", ndl.addcmul, lambda x, a, b: x + a * b,
         (one, lambda x, a, b, y: b, lambda x, a, b, y: a), own=True),
    Edge("addcdiv", ndl.addcdiv, lambda x, a, b: x + a / b,
         (one, lambda x, a, b, y: 1 / b, lambda x, a, b, y: -(a / b / b)), own=True),
)  # fmt: skip
