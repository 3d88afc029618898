"""Special values, and when two numbers count as one there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import needle as ndl

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

# A result may be off by this many units of rounding: those of the functions it is made of.
UNITS = 64


def specials(dtype: str) -> Array:
    """Zeros, the smallest and largest numbers, where squares vanish or overflow, where functions
    bend or saturate, infinities and NaN; all but NaN with both signs."""
    info = np.finfo(dtype)
    smallest, tiny, largest = (float(v) for v in (info.smallest_subnormal, info.tiny, info.max))
    sizes = (
        0.0, smallest, tiny / 3, tiny, tiny**0.5, 1e-8, 1e-3, 0.5, 1.0, 1.5, 2.0, 3.0, 6.0, 21.0,
        100.0, 800.0, 1.5 * largest**0.5, 1e30, largest / 2, largest, np.inf,
    )  # fmt: skip
    return np.array([s * sign for s in sizes for sign in (1, -1)] + [np.nan], dtype)


def few_specials(dtype: str) -> Array:
    """Those that all triples are made of."""
    info = np.finfo(dtype)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, info.smallest_subnormal, info.tiny, 1e30]
    return np.array([*values, info.max, -info.max, np.inf, -np.inf, np.nan], dtype)


def grid(values: Array, operands: int) -> list[Array]:
    """All tuples of values, one array for each place."""
    return [a.reshape(-1).copy() for a in np.meshgrid(*[values] * operands, indexing="ij")]


def value_and_gradients(function: Function, arrays: Sequence[Array], dtype: str) -> list[Array]:
    """What a function of tensors gives, and the gradients of its sum."""
    found = _both(function, *(ndl.tensor(a, dtype=dtype) for a in arrays))
    return [x.numpy() for x in found]


def compiled(function: Function, arrays: Sequence[Array], dtype: str) -> list[Array]:
    """The same as a compiled program."""
    program = ndl.jit(lambda *tensors: _both(function, *tensors))
    return [x.numpy() for x in program(*(ndl.tensor(a, dtype=dtype) for a in arrays))]


def _both(function: Function, *tensors: Any) -> list[Any]:
    leaves = [x.detach() for x in tensors]
    for x in leaves:
        x.requires_grad = True
    y = function(*leaves)
    if y.requires_grad:
        y.backward()
    return [y.detach(), *(_gradient(x) for x in leaves)]


def _gradient(x: Any) -> Any:
    return ndl.zeros_like(x) if x.grad is None else x.grad.detach()


def agree(found: Array, expected: Array, units: float = UNITS, absolute: float = 0.0) -> Array:
    """Where two results are the same: equal, both NaN, or apart by units of rounding.

    What is expected has been computed with more digits; the order of rounding decides whether a
    result close to the largest number is still finite. Denormal numbers have few digits."""
    info = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        expected = expected.astype(found.dtype)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        finite = np.isfinite(found) & np.isfinite(expected)
        near = np.abs(found - expected) <= units * info.eps * np.abs(expected) + absolute
        tiny = (np.abs(found) < info.tiny) & (np.abs(expected) < info.tiny)
        denormal = np.abs(found - expected) <= units * float(info.smallest_subnormal)
        top = info.max * (1 - units * info.eps)
        overflow = (np.abs(found) >= top) & (np.abs(expected) >= top)
        overflow &= np.sign(found) == np.sign(expected)
    return np.asarray(same | (finite & (near | (tiny & denormal))) | overflow)


def describe(bad: Array, arrays: Sequence[Array], found: Array, expected: Array) -> str:
    """The first places of a disagreement, for a message."""
    lines = [f"{bad.sum()} of {bad.size} disagree"]
    for place in list(zip(*np.nonzero(bad), strict=True))[:5]:
        inputs = ", ".join(str(a[place] if a.shape == bad.shape else a[place[0]]) for a in arrays)
        at = place[1:] if bad.ndim > 1 else ""
        lines.append(f"at ({inputs}){at or ''}: {found[place]!s}, expected {expected[place]!s}")
    return "\n".join(lines)
