"""Checks for operators and models: gradients against finite differences, arrays by dtype.

Stands on: transforms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .autograd import Tensor
from .dtype import bfloat16, dtype_of
from .ndarray.array import NDArray
from .transforms import jvp, vjp
from .tree import leaves, with_leaves

if TYPE_CHECKING:
    from .types import TensorLike

Array = np.ndarray[Any, Any]

# The relative and absolute error that rounding in one operator's result explains, by dtype.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float64": (1e-7, 1e-9),
    "float32": (1e-5, 1e-6),
    "float16": (1e-3, 1e-4),
    "bfloat16": (1.6e-2, 1e-3),
}


# Arrays -----------------------------------------------------------------------------------------


def assert_close(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol |expected| everywhere.

    Shapes must be equal; dtypes may differ, and the coarser one sets the tolerances (TOLERANCES;
    integers and bools are compared exactly). NaN equals NaN.

    >>> from needle.testing import assert_close
    >>> assert_close(ndl.tensor([1.0, 2.0]) / 3, [1 / 3, 2 / 3])
    >>> assert_close(ndl.tensor([1.0, 2.0]), [1.0, 2.5])
    Traceback (most recent call last):
    ...
    AssertionError: [assert_close] 1 of 2 elements differ; the largest error is 0.5 at (1,): ...
    """
    (a, a_dtype), (b, b_dtype) = _as_array(actual), _as_array(expected)
    kinds = f"{a.dtype if a_dtype is None else a_dtype} {a.shape} and "
    kinds += f"{b.dtype if b_dtype is None else b_dtype} {b.shape}"
    if a.shape != b.shape:
        raise AssertionError(f"[assert_close] expected equal shapes, got {kinds}.")
    default_rtol, default_atol = _tolerance(a_dtype, b_dtype)
    rtol = default_rtol if rtol is None else rtol
    atol = default_atol if atol is None else atol
    if a.dtype.kind in "biu" and b.dtype.kind in "biu" and not rtol and not atol:
        wrong = a != b
    else:
        a, b = a.astype(np.float64), b.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            near = np.isfinite(b) & (np.abs(a - b) <= atol + rtol * np.abs(b))
        wrong = ~same & ~near
    if not wrong.any():
        return
    with np.errstate(invalid="ignore"):
        error = np.abs(a.astype(np.float64) - b.astype(np.float64))
    largest = np.argmax(np.where(wrong, np.where(np.isnan(error), np.inf, error), -1))
    at = tuple(int(i) for i in np.unravel_index(largest, a.shape))
    raise AssertionError(
        f"[assert_close] {np.count_nonzero(wrong)} of {a.size} elements differ; the largest error "
        f"is {error[at]:.6g} at {at}: got {a[at]}, expected {b[at]}. "
        f"Tolerance rtol {rtol:g}, atol {atol:g}; {kinds}."
    )


def _as_array(x: TensorLike) -> tuple[Array, str | None]:
    """The values, and the dtype that sets the tolerance: plain numbers and lists have none."""
    if isinstance(x, (Tensor, NDArray)):
        return x.numpy(), str(dtype_of(x.dtype))
    if hasattr(x, "dtype") and getattr(x.dtype, "name", "") == bfloat16:
        return np.asarray(x, np.float32), str(bfloat16)
    array = np.asarray(x)
    return array, array.dtype.name if hasattr(x, "dtype") else None


def _tolerance(*dtypes: str | None) -> tuple[float, float]:
    known = [TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes if d is not None]
    return max(known, default=TOLERANCES["float64"])


# Gradients --------------------------------------------------------------------------------------


def check_grads(
    f: Callable[..., object],
    *args: object,
    order: int = 2,
    modes: Sequence[str] = ("rev", "fwd"),
    eps: float = 1e-3,
    rtol: float = 1e-6,
) -> None:
    """Raise AssertionError unless the derivatives of f at args agree with finite differences.

    The Jacobian J of f (or of its derivative, up to `order`) is compared along random directions:
    u·(Jv) and (Jᵀu)·v with the slope of h -> u·f(x + hv) at 0, which takes a few evaluations
    whatever the sizes are. Floating tensors in args are taken as float64 and varied, the rest is
    passed on. eps is the largest step tried; f must be smooth within it.

    >>> from needle.testing import check_grads
    >>> x = ndl.tensor([[0.5, -1.0], [2.0, 0.25]], dtype="float64")
    >>> check_grads(lambda x: ndl.tanh(x @ x), x)
    """
    for mode in modes:
        if mode not in ("rev", "fwd"):
            raise ValueError(f'[check_grads] expected modes "rev" and "fwd", got {mode!r}.')
    given = leaves(args)
    varied = [
        i for i, x in enumerate(given) if isinstance(x, Tensor) and dtype_of(x.dtype).is_floating
    ]
    if not varied:
        raise ValueError("[check_grads] expected at least one floating Tensor among the arguments.")

    def flat(*tensors: Tensor) -> tuple[Tensor, ...]:
        values = list(given)
        for i, x in zip(varied, tensors, strict=True):
            values[i] = x
        out = leaves(f(*with_leaves(args, values)))
        return tuple(y for y in out if isinstance(y, Tensor) and dtype_of(y.dtype).is_floating)

    points = [_float64(given[i].numpy(), given[i]) for i in varied]
    _Check(tuple(modes), eps, rtol).run(flat, points, order, "")


def _float64(values: Array, like: Tensor) -> Tensor:
    return Tensor(values, device=like.device, dtype="float64", requires_grad=False)


class _Check:
    """One call of check_grads: its settings and its random directions."""

    def __init__(self, modes: tuple[str, ...], eps: float, rtol: float):
        self.modes, self.eps, self.rtol = modes, eps, rtol
        self.random = np.random.default_rng(0)

    def run(self, f: Callable[..., Any], xs: Sequence[Tensor], order: int, of: str) -> None:
        """Check f itself, then its derivatives as functions of xs."""
        us = self.directions(f(*xs))
        # Small arguments move less, so that a step does not leave the domain of log or 1/x.
        vs = self.directions(xs, [np.clip(np.abs(x.numpy()), 0.01, 1) for x in xs])

        def along(h: float) -> tuple[float, float]:
            moved = [_float64(x.numpy() + h * v.numpy(), x) for x, v in zip(xs, vs, strict=True)]
            return _dot(us, f(*moved))

        slope, noise = _slope(along, self.eps)
        if "rev" in self.modes:

            def backwards(*ys: Tensor) -> Any:
                return vjp(f, *ys)[1](us)

            name = f"reverse mode{of}"
            self.compare(name, "(Jᵀu)·v", _dot(backwards(*xs), vs), slope, noise, xs)
            if order > 1:
                self.run(backwards, xs, order - 1, f" of {name}")
        if "fwd" in self.modes:

            def forwards(*ys: Tensor) -> Any:
                return jvp(f, ys, vs)[1]

            name = f"forward mode{of}"
            self.compare(name, "u·(Jv)", _dot(us, forwards(*xs)), slope, noise, xs)
            if order > 1:
                self.run(forwards, xs, order - 1, f" of {name}")

    def directions(
        self, like: Sequence[Tensor], scales: Sequence[Array] | None = None
    ) -> tuple[Tensor, ...]:
        drawn = [self.random.standard_normal(x.shape) for x in like]
        if scales is not None:
            drawn = [d * s for d, s in zip(drawn, scales, strict=True)]
        return tuple(_float64(d, x) for d, x in zip(drawn, like, strict=True))

    def compare(
        self,
        name: str,
        projection: str,
        found: tuple[float, float],
        slope: float,
        noise: float,
        xs: Sequence[Tensor],
    ) -> None:
        value, size = found
        size = max(size, abs(slope))
        if abs(value - slope) <= self.rtol * size + noise:
            return
        shapes = ", ".join(str(x.shape) for x in xs)
        relative = abs(value - slope) / size
        raise AssertionError(
            f"[check_grads] {name}: the projection {projection} is {value:.10g}, but {slope:.10g} "
            f"by finite differences: relative error {relative:.1e} > {self.rtol:g}. "
            f"Arguments of shape {shapes}."
        )


def _dot(xs: Sequence[Tensor], ys: Sequence[Tensor]) -> tuple[float, float]:
    """The inner product, and the sum of its terms' magnitudes: what its rounding is relative to."""
    terms = [x.numpy().astype(np.float64) * y.numpy() for x, y in zip(xs, ys, strict=True)]
    return float(sum(t.sum() for t in terms)), float(sum(np.abs(t).sum() for t in terms))


def _slope(along: Callable[[float], tuple[float, float]], eps: float) -> tuple[float, float]:
    """The derivative at 0 by central differences, and how much of it is rounding.

    With step h they err by c h² + O(h⁴); from steps h and h/2 Richardson's rule removes c. How much
    that changes the result tells whether h suits f: the best of some steps is taken.
    """
    best = (math.inf, math.nan, 0.0)
    for h in (eps, eps / 16, eps / 256):
        (a, size), (b, _), (c, _), (d, _) = (along(t) for t in (h, -h, h / 2, -h / 2))
        wide, narrow = (a - b) / (2 * h), (c - d) / h
        slope = (4 * narrow - wide) / 3
        noise = 32 * np.finfo(np.float64).eps * size / h
        change = abs(slope - narrow) + noise
        if change < best[0]:
            best = (change, slope, noise)
        if change <= 1e-4 * abs(slope):
            break
    if math.isnan(best[1]):
        raise ValueError(
            "[check_grads] f is not finite around the arguments; move them away from the edge of "
            "its domain, or give a smaller eps."
        )
    return best[1], best[2]
