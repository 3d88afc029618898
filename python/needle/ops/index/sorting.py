"""Order: sorting and what is made from it. NaN counts as the largest; equal elements keep order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from ...autograd import Tensor, TensorOp
from ...dtype import accumulator, averaged, dtype_of
from ...ndarray import functions as F, layout
from ...ndarray.index import gather as select
from ..common import (
    axis_or_dim,
    check_tensor,
    constant,
    either,
    flag,
    flat_or_along,
    kept,
    numpy_options,
    one_of,
    reporting_as,
    shaped,
    whole_number,
)
from ..compare import isnan, where
from ..elementwise import astype
from ..reduce import max, shared
from .along_axis import Gather
from .indexing import getitem

if TYPE_CHECKING:
    from ...types import Axes, Gradients, NDArray, TensorLike

__all__ = ["ArgSort", "argsort", "sort", "topk", "median", "SearchSorted", "searchsorted", "unique"]


class ArgSort(TensorOp):
    """y = the order in which x increases (decreases) along an axis, or the first `count` of it"""

    differentiable = False

    def __init__(self, axis: int, descending: bool, count: int | None = None):
        self.axis = axis
        self.descending = descending
        self.count = count

    def compute(self, a: NDArray) -> NDArray:
        return F.argsort(a, self.axis, self.descending, self.count)


def _check_order(op: str, kind: object, order: object, stable: bool | None) -> None:
    """NumPy's choice of an algorithm: ours is stable, which each of them may be."""
    if kind not in (None, "quicksort", "mergesort", "heapsort", "stable"):
        raise ValueError(
            f"[{op}] kind must be quicksort, mergesort, heapsort or stable, got {kind!r:.60}."
        )
    if order is not None:
        raise TypeError(f"[{op}] order={order!r:.60} is not supported; tensors have no fields.")
    if stable is not None:
        flag(op, "stable", stable)


def argsort(
    x: Tensor, axis: int | None = -1, descending: bool = False, *, dim: int | None = None,
    kind: str | None = None, order: None = None, stable: bool | None = None,
) -> Tensor:  # fmt: skip
    """The positions that put x in order along an axis (None: flattened); stable for each of NumPy's
    kinds, int64."""
    _check_order("argsort", kind, order, stable)
    axis = axis_or_dim("argsort", axis, dim, -1)
    rows, at = flat_or_along("argsort", x, axis)
    descending = flag("argsort", "descending", descending)
    return shaped(ArgSort(at, descending)(rows), x, axis)


def sort(
    x: Tensor, axis: int | None = -1, descending: bool = False, *, dim: int | None = None,
    kind: str | None = None, order: None = None, stable: bool | None = None,
) -> Tensor:  # fmt: skip
    """x in order along an axis (None: flattened); stable for each of NumPy's kinds."""
    _check_order("sort", kind, order, stable)
    axis = axis_or_dim("sort", axis, dim, -1)
    rows, at = flat_or_along("sort", x, axis)
    descending = flag("sort", "descending", descending)
    return shaped(Gather(at)(rows, ArgSort(at, descending)(rows)), x, axis)


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
    flag("topk", "sorted", sorted)
    axis = axis_or_dim("topk", axis, dim, -1)
    rows, at = flat_or_along("topk", x, axis)
    if not 0 <= whole_number("topk", "k", k) <= rows.shape[at]:
        raise ValueError(f"[topk] expected k from 0 to {rows.shape[at]} (axis {at}), got {k}.")
    first = ArgSort(at, flag("topk", "largest", largest), k)(rows)
    return shaped(Gather(at)(rows, first), x, axis), shaped(first, x, axis)


class Picked(TensorOp):
    """y = an element of x that was found outside of the graph; equal ones share the gradient"""

    def compute(self, a: NDArray, found: NDArray) -> NDArray:
        return found

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return shared(out_grad, node.inputs[0], node, None), None


@reporting_as("median")
def median(
    x: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    *,
    dim: Axes = None,
    keepdim: bool | None = None,
    out: None = None,
    overwrite_input: Literal[False] = False,
) -> Tensor:
    """The middle element over axes, or the mean of the two in the middle; NaN where there is one,
    and of nothing. Along axes, one of equal elements gets the gradient; over all, they share it."""
    numpy_options("median", {"out": out, "overwrite_input": overwrite_input})
    keepdims = kept("median", keepdims, keepdim)
    given = one_of("median", axis=axis, dim=dim)
    gone = layout.normalize_axes(given, check_tensor("median", x).ndim, "median")
    middle = _middle(*_as_one_axis(x, gone), shares=given is None)
    return middle.reshape(layout.reduced_shape(x.shape, gone, True)) if keepdims else middle


def _as_one_axis(x: Tensor, gone: tuple[int, ...]) -> tuple[Tensor, int]:
    """x with these axes as one, and where that is."""
    if len(gone) == 1:
        return x, gone[0]
    rest = [i for i in range(x.ndim) if i not in gone]
    sizes = [x.shape[i] for i in rest]
    return x.permute((*rest, *gone)).reshape(*sizes, math.prod(x.shape[i] for i in gone)), len(rest)


def _middle(x: Tensor, axis: int, shares: bool) -> Tensor:
    n, dtype = x.shape[axis], averaged(x.dtype)
    if n == 0:
        return astype(x.sum(axis), dtype) + math.nan
    ordered = sort(x.detach() if shares else x, axis)

    def at(position: int) -> Tensor:
        found = getitem(ordered, (*[slice(None)] * axis, position))
        return Picked()(x, found) if shares else found

    middle = astype(at(n // 2), accumulator(x.dtype))
    if n % 2 == 0:  # in a wide type: the sum of two would not fit into the elements' own
        middle = (middle + at(n // 2 - 1)) / 2
    largest = at(n - 1) if shares else max(x, axis)  # whose gradient the first NaN gets
    return where(isnan(largest), largest, astype(middle, dtype))


class SearchSorted(TensorOp):
    """y = where each value would go into a sorted 1-D tensor"""

    differentiable = False

    def __init__(self, right: bool):
        self.right = right

    def compute(self, ordered: NDArray, values: NDArray) -> NDArray:
        return F.searchsorted(ordered, values, self.right)


def searchsorted(
    ordered: Tensor, values: TensorLike | None = None, right: bool | None = None, *,
    side: str | None = None, sorter: TensorLike | None = None, v: TensorLike | None = None,
) -> Tensor:  # fmt: skip
    """Where values (or v) go into an ordered 1-D tensor: before equal elements, or behind them for
    right=True, or side="right". sorter: positions that put the tensor in order."""
    check_tensor("searchsorted", ordered)
    if side not in (None, "left", "right"):
        raise ValueError(f"[searchsorted] side must be 'left' or 'right', got {side!r:.60}.")
    behind = right is not None and flag("searchsorted", "right", right)
    if behind and side == "left":
        raise ValueError("[searchsorted] expected right=True or side='left', got both.")
    wanted = constant(either("searchsorted", values=values, v=v), ordered, "searchsorted")
    rows = ordered if sorter is None else _in_order(ordered, sorter)
    return SearchSorted(behind or side == "right")(rows, wanted)


@reporting_as("searchsorted")
def _in_order(x: Tensor, sorter: object) -> Tensor:
    found = constant(sorter, x)
    if found.shape != x.shape or not dtype_of(found.dtype).is_integer:
        raise ValueError(
            f"[searchsorted] sorter must be positions of shape {x.shape}, got {found.dtype} of "
            f"shape {found.shape}."
        )
    return getitem(x, found)


def unique(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, *,
    return_index: bool = False, axis: int | None = None, dim: int | None = None,
    equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """The distinct elements, or slices along an axis, in order (which sorted=False leaves open).
    With them, where each one is first (return_index), which one each of x's is (return_inverse),
    and how many there are (return_counts). With equal_nan, NaN equals NaN.

    The shape depends on the data: x is computed now, and no gradient goes through.
    """
    flag("unique", "sorted", sorted)
    data = check_tensor("unique", x).realize_cached_data()
    given = one_of("unique", axis=axis, dim=dim)
    along = None if given is None else layout.normalize_axis(given, x.ndim, "unique")
    asked = {"return_index": return_index, "return_inverse": return_inverse,
             "return_counts": return_counts, "equal_nan": equal_nan}  # fmt: skip
    found = select.unique(data, along, *(flag("unique", *item) for item in asked.items()))
    results = tuple(Tensor.make_const(array) for array in found)
    return results[0] if len(results) == 1 else results


METHODS = {f.__name__: f for f in (sort, argsort, topk, median, unique)}
