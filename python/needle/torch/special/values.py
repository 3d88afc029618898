"""Special functions of NumPy's float64 arrays."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

Array = Any  # np.ndarray of float64
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _lgamma_of_one(x: float) -> float:
    if math.isnan(x):
        return math.nan
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


lgamma = np.vectorize(_lgamma_of_one, otypes=[np.float64])
# Giles's polynomials (2010) for a first guess, which two of Halley's steps make exact.
NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
        -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
       -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def erfinv(y: Array) -> Array:
    """The inverse of the error function."""
    inside = np.clip(y, -1, 1)
    w = -np.log((1 - inside) * (1 + inside))
    near, far = np.polyval(NEAR, w - 2.5), np.polyval(FAR, np.sqrt(np.maximum(w, 0)) - 3)
    x = np.where(w < 5, near, far) * inside
    for _ in range(2):
        error = _erf_error(x, inside)
        slope = 2 / math.sqrt(math.pi) * np.exp(-x * x)
        step = error / slope
        x = x - step / (1 + x * step)
    x = np.where(np.abs(y) == 1, np.copysign(np.inf, y), x)
    return np.where(np.abs(y) > 1, np.nan, x)


def _erf_error(x: Array, y: Array) -> Array:
    """erf(x) - y, by erfc where that is more exact."""
    size, target = np.abs(x), np.abs(y)
    erf = np.vectorize(math.erf, otypes=[np.float64])
    error = np.where(target > 0.5, (1 - target) - erfc(size), erf(size) - target)
    return np.copysign(1.0, x) * error


# Bernoulli's numbers over 2k: coefficients of asymptotic series.
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def digamma(x: Array) -> Array:
    """The derivative of ln Γ, by its recurrence up to 10 and an asymptotic series."""
    x = np.asarray(x, np.float64)
    pole = (x <= 0) & (x == np.floor(x))
    reflected = x < 0.5
    y = np.where(reflected, 1 - x, x)
    total = np.zeros_like(y)
    for _ in range(10):
        low = y < 10
        total = total - np.where(low, 1 / y, 0)
        y = np.where(low, y + 1, y)
    series = sum(c / y ** (2 * k + 2) for k, c in enumerate(DIGAMMA))
    total = total + np.log(y) - 0.5 / y - series
    total = np.where(reflected, total - math.pi / np.tan(math.pi * x), total)
    total = np.where(pole, np.nan, total)
    return np.where(x == 0, np.copysign(np.inf, -x), total)


# Chebyshev series of Bessel functions (Cephes), found numerically from their integrals.


@cache
def _nodes() -> tuple[Array, Array]:
    """Points and weights of the trapezoidal rule over a half period: exact for these integrands."""
    n = 400
    angle = np.linspace(0, math.pi, n + 1)
    weight = np.full(n + 1, 1 / n)
    weight[[0, -1]] /= 2
    return np.cos(angle), weight


def _bessel(order: int, x: Array, scaled: bool) -> Array:
    """(1/π) ∫ e^(x cos t) cos(order t) dt over [0, π], times e^-|x| if scaled"""
    cosine, weight = _nodes()
    x = np.asarray(x, np.float64)
    grown = np.exp(np.multiply.outer(x, cosine) - np.abs(x)[..., None])
    value = grown @ (weight * (cosine if order else 1.0))
    return value if scaled else value * np.exp(np.abs(x))


def i0(x: Array) -> Array:
    """The modified Bessel function of order 0."""
    return _bessel(0, x, False)


def i0e(x: Array) -> Array:
    """The same times e^-|x|."""
    return _bessel(0, x, True)


def i1(x: Array) -> Array:
    """The modified Bessel function of order 1."""
    return _bessel(1, x, False)


def i1e(x: Array) -> Array:
    """The same times e^-|x|."""
    return _bessel(1, x, True)


ZETA = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)


def zeta(s: float, x: Array) -> Array:
    """Hurwitz's Σ (x + k)^-s: twelve terms, and Euler and Maclaurin's formula for the rest."""
    x = np.asarray(x, np.float64)
    total = sum((x + k) ** -s for k in range(12))
    a = x + 12
    total = total + a ** (1 - s) / (s - 1) + 0.5 * a**-s
    factor, power = s, a ** (-s - 1)
    for k, c in enumerate(ZETA):
        total = total + c * factor * power
        factor = factor * (s + 2 * k + 1) * (s + 2 * k + 2)
        power = power / a**2
    return np.where((x <= 0) & (x == np.floor(x)), np.inf, total)


def polygamma(n: int, x: Array) -> Array:
    """The n-th derivative of digamma, n > 0; of negative x by the recurrence."""
    return (-1.0) ** (n + 1) * math.factorial(n) * zeta(n + 1.0, _raised(x)) + _below(n, x)


def _steps(x: Array) -> Array:
    return np.where(x > 0, 0, np.ceil(-x) + 1)


def _raised(x: Array) -> Array:
    """x moved by whole numbers to where it is positive."""
    return np.where(x > 0, x, x + _steps(x))


def _below(n: int, x: Array) -> Array:
    """The terms that were left out on the way."""
    steps = _steps(x)
    total = np.zeros_like(x)
    for k in range(int(steps.max(initial=0))):
        total = total + np.where(k < steps, (x + k) ** -(n + 1.0), 0)
    return (-1.0) ** (n + 1) * math.factorial(n) * total
