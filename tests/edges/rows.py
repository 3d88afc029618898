"""What functions of rows (reductions, softmax, running totals, order) give at special values.

The formulas are computed in the dtype itself, as the operators are: squares that are too large are
infinite (docs/numerics.md); products and running totals are kept in double precision. A result with
several elements per row is multiplied with different weights: the sum of a softmax would have no
gradient.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import needle as ndl
from needle.nn import functional as F

from ..ops.records.order import argsort
from .elementwise import Edge
from .values import Array

WEIGHTS = (1.0, 2.0, -0.5)
EPS = 1e-5  # of the layers


def weighted(function: Any) -> Any:
    """Of (N, 3) the weighted elements."""

    def call(x: Any) -> Any:
        y = function(x)
        return y * (ndl.tensor(WEIGHTS, dtype=y.dtype) if isinstance(y, ndl.Tensor) else w(y))

    return call


def w(like: Array) -> Array:
    return np.asarray(WEIGHTS, like.dtype)


def rows(name: str, function: Any, value: Any, gradient: Any, **facts: Any) -> Edge:
    """One result per row."""
    return Edge(name, function, value, (lambda x, y: gradient(x, y),), own=True, **facts)


def elements(name: str, function: Any, value: Any, gradient: Any, **facts: Any) -> Edge:
    """Three results per row; the gradient formula gets them without their weights."""
    return Edge(name, weighted(function), weighted(value),
                (lambda x, y: gradient(x, value(x)),), own=True, **facts)  # fmt: skip


def column(y: Array) -> Array:
    return y[:, None]


def one_hot(index: Array, like: Array) -> Array:
    return (np.arange(3) == column(index)).astype(like.dtype)


def total(x: Array) -> Array:
    """In order: NumPy's own sum of many rows has another."""
    return np.asarray(x[:, 0] + x[:, 1] + x[:, 2])


def mean(x: Array) -> Array:
    return total(x) / x.dtype.type(3)


def others(x: Array, y: Array) -> Array:
    """The product of the other two."""
    return np.stack([x[:, 1] * x[:, 2], x[:, 0] * x[:, 2], x[:, 0] * x[:, 1]], 1)


def var(x: Array, correction: int = 0) -> Array:
    return total((x - column(mean(x))) ** 2) / x.dtype.type(3 - correction)


def var_gradient(x: Array, y: Array) -> Array:
    return 2 * (x - column(mean(x))) / x.dtype.type(3)


def std_gradient(x: Array, y: Array, correction: int) -> Array:
    safe = np.where(y == 0, 1, y)
    return (x - column(mean(x))) / column(safe) / x.dtype.type(3 - correction)


def share(x: Array, y: Array) -> Array:
    chosen = (x == column(y)) | np.isnan(x)
    return chosen / x.dtype.type(1) / column(chosen.sum(1).astype(x.dtype))


# Softmax --------------------------------------------------------------------------------------


def logsumexp(x: Array) -> Array:
    top = x.max(1)
    top = np.where(np.isfinite(top), top, 0).astype(x.dtype)
    return np.log(total(np.exp(x - column(top)))) + top


def logsumexp_gradient(x: Array, y: Array) -> Array:
    """Infinite elements share it; where all are -inf, there is none."""
    level = column(np.where(y == -np.inf, 0, y))
    powers = np.where(x == level, 1, np.exp(x - level)).astype(x.dtype)
    whole = column(total(powers))
    return powers / np.where(whole == 0, 1, whole)


def softmax(x: Array) -> Array:
    powers = np.exp(x - column(x.max(1)))
    return powers / column(total(powers))


def softmax_gradient(x: Array, y: Array) -> Array:
    return y * w(y) - y * column(total(y * w(y)))


def log_softmax(x: Array) -> Array:
    below = x - column(x.max(1))
    return below - column(np.log(total(np.exp(below))))


def log_softmax_gradient(x: Array, y: Array) -> Array:
    return w(y) - np.exp(y) * w(y).sum()


def cross_entropy(x: Array) -> Array:
    """Of class 0."""
    top = x.max(1)
    return (top - x[:, 0]) + np.log(total(np.exp(x - column(top))))


# Running totals, norms, order -----------------------------------------------------------------


def cumsum(x: Array) -> Array:
    return np.cumsum(x, 1, dtype=np.float64).astype(x.dtype)


def cumprod(x: Array) -> Array:
    return np.cumprod(x, 1, dtype=np.float64).astype(x.dtype)


def cumsum_gradient(x: Array, y: Array) -> Array:
    return np.broadcast_to(np.cumsum(w(x)[::-1])[::-1], x.shape)


def cumprod_gradient(x: Array, y: Array) -> Array:
    """y_{i-1} s_i with s_i = w_i + x_{i+1} s_{i+1}"""
    (a, b, c), (x0, x1, x2) = w(x), x.T
    return np.stack([a + x1 * b + x1 * x2 * c, x0 * (b + x2 * c), y[:, 1] * c], 1)


def norm(x: Array, p: float) -> Array:
    size = np.abs(x)
    if p == 0:
        return total((x != 0).astype(x.dtype))
    if math.isinf(p):
        return size.max(1) if p > 0 else size.min(1)
    powers = np.square(x) if p == 2 else np.where(x == 0, 0, np.power(size, x.dtype.type(p)))
    return np.sqrt(total(powers)) if p == 2 else np.power(total(powers), x.dtype.type(1 / p))


def norm_gradient(x: Array, y: Array, p: float) -> Array:
    """0 where the norm is 0"""
    if p == 0:
        return np.zeros_like(x)
    if math.isinf(p):
        return share(np.abs(x), y) * np.sign(x)
    if p == 2:
        return np.where(column(y) == 0, 0, 1 / np.where(column(y) == 0, 1, column(y))) * x
    kind = x.dtype.type
    if p == 1:
        return np.sign(x)
    powers = total(np.where(x == 0, 0, np.power(np.abs(x), kind(p))))
    safe = np.where(powers == 0, 1, powers)
    outer = np.where(powers == 0, 0, np.power(safe, kind(1 / p - 1)) / kind(p))
    inner = np.power(np.where(x == 0, 1, np.abs(x)), kind(p - 1)) * np.sign(x)
    return np.where(x == 0, 0, column(outer) * kind(p) * inner)


def in_order(x: Array, descending: bool = False) -> Array:
    return np.take_along_axis(x, argsort(x, 1, descending), 1)


def order_gradient(x: Array, descending: bool = False) -> Array:
    found = np.empty_like(x)
    order = argsort(x, 1, descending)
    np.put_along_axis(found, order, np.broadcast_to(w(x), x.shape), 1)
    return found


def median(x: Array) -> Array:
    return np.where(np.isnan(x).any(1), np.nan, in_order(x)[:, 1]).astype(x.dtype)


def median_gradient(x: Array, y: Array) -> Array:
    middle = argsort(x, 1)[:, 1]
    return one_hot(np.where(np.isnan(y), np.isnan(x).argmax(1), middle), x)


def layer_norm(x: Array) -> Array:
    deviation = x - column(mean(x))
    return deviation / np.sqrt(column(mean(deviation**2)) + x.dtype.type(EPS))


def rms_norm(x: Array) -> Array:
    return x / np.sqrt(column(mean(x**2)) + x.dtype.type(EPS))


def max_pool(x: Any) -> Any:
    return F.max_pool1d(x.reshape(-1, 1, 3), 2, 1).reshape(-1, 2).sum(1)


def pool_windows(x: Array) -> Array:
    return total(np.concatenate([np.maximum(x[:, :2], x[:, 1:]), np.zeros_like(x[:, :1])], 1))


def pool_gradient(x: Array, y: Array) -> Array:
    """The first of equals gets it, or of NaN."""
    left = np.where(np.isnan(x[:, :1]) | ~(x[:, :1] >= x[:, 1:2]) & ~np.isnan(x[:, 1:2]), 0, 1)
    right = np.where(np.isnan(x[:, 1:2]) | ~(x[:, 1:2] >= x[:, 2:]) & ~np.isnan(x[:, 2:]), 0, 1)
    first = np.where(np.isnan(x[:, :1]), 1, left * ~np.isnan(x[:, 1:2]))
    second = np.where(np.isnan(x[:, 1:2]), 1, right * ~np.isnan(x[:, 2:]))
    return np.concatenate([first, 1 - first + second, 1 - second], 1)


ORDERS = (0, 1, 2, 3, 1.5, 0.5, math.inf, -math.inf)
ROWS = (
    rows("sum", lambda x: x.sum(1), total, lambda x, y: np.ones_like(x)),
    rows("mean", lambda x: x.mean(1), mean, lambda x, y: np.full_like(x, 1) / x.dtype.type(3)),
    rows("prod", lambda x: x.prod(1), lambda x: np.prod(x, 1, dtype=np.float64), others),
    *(rows(f"var of {c}", lambda x, c=c: x.var(1, correction=c), lambda x, c=c: var(x, c),
           lambda x, y, c=c: 2 / x.dtype.type(3 - c) * (x - column(mean(x))), units=10_000)
      for c in (0, 1)),
    *(rows(f"std of {c}", lambda x, c=c: x.std(1, correction=c),
           lambda x, c=c: np.sqrt(var(x, c)),
           lambda x, y, c=c: std_gradient(x, y, c), units=10_000) for c in (0, 1)),
    rows("max", lambda x: x.max(1), lambda x: x.max(1), lambda x, y: one_hot(x.argmax(1), x)),
    rows("min", lambda x: x.min(1), lambda x: x.min(1), lambda x, y: one_hot(x.argmin(1), x)),
    rows("amax", lambda x: x.amax(1), lambda x: x.max(1), share),
    rows("amin", lambda x: x.amin(1), lambda x: x.min(1), share),
    rows("median", lambda x: x.median(1), median, median_gradient),
    rows("logsumexp", lambda x: x.logsumexp(1), logsumexp, logsumexp_gradient, value_absolute=4),
    rows("cross_entropy", lambda x: F.cross_entropy(x, class_0(x), reduction="none"),
         cross_entropy, lambda x, y: softmax(x) - one_hot(np.zeros(len(x)), x), absolute=4,
         value_absolute=4),
    *(rows(f"norm of {p}", lambda x, p=p: x.norm(p, 1), lambda x, p=p: norm(x, p),
           lambda x, y, p=p: norm_gradient(x, y, p), units=1000) for p in ORDERS),
    rows("max_pool", max_pool, pool_windows, pool_gradient),
    elements("softmax", lambda x: x.softmax(1), softmax, softmax_gradient, absolute=4),
    elements("log_softmax", lambda x: x.log_softmax(1), log_softmax, log_softmax_gradient,
             absolute=4, value_absolute=4),
    elements("cumsum", lambda x: x.cumsum(1), cumsum, cumsum_gradient),
    elements("cumprod", lambda x: x.cumprod(1), cumprod, cumprod_gradient),
    elements("sort", lambda x: x.sort(1), in_order, lambda x, y: order_gradient(x)),
    elements("descending sort", lambda x: x.sort(1, True), lambda x: in_order(x, True),
             lambda x, y: order_gradient(x, True)),
    elements("topk", lambda x: x.topk(3, 1)[0], lambda x: in_order(x, True),
             lambda x, y: order_gradient(x, True)),
)  # fmt: skip


def class_0(x: Any) -> Any:
    return ndl.zeros(len(x), dtype="int64")


def triples(values: Array) -> Array:
    """All rows of three values."""
    return np.array(list(itertools.product(values, repeat=3)), values.dtype)


def alike_in_any_order(x: Array) -> Array:
    """Rows whose sum and product do not depend on the order (max + 1 - max is 0 or 1), and whose
    sum and deviations have digits left."""

    def alike(a: Array, b: Array, c: Array) -> Array:
        near = np.maximum(np.abs(a - b), np.abs(a - c)) <= 10 * np.finfo(x.dtype).eps * np.abs(a)
        same = (a == b) & (a == c) | np.isnan(a) & np.isnan(b) & np.isnan(c)
        return same | np.isfinite(a) & near

    first, second, third = x.T
    with np.errstate(all="ignore"):
        total = first + second + third
        digits = np.abs(total) >= 0.01 * np.abs(x).max(1)  # they did not cancel
        deviations = np.abs(x - column(total / 3)).min(1)
        digits &= (deviations >= 0.001 * np.abs(x).max(1)) | (deviations == 0)
        digits |= ~np.isfinite(total) | (total == 0)
        sums = alike(total, first + third + second, second + third + first)
        product = first * second * third
        return sums & digits & alike(product, first * third * second, second * third * first)
