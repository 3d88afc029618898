"""Reductions with NumPy's keywords: in another dtype, of some of the elements, with one more.

They are made of the plain reductions, whose gradients they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ...autograd import Tensor
from ...dtype import DType, accumulator, averaged, bool_, dtype_of, summed
from ...ndarray import functions as F, layout
from ...ndarray.array import NDArray, as_scalar
from ..common import Scalar, constant, flag, numpy_options
from ..compare import equal, maximum, where

if TYPE_CHECKING:
    from ...ops.reduce import Reduction
    from ...types import Axes, DTypeLike, TensorLike


class Reduced(TypedDict, total=False):
    """NumPy's keywords of reductions: see KEYWORDS_DOC."""

    dtype: DTypeLike | None
    where: TensorLike
    initial: Scalar
    out: None


class Spread(TypedDict, total=False):
    """Those of variances."""

    dtype: DTypeLike | None
    where: TensorLike
    mean: TensorLike
    out: None


KEYWORDS_DOC = {
    "dtype": "dtype: the type in which it is computed, and of the result.",
    "where": "where: bools that broadcast to a; only elements at which they are true count.",
    "initial": "initial: a number that counts as one more element.",
}


def reduce_with(
    op: type[Reduction], a: Tensor, axes: Axes, keepdims: bool, numpy: Mapping[str, object]
) -> Tensor:
    """op(axes, keepdims)(a) with NumPy's keywords."""
    given = numpy_options(op.name, numpy, *op.keywords)
    dtype, initial = given.get("dtype"), given.get("initial")
    x = a if dtype is None else a.astype(dtype)
    mask = mask_of(op.name, given.get("where", True), x)
    if initial is not None:
        kind = dtype_of(x.dtype)
        initial = _checked(op.name, initial, kind if op.identity is None else summed(kind))
    if mask is not None:
        rest = initial if op.identity is None else op.identity
        if rest is None:
            raise ValueError(f"[{op.name}] expected initial beside where: all may be left out.")
        x = where(mask, x, rest)
    gone = layout.normalize_axes(axes, x.ndim, op.name)
    if initial is not None and op.identity is None and 0 in (x.shape[i] for i in gone):
        result = x.sum(axes, keepdims).astype(x.dtype) + initial  # the only element
    else:
        result = op(axes, keepdims)(x)
        result = result if initial is None else op.of_two(result, initial)
    return result if dtype is None else result.astype(dtype)


def mean_with(
    op: type[Reduction], a: Tensor, axes: Axes, keepdims: bool, numpy: Mapping[str, object]
) -> Tensor:
    """The same for a mean, which is divided by the number of elements that count."""
    given = numpy_options(op.name, numpy, *op.keywords)
    x = _in_floats(op.name, a, given.get("dtype"))
    mask = mask_of(op.name, given.get("where", True), x)
    return _mean(x.astype(accumulator(x.dtype)), mask, axes, keepdims).astype(averaged(x.dtype))


def var_with(
    op: str, a: Tensor, axes: Axes, keepdims: bool, correction: float, numpy: Mapping[str, object]
) -> Tensor:
    """The same for a variance, also around a mean that is given."""
    given = numpy_options(op, numpy, "dtype", "where", "mean")
    x = _in_floats(op, a, given.get("dtype"))
    mask, wide = mask_of(op, given.get("where", True), x), x.astype(accumulator(x.dtype))
    centre = given.get("mean")
    if centre is None:
        centre = _mean(wide, mask, axes, True)
    centre = constant(centre, wide, op)
    if layout.broadcast_shapes(op, centre.shape, x.shape) != x.shape:
        raise ValueError(f"[{op}] mean must broadcast to {x.shape}, got {centre.shape}.")
    mask = constant(np.asarray(True), x, op) if mask is None else mask
    squares = where(mask, wide - centre, 0).square()
    freedom = maximum(_count(mask, x, axes, keepdims) - correction, 0)
    variance = (squares.sum(axes, keepdims) / freedom).astype(averaged(x.dtype))
    return variance if op == "var" else _root(variance)


def mask_of(op: str, mask: object, x: Tensor) -> Tensor | None:
    """NumPy's `where` of a reduction: bools that broadcast to x; None for all of x."""
    if mask is True:
        return None
    given = mask if isinstance(mask, (Tensor, NDArray)) else np.asarray(mask)
    if given.dtype != "bool":
        raise TypeError(f"[{op}] where must be a mask of bools, got {given.dtype}.")
    found = constant(given, x, op)
    if layout.broadcast_shapes(op, found.shape, x.shape) != x.shape:
        raise ValueError(f"[{op}] where must broadcast to {x.shape}, got {found.shape}.")
    return found


def _mean(x: Tensor, mask: Tensor | None, axes: Axes, keepdims: bool) -> Tensor:
    if mask is None:
        return x.mean(axes, keepdims)
    return where(mask, x, 0).sum(axes, keepdims) / _count(mask, x, axes, keepdims)


def _count(mask: Tensor, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    """How many elements count, in x's dtype or a wider one."""
    return mask.broadcast_to(x.shape).sum(axes, keepdims).astype(accumulator(x.dtype))


def _in_floats(op: str, a: Tensor, dtype: DTypeLike | None) -> Tensor:
    if dtype is None:
        return a
    if not dtype_of(dtype).is_floating:
        raise TypeError(f"[{op}] dtype must be a floating one, got {dtype_of(dtype)}.")
    return a.astype(dtype)


def _checked(op: str, initial: object, dtype: DType) -> Scalar:
    """The number, if it is of the elements' kind."""
    number = as_scalar(initial, op)
    if dtype is bool_:
        return flag(op, "initial", number)
    if isinstance(number, float) and not dtype.is_floating:
        raise TypeError(f"[{op}] expected a whole number as initial for {dtype}, got {number}.")
    F.check_fits(op, dtype, number)
    return number


def _root(x: Tensor) -> Tensor:
    """√x, with a gradient of 0 where x is 0."""
    zero = equal(x, 0)
    return where(zero, 0, where(zero, 1, x).sqrt())
