"""Order: sorting and what is made from it. NaN counts as the largest; equal elements keep order."""

from __future__ import annotations

from typing import Any

from ...autograd import Tensor, TensorOp
from ...ndarray import functions as F, layout
from ...ndarray.index import gather as select
from ..common import axis_or_dim, check_tensor, constant, one_of, reporting_as, whole_number
from ..compare import isnan, where
from ..elementwise import astype
from ..reduce import accumulator, averaged
from .along_axis import Gather
from .indexing import getitem

__all__ = ["ArgSort", "argsort", "sort", "topk", "median", "SearchSorted", "searchsorted", "unique"]


class ArgSort(TensorOp):
    """y = the order in which x increases (decreases) along an axis, or the first `count` of it"""

    differentiable = False

    def __init__(self, axis: int, descending: bool, count: int | None = None):
        self.axis = axis
        self.descending = descending
        self.count = count

    def compute(self, a: Any) -> Any:
        return F.argsort(a, self.axis, self.descending, self.count)


def _flattened(op: str, x: Tensor, axis: int | None) -> tuple[Tensor, int]:
    """x and a valid axis of it; for axis None the only axis of flat x."""
    check_tensor(op, x)
    if axis is None:
        return x.reshape((x.size,)), 0
    return x, layout.normalize_axis(axis, x.ndim, op)


def argsort(
    x: Tensor, axis: int | None = -1, descending: bool = False, *, dim: int | None = None
) -> Tensor:
    """The positions that put x in order along an axis (None: flattened); stable, int64."""
    x, axis = _flattened("argsort", x, axis_or_dim("argsort", axis, dim, -1))
    return ArgSort(axis, descending)(x)


def sort(
    x: Tensor, axis: int | None = -1, descending: bool = False, *, dim: int | None = None
) -> Tensor:
    """x in order along an axis (None: flattened)."""
    x, axis = _flattened("sort", x, axis_or_dim("sort", axis, dim, -1))
    return Gather(axis)(x, ArgSort(axis, descending)(x))


def topk(
    x: Tensor,
    k: int,
    axis: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest (smallest) elements along an axis, in order, and their positions.

    sorted changes nothing: they always are."""
    x, axis = _flattened("topk", x, axis_or_dim("topk", axis, dim, -1))
    if not 0 <= whole_number("topk", "k", k) <= x.shape[axis]:
        raise ValueError(f"[topk] expected k from 0 to {x.shape[axis]} (axis {axis}), got {k}.")
    first = ArgSort(axis, largest, k)(x)
    return Gather(axis)(x, first), first


@reporting_as("median")
def median(
    x: Tensor,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    dim: int | None = None,
    keepdim: bool = False,
) -> Tensor:
    """The middle element, or the mean of the two in the middle; NaN where there is one."""
    keepdims = keepdims or keepdim
    check_tensor("median", x)
    axis = one_of("median", axis=axis, dim=dim)
    ordered, along = _flattened("median", sort(x, axis), axis)
    n = ordered.shape[along]
    if n == 0:
        raise ValueError(f"[median] an empty axis has no median: shape {x.shape}, axis {axis}.")

    def at(position: int) -> Tensor:
        return getitem(ordered, (*[slice(None)] * along, position))

    middle = astype(at(n // 2), accumulator(x.dtype))
    if n % 2 == 0:  # in a wide type: the sum of two would not fit into the elements' own
        middle = (middle + at(n // 2 - 1)) / 2
    last = at(n - 1)
    middle = where(isnan(last), last, astype(middle, averaged(x.dtype)))
    if not keepdims:
        return middle
    shape = (1,) * x.ndim if axis is None else layout.reduced_shape(x.shape, (along,), True)
    return middle.reshape(shape)


class SearchSorted(TensorOp):
    """y = where each value would go into a sorted 1-D tensor"""

    differentiable = False

    def __init__(self, right: bool):
        self.right = right

    def compute(self, ordered: Any, values: Any) -> Any:
        return F.searchsorted(ordered, values, self.right)


def searchsorted(ordered: Tensor, values: Any, right: bool = False) -> Tensor:
    """Where values go into an ordered 1-D tensor: before equal elements, or behind (right)."""
    check_tensor("searchsorted", ordered)
    return SearchSorted(right)(ordered, constant(values, ordered, "searchsorted"))


def unique(x: Tensor, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """The distinct elements in order; with them, where each of x's went and how many there are.

    The shape depends on the data: x is computed now, and no gradient goes through.
    """
    data = check_tensor("unique", x).realize_cached_data()
    found = select.unique(data, return_inverse, return_counts)
    results = tuple(Tensor.make_const(array) for array in found)
    return results[0] if len(results) == 1 else results


METHODS = {f.__name__: f for f in (sort, argsort, topk, median, unique)}
