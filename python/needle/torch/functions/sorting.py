"""Order, distinct elements, counting, and running sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dtype import bool_, int32, int64, uint8
from ...ndarray import functions as F
from ...ops import compare as C, cumulative as Q
from ...ops.common import FlatOp
from ...ops.index.along_axis import AlongIntoZeros, Gather
from ...ops.index.sorting import ArgSort
from ..core.dtypes import dtype_in_engine as kind, in_engine
from ..core.tensor import wrap
from . import named
from .common import as_floating, axis_of, cast, check, fail, takes_out


def _order(name: str, x: Any, dim: int, descending: bool, count: int | None = None) -> Any:
    axis = axis_of(name, dim, x.ndim)
    keys = cast(x, uint8) if kind(x) is bool_ else x
    return ArgSort(axis, bool(descending), count)(keys), axis


@takes_out
def sort(
    input: Any, dim: int = -1, descending: bool = False, stable: bool = False, **rest: Any
) -> Any:
    """input in order along an axis, and where each element was."""
    x = check("sort", input)
    if x.ndim == 0:
        return named.sort(x.clone(), wrap(F.full((), 0, int64, x.home)))
    order, axis = _order("sort", x, dim, descending)
    return named.sort(Gather(axis)(x, order), order)


def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The positions that put input in order along an axis."""
    return sort(input, dim, descending)[1]


def msort(input: Any) -> Any:
    """input in order along its first axis."""
    return sort(input, 0)[0]


@takes_out
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest (smallest) elements along an axis, and where they are."""
    x = check("topk", input)
    n = x.shape[axis_of("topk", dim, x.ndim)] if x.ndim else 1
    if not 0 <= k <= n:
        raise fail("topk", "selected index k out of range")
    if x.ndim == 0:
        return named.topk(x.clone(), wrap(F.full((), 0, int64, x.home)))
    order, axis = _order("topk", x, dim, largest, k)
    return named.topk(Gather(axis)(x, order), order)


@takes_out
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along an axis, and where it is."""
    x = check("kthvalue", input)
    n = x.shape[axis_of("kthvalue", dim, x.ndim)] if x.ndim else 1
    if not 1 <= k <= n:
        raise fail("kthvalue", "selected number k out of range for dimension")
    values, places = topk(x, k, dim, False)
    return named.kthvalue(*(_last(v, dim, keepdim) for v in (values, places)))


def _last(x: Any, dim: int, keepdim: bool) -> Any:
    if x.ndim == 0:
        return x
    found = x.narrow(dim, x.shape[dim] - 1, 1)
    return found if keepdim else found.squeeze(dim)


@takes_out
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along an axis (of several, the smallest), and where it is."""
    x = check("mode", input)
    if x.ndim == 0:
        return named.mode(x.clone(), wrap(F.full((), 0, int64, x.home)))
    axis = axis_of("mode", dim, x.ndim)
    array = np.moveaxis(x.realize_cached_data().numpy(), axis, -1)
    rows = array.reshape(-1, array.shape[-1])
    at = np.array([_most_frequent(row) for row in rows], np.int64).reshape(array.shape[:-1])
    from .creation import from_numpy

    places = from_numpy(np.asarray(np.expand_dims(at, axis), order="C"))
    values = Gather(axis)(x, places)
    return named.mode(*(v if keepdim else v.squeeze(axis) for v in (values, places)))


def _most_frequent(row: Any) -> int:
    values, counts = np.unique(row, return_counts=True)
    return int(np.flatnonzero(row == values[counts.argmax()])[-1])


# Distinct elements --------------------------------------------------------------------------------


def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The distinct elements, or slices along an axis, in order."""
    from .creation import from_numpy

    array = check("unique", input).realize_cached_data().numpy()
    found = np.unique(array, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    values, inverse, counts = found
    inverse = inverse.reshape(array.shape if dim is None else -1)
    made = [from_numpy(np.asarray(a, order="C")) for a in (values, inverse, counts)]
    results = [made[0], *[made[1]] * return_inverse, *[made[2]] * return_counts]
    return results[0] if len(results) == 1 else tuple(results)


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Without elements (or slices) that equal the one before."""
    from .creation import from_numpy

    array = check("unique_consecutive", input).realize_cached_data().numpy()
    rows = array.reshape(-1) if dim is None else np.moveaxis(array, dim, 0)
    flat = rows.reshape(len(rows), -1)
    new = np.ones(len(rows), bool)
    new[1:] = (flat[1:] != flat[:-1]).any(1)
    kept = rows[new] if dim is None else np.moveaxis(rows[new], 0, dim)
    inverse = (np.cumsum(new) - 1).reshape(array.shape if dim is None else -1)
    counts = np.diff(np.append(np.flatnonzero(new), len(rows)))
    made = [from_numpy(np.asarray(a, order="C")) for a in (kept, inverse, counts)]
    results = [made[0], *[made[1]] * return_inverse, *[made[2]] * return_counts]
    return results[0] if len(results) == 1 else tuple(results)


@takes_out
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Which elements are among others?"""
    from .creation import as_tensor, from_numpy

    a, b = (as_tensor(v).realize_cached_data().numpy() for v in (elements, test_elements))
    return from_numpy(np.asarray(np.isin(a, b, invert=invert)))


# Counting -----------------------------------------------------------------------------------------


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each of 0, 1, ... is among the elements, or the sums of their weights."""
    x = check("bincount", input)
    if x.ndim != 1 or kind(x).kind not in "iu":
        raise fail("bincount", "bincount only supports 1-d non-negative integral inputs.")
    array = x.realize_cached_data().numpy()
    if minlength < 0 or (array.size and array.min() < 0):
        raise fail("bincount", "bincount only supports 1-d non-negative integral inputs.")
    size = max(minlength, int(array.max()) + 1 if array.size else 0)
    from ...dtype import float64

    if weights is None:
        values = wrap(F.full((array.size,), 1, int64, x.home))
    else:
        values = weights if kind(weights) == "float32" else cast(weights, float64)
    return AlongIntoZeros(0, (size,))(values.detach(), cast(x, int64))


def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements lie in each of equal bins between min and max."""
    from .creation import tensor

    x = check("histc", input)
    array = x.realize_cached_data().numpy()
    if min == max and array.size:
        min, max = float(array.min()), float(array.max())
    if min == max:
        min, max = min - 1, max + 1
    counts = np.histogram(array[(array >= min) & (array <= max)], bins, (min, max))[0]
    return tensor(counts, dtype=x.dtype)


def histogram(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    """Counts of elements in bins, and the bins' edges."""
    from .creation import tensor

    x = check("histogram", input)
    edges = bins.numpy() if hasattr(bins, "numpy") else bins
    weights = None if weight is None else weight.numpy().reshape(-1)
    found = np.histogram(x.numpy().reshape(-1), edges, range, density, weights)
    counts, edges = found
    return named.histogram(tensor(counts, dtype=x.dtype), tensor(edges, dtype=x.dtype))


@takes_out
def searchsorted(
    sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None,
) -> Any:  # fmt: skip
    """Where values go into sorted rows."""
    from .creation import as_tensor, from_numpy

    ordered = sorted_sequence if sorter is None else sorted_sequence.gather(-1, sorter)
    rows, wanted = ordered.detach().numpy(), as_tensor(input, None).detach().numpy()
    way: Any = "right" if right or side == "right" else "left"
    if rows.ndim == 1:
        found = np.searchsorted(rows, wanted, way)
    else:
        pairs = zip(
            rows.reshape(-1, rows.shape[-1]), wanted.reshape(-1, wanted.shape[-1]), strict=True
        )
        found = np.stack([np.searchsorted(r, w, way) for r, w in pairs]).reshape(wanted.shape)
    return cast(from_numpy(np.asarray(found, np.int64)), int32 if out_int32 else int64)


@takes_out
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The bin of each element, between sorted boundaries."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# Running sums -------------------------------------------------------------------------------------


def _running(name: str, op: Any, input: Any, dim: int, dtype: Any) -> Any:
    x = check(name, input)
    x = x if dtype is None else cast(x, in_engine(dtype))
    if x.ndim == 0:
        return (cast(x, int64) if kind(x).kind != "f" and dtype is None else x).clone()
    result = op(axis_of(name, dim, x.ndim))(x)
    return result if dtype is None else cast(result, in_engine(dtype))


@takes_out
def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Running sums along an axis."""
    return _running("cumsum", Q.CumSum, input, dim, dtype)


@takes_out
def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Running products along an axis."""
    return _running("cumprod", Q.CumProd, input, dim, dtype)


@takes_out
def logcumsumexp(input: Any, dim: int) -> Any:
    """The logarithms of running sums of e^input."""
    x = as_floating(check("logcumsumexp", input))
    if x.ndim == 0:
        return x.clone()
    top = x.detach().amax(dim, keepdim=True)
    top = C.where(C.isfinite(top), top, 0.0)
    return cumsum((x - top).exp(), dim).log() + top


class _Latest(FlatOp):
    """The position of the largest (smallest) element so far; of equal ones, the last"""

    differentiable = False

    def __init__(self, axis: int, largest: bool):
        self.axis, self.largest = axis, largest

    def compute(self, a: Any) -> Any:
        from ...ndarray.array import from_numpy

        array = np.moveaxis(a.numpy(), self.axis, -1)
        best = (np.maximum if self.largest else np.minimum).accumulate(array, -1)
        hit = (array == best) | (np.isnan(array) if array.dtype.kind == "f" else False)
        at = np.maximum.accumulate(np.where(hit, np.arange(array.shape[-1]), 0), -1)
        return from_numpy(np.asarray(np.moveaxis(at, -1, self.axis), order="C"), int64, a.device)


def _latest(name: str, input: Any, dim: int, largest: bool) -> Any:
    x = check(name, input)
    result = getattr(named, name)
    if x.ndim == 0:
        return result(x.clone(), wrap(F.full((), 0, int64, x.home)))
    axis = axis_of(name, dim, x.ndim)
    at = _Latest(axis, largest)(x)
    return result(Gather(axis)(x, at), at)


@takes_out
def cummax(input: Any, dim: int) -> Any:
    """The largest element so far along an axis, and where it is."""
    return _latest("cummax", input, dim, True)


@takes_out
def cummin(input: Any, dim: int) -> Any:
    """The smallest element so far along an axis, and where it is."""
    return _latest("cummin", input, dim, False)


@takes_out
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, n times."""
    from .joining import cat

    x = check("diff", input)
    if n == 0:
        return x
    parts = [v for v in (prepend, x, append) if v is not None]
    x = cat(parts, dim) if len(parts) > 1 else x
    for _ in range(n):
        size = x.shape[dim]
        after, before = x.narrow(dim, 1, max(size - 1, 0)), x.narrow(dim, 0, max(size - 1, 0))
        x = C.logical_xor(after, before) if kind(x) is bool_ else after - before
    return x


def trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The area under y by the trapezoidal rule."""
    n = y.shape[dim]
    means = (y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1)) / 2
    return (means * dx if x is None else means * diff(x, dim=-1 if x.ndim == 1 else dim)).sum(dim)


trapz = trapezoid
