"""Functions that only `torch.special` names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops import compare as C
from ..core.tensor import wrap
from ..functions.arithmetic import xlogy
from ..functions.common import as_floating, check
from ..functions.pointwise import _special, erfc, erfinv, lgamma


def i1(input: Any) -> Any:
    """The modified Bessel function of order 1."""
    from ..functions.pointwise import i0

    def derivative(g: Any, x: Any, y: Any) -> Any:
        safe = C.where(C.equal(x, 0), 1.0, x)
        return g * C.where(C.equal(x, 0), 0.5, i0(x) - i1(safe) / safe)

    return _special("i1", as_floating(check("i1", input)), derivative)


def i0e(input: Any) -> Any:
    """i0 times e^-|x|"""
    x = as_floating(check("i0e", input))
    return _special("i0e", x, lambda g, x, y: g * (i1e(x) - x.sign() * y))


def i1e(input: Any) -> Any:
    """i1 times e^-|x|"""
    x = as_floating(check("i1e", input))

    def derivative(g: Any, x: Any, y: Any) -> Any:
        safe = C.where(C.equal(x, 0), 1.0, x)
        return g * C.where(C.equal(x, 0), 0.5, i0e(x) - y * (safe.sign() + 1 / safe))

    return _special("i1e", x, derivative)


def zeta(input: Any, other: Any) -> Any:
    """Hurwitz's Σ (other + k)^-input"""
    from ...ndarray.array import from_numpy
    from . import values

    x = as_floating(check("zeta", other)).detach()
    s = input.detach().numpy() if hasattr(input, "detach") else np.float64(input)
    with np.errstate(all="ignore"):
        found = values.zeta(s, x.numpy().astype(np.float64))
    return wrap(from_numpy(np.asarray(found), x.cached_data.dtype, x.home))


def entr(input: Any) -> Any:
    """-x ln x"""
    x = as_floating(input)
    return C.where(C.less(x, 0), -math.inf, -xlogy(x, x))


def ndtr(input: Any) -> Any:
    """The share of normal numbers below x."""
    return erfc(as_floating(input) * -math.sqrt(0.5)) * 0.5


def ndtri(input: Any) -> Any:
    """The inverse of ndtr."""
    return erfinv(2 * as_floating(input) - 1) * math.sqrt(2)


def log_ndtr(input: Any) -> Any:
    """ln ndtr; far below 0 by an asymptotic series"""
    x = as_floating(input)
    low = C.less(x, -20.0)
    far = C.where(low, x, -20.0)
    series = -far * far / 2 - (-far).log() - math.log(2 * math.pi) / 2 + (-1 / (far * far)).log1p()
    return C.where(low, series, ndtr(C.where(low, 0.0, x)).log())


def xlog1py(input: Any, other: Any) -> Any:
    """input ln(1 + other), 0 where input is 0"""
    flat = C.logical_and(C.equal(input, 0), C.logical_not(C.isnan(other)))
    return C.where(flat, 0.0 * input, input * C.where(flat, 1.0, other).log1p())


def multigammaln(input: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function."""
    x = as_floating(input)
    total = sum(lgamma(x - i / 2) for i in range(p))
    return total + p * (p - 1) / 4 * math.log(math.pi)
