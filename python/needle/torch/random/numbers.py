"""Distributions: words of a generator as numbers, in PyTorch's order and to the same bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dtype import DType, float32
from .generator import Generator

Array = Any  # np.ndarray
F32 = np.float32


def uniform(g: Generator, count: int, dtype: DType, low: float = 0.0, high: float = 1.0) -> Array:
    """Even in [low, high): 24 bits, or 53 for float64. What rounding to half types makes `high`
    becomes `low`."""
    if dtype == "float64":
        x = unit(g, count)
        return x if (low, high) == (0.0, 1.0) else fma_double(x, high - low, low)
    x = (g.words(count) & np.uint32(0xFFFFFF)).astype(F32) * F32(2.0**-24)
    if (low, high) != (0.0, 1.0):
        x = fma(x, F32(high) - F32(low), F32(low))
    if dtype == "float32":
        return x
    x = rounded(x, dtype)
    return np.where(x == rounded(np.asarray(high, F32), dtype), F32(low), x)


def rounded(x: Array, dtype: DType) -> Array:
    """float32 numbers rounded to a half type."""
    x = np.asarray(x, F32)
    if dtype == "float16":
        return x.astype(np.float16).astype(F32)
    bits = x.view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)).view(F32)


def unit(g: Generator, count: int) -> Array:
    """Even in [0, 1), with 53 bits."""
    return (g.long_words(count) & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53


# Normal numbers -----------------------------------------------------------------------------------


def normal(g: Generator, count: int, dtype: DType, mean: float, std: float) -> Array:
    """Normal numbers: from 16 on in blocks of 16, below one by one."""
    if count < 16:
        return fma_double(few_normals(g, count), std, mean)
    whole = count - count % 16
    is_half = dtype not in ("float32", "float64")
    dtype = float32 if is_half else dtype
    made = uniform(g, whole if is_half else count, dtype)
    result = np.empty(count, made.dtype)
    result[:whole] = in_blocks(made[:whole], dtype, mean, std)
    if count % 16:
        result[-16:] = in_blocks(uniform(g, 16, dtype), dtype, mean, std)
    return result


def few_normals(g: Generator, count: int) -> Array:
    """In pairs, in float64; the second of a pair is kept for the next draw."""
    result = np.empty(count)
    for i in range(count):
        if g._kept is not None:
            result[i], g._kept = g._kept, None
            continue
        u1, u2 = unit(g, 2).tolist()
        radius, angle = math.sqrt(-2 * math.log1p(-u2)), 2 * math.pi * u1
        g._kept = radius * math.sin(angle)
        result[i] = radius * math.cos(angle)
    return result


def in_blocks(made: Array, dtype: DType, mean: float, std: float) -> Array:
    """Box and Muller's transform: 8 radii and 8 angles give 16 numbers."""
    pairs = made.reshape(-1, 2, 8)
    u1, u2 = 1 - pairs[:, 0], pairs[:, 1]
    if dtype == "float64":
        radius, angle = np.sqrt(-2 * np.log(u1)), 2 * np.pi * u2
        both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)
        return both if (mean, std) == (0.0, 1.0) else fma_double(both, std, mean)
    radius = np.sqrt(F32(-2) * log_float(u1))
    sine, cosine = sine_and_cosine(F32(2 * np.pi) * u2)
    both = np.stack([radius * cosine, radius * sine], 1).reshape(-1)
    return both if (mean, std) == (0.0, 1.0) else fma(both, F32(std), F32(mean))


# float32 functions with the roundings of PyTorch's own, after Cephes (Moshier, 1989).


def fma(a: Array, b: Array, c: Array) -> Array:
    """a b + c, rounded once."""
    return (np.multiply(a, b, dtype=np.float64) + c).astype(F32)


def fma_double(a: Array, b: float, c: float) -> Array:
    """a b + c in float64, rounded once: product and sum with their errors (Dekker, 1971)."""
    split = 2.0**27 + 1
    a_high, b_high = a * split - (a * split - a), b * split - (b * split - b)
    a_low, b_low = a - a_high, b - b_high
    product = a * b
    lost = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    part = total - product
    return total + (((product - (total - part)) + (c - part)) + lost)


LOG = (
    -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
TINY = F32(1.1754943508222875e-38)


def log_float(x: Array) -> Array:
    """ln x, as float32: of the mantissa by a polynomial, and of the exponent."""
    x = np.maximum(x, TINY)
    bits = x.view(np.int32)
    e = ((bits >> 23) - 126).astype(F32)
    x = ((bits & 0x007FFFFF) | 0x3F000000).view(F32)
    low = x < F32(0.707106781186547524)
    e = e - low
    x = (x - F32(1)) + np.where(low, x, F32(0))
    z = x * x
    y = np.full_like(x, F32(7.0376836292e-2))
    for p in LOG:
        y = fma(y, x, F32(p))
    y = fma(y * x, z, e * F32(-2.12194440e-4))
    x = x + fma(-z, F32(0.5), y)
    return fma(e, F32(0.693359375), x)


def sine_and_cosine(x: Array) -> tuple[Array, Array]:
    """sin x and cos x for x >= 0, as float32: reduced to [-π/4, π/4], then by polynomials."""
    octant = ((x * F32(1.27323954473516)).astype(np.int32) + 1) & ~1
    y = octant.astype(F32)
    for part in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8):  # π/4 in parts
        x = fma(y, F32(part), x)
    z = x * x
    c = np.full_like(x, F32(2.443315711809948e-5))
    for p in (-1.388731625493765e-3, 4.166664568298827e-2):
        c = fma(c, z, F32(p))
    c = fma(c * z, z, -(z * F32(0.5))) + F32(1)
    s = np.full_like(x, F32(-1.9515295891e-4))
    for p in (8.3321608736e-3, -1.6666654611e-1):
        s = fma(s, z, F32(p))
    s = fma(s * z, x, x)
    is_even = (octant & 2) == 0
    sine, cosine = np.where(is_even, s, c), np.where(is_even, c, s)
    flipped = (octant & 4) != 0
    return np.where(flipped, -sine, sine), np.where((~(octant - 2) & 4) != 0, -cosine, cosine)


# Whole numbers ------------------------------------------------------------------------------------


def integers(g: Generator, count: int, low: int, high: int) -> Array:
    """Whole numbers in [low, high)."""
    span = high - low
    if span >= 2**28:
        found = g.long_words(count) % np.uint64(span) if span < 2**64 else g.long_words(count)
        return found.astype(np.int64) + low
    return (g.words(count) % np.uint32(span)).astype(np.int64) + low


def all_integers(g: Generator, count: int, dtype: DType) -> Array:
    """Whole numbers of all sizes that a dtype holds."""
    if dtype == "float64":
        return (g.long_words(count) % np.uint64(2**53 + 1)).astype(np.float64)
    if dtype.kind == "f":
        digits = {"float32": 24, "float16": 11, "bfloat16": 8}[str(dtype)]
        return (g.words(count) % np.uint32(2**digits + 1)).astype(np.float64)
    if dtype == "int64":
        return (g.long_words(count) % np.uint64(2**63)).astype(np.int64)
    if dtype == "bool":
        return (g.words(count) & np.uint32(1)).astype(np.int64)
    largest = int(np.iinfo(dtype.storage).max)
    return (g.words(count) % np.uint32(largest + 1)).astype(np.int64)


def permutation(g: Generator, n: int) -> Array:
    """0 ... n - 1 in random order: each place exchanged with one behind it."""
    places = list(range(n))
    left = np.arange(n, 1, -1, dtype=np.uint64)
    words = g.words(len(left)).astype(np.uint64) if n < 2**32 // 20 else g.long_words(len(left))
    for i, z in enumerate((words % left).tolist()):
        places[i], places[i + z] = places[i + z], places[i]
    return np.array(places, np.int64)


# Others -------------------------------------------------------------------------------------------


def bernoulli(g: Generator, count: int, p: float) -> Array:
    """True with probability p."""
    return unit(g, count) < p


def exponential(g: Generator, count: int, rate: float) -> Array:
    """With the density rate e^(-rate x)."""
    return np.log1p(-unit(g, count)) / -rate


def cauchy(g: Generator, count: int, median: float, sigma: float) -> Array:
    """Cauchy's distribution."""
    return median + sigma * np.tan(np.pi * (unit(g, count) - 0.5))


def geometric(g: Generator, count: int, p: float) -> Array:
    """How many trials there are until one succeeds."""
    return np.ceil(np.log(unit(g, count)) / math.log1p(-p))


def log_normal(g: Generator, count: int, mean: float, std: float) -> Array:
    """e to the power of normal numbers."""
    return np.exp(fma_double(few_normals(g, count), std, mean))
