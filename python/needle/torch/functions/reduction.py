"""Reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dtype import bool_, int64, uint8
from ...ops import compare as C, reduce as R
from ...ops.common import named as under_name
from ...ops.index.along_axis import Gather
from ...ops.network import softmax as S
from ..core.dtypes import dtype_in_engine as kind, in_engine
from . import named
from .arithmetic import maximum, minimum
from .common import as_floating, axes_of, axis_of, cast, check, fail, give, is_floating, takes_out
from .indexing import Picked

Dims = int | Sequence[int] | None


def spelled(dim: Any, keepdim: Any, named: dict[str, Any]) -> tuple[Any, Any]:
    """dim and keepdim, which NumPy calls axis and keepdims."""
    if "axis" in named:
        dim = named.pop("axis")
    if "keepdims" in named:
        keepdim = named.pop("keepdims")
    if named:
        raise TypeError(f"got an unexpected keyword argument {next(iter(named))!r}")
    return dim, bool(keepdim)


def _axes(op: str, x: Any, dim: Dims) -> tuple[int, ...] | None:
    """The axes as operators take them: None for all, which some treat differently."""
    found = axes_of(op, dim, x.ndim)
    return None if dim is None or (isinstance(dim, Sequence) and not dim) else found


def _summed(x: Any, dtype: Any) -> Any:
    return x if dtype is None else cast(x, in_engine(dtype))


def sum(
    input: Any,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any = None,
    **named: Any,
) -> Any:
    """The sum over axes; of integers in int64."""
    if named:
        dim, keepdim = spelled(dim, keepdim, named)
    x = _summed(check("sum", input), dtype)
    axes = None if dim is None else _axes("sum", x, dim)
    result = _as(R.Summation(axes, keepdim)(x), dtype)
    return result if out is None else give("sum", out, result)


def _as(x: Any, dtype: Any) -> Any:
    return x if dtype is None else cast(x, in_engine(dtype))


@takes_out
def nansum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum over axes, NaN as 0."""
    x = check("nansum", input)
    return sum(C.where(C.isnan(x), 0.0, x) if is_floating(x) else x, dim, keepdim, dtype=dtype)


def mean(
    input: Any,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any = None,
    **named: Any,
) -> Any:
    """The average over axes."""
    if named:
        dim, keepdim = spelled(dim, keepdim, named)
    x = _summed(check("mean", input), dtype)
    if not is_floating(x):
        raise fail(
            "mean",
            "could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {kind(x)}",
        )
    result = R.Mean(None if dim is None else _axes("mean", x, dim), keepdim)(x)
    return result if out is None else give("mean", out, result)


@takes_out
def nanmean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The average over axes of what is not NaN."""
    x = check("nanmean", input)
    count = sum(C.logical_not(C.isnan(x)), dim, keepdim)
    return nansum(x, dim, keepdim, dtype=dtype) / count


@takes_out
def prod(
    input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None, **named: Any
) -> Any:
    """The product of all elements, or along an axis."""
    dim, keepdim = spelled(dim, keepdim, named)
    x = _summed(check("prod", input), dtype)
    return _as(R.Prod(_axes("prod", x, dim), keepdim)(x), dtype)


def _correction(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    """PyTorch's two signatures: (unbiased), (dim, unbiased) and (dim, correction=)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        return dim, float(unbiased)
    return dim, 1.0 if correction is None else correction


def _spread(name: str, op: Any, doc: str) -> Callable[..., Any]:
    def function(
        input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None, **named: Any,
    ) -> Any:  # fmt: skip
        dim, keepdim = spelled(dim, keepdim, named)
        dim, free = _correction(dim, unbiased, correction)
        x = check(name, input)
        if not is_floating(x):
            raise fail(name, f"{name} only support floating point and complex dtypes")
        return op(_axes(name, x, dim), keepdim, free)(x)

    return takes_out(under_name(function, name, doc))


var = _spread("var", R.Var, "The variance over axes, with n - 1 in the divisor.")
std = _spread("std", R.Std, "The standard deviation over axes, with n - 1 in the divisor.")


def var_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, **rest: Any
) -> Any:
    """The variance and the average over axes."""
    over = None if isinstance(dim, bool) else dim
    return var(input, dim, unbiased, keepdim, **rest), mean(input, over, keepdim)


def std_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, **rest: Any
) -> Any:
    """The standard deviation and the average over axes."""
    over = None if isinstance(dim, bool) else dim
    return std(input, dim, unbiased, keepdim, **rest), mean(input, over, keepdim)


# Largest and smallest -----------------------------------------------------------------------------


def _arg(name: str, x: Any, dim: int | None, keepdim: bool) -> Any:
    if x.cached_data.size == 0 and (dim is None or x.shape[dim] == 0):
        raise IndexError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
        )
    along = None if dim is None else axis_of(name, dim, x.ndim)
    if kind(x) is bool_:
        x = cast(x, uint8)
    if dim is None and keepdim:
        return R.ArgReduce(name, None, False)(x).reshape((1,) * x.ndim)
    if x.ndim == 0:
        return R.ArgReduce(name, None, False)(x)
    return R.ArgReduce(name, along, keepdim)(x)


@takes_out
def argmax(input: Any, dim: int | None = None, keepdim: bool = False, **named: Any) -> Any:
    """Where the largest element is."""
    dim, keepdim = spelled(dim, keepdim, named)
    return _arg("argmax", check("argmax", input), dim, keepdim)


@takes_out
def argmin(input: Any, dim: int | None = None, keepdim: bool = False, **named: Any) -> Any:
    """Where the smallest element is."""
    dim, keepdim = spelled(dim, keepdim, named)
    return _arg("argmin", check("argmin", input), dim, keepdim)


def _extreme(name: str, arg: str, whole: Any, of_two: Any, doc: str) -> Callable[..., Any]:
    result = getattr(named, name)

    def function(input: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
        other = named.pop("other", None)
        dim, keepdim = spelled(dim, keepdim, named)
        x = check(name, input)
        if other is not None or hasattr(dim, "cached_data"):
            return of_two(x, dim if other is None else other)
        if dim is None:
            return _of_all(name, whole, x)
        at = _arg(arg, x, dim, True)
        values = _along(x, axis_of(name, dim, x.ndim), at)
        return result(*(_without(v, dim, x.ndim, keepdim) for v in (values, at)))

    return takes_out(under_name(function, name, doc))


def _along(x: Any, axis: int, at: Any) -> Any:
    if x.ndim == 0:
        return x.clone()
    return Gather(axis)(x, at)


def _without(x: Any, dim: int, ndim: int, keepdim: bool) -> Any:
    return x if keepdim or ndim == 0 else x.squeeze(dim)


def _of_all(name: str, op: Any, x: Any) -> Any:
    if x.cached_data.size == 0:
        raise fail(
            name,
            "Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument.",
        )
    return op()(x)


max = _extreme(
    "max", "argmax", R.Max, maximum, "The largest element; along an axis, also where it is."
)
min = _extreme(
    "min", "argmin", R.Min, minimum, "The smallest element; along an axis, also where it is."
)


def _shared(name: str, op: Any, doc: str) -> Callable[..., Any]:
    def function(input: Any, dim: Dims = (), keepdim: bool = False, **named: Any) -> Any:
        dim, keepdim = spelled(dim, keepdim, named)
        x = check(name, input)
        axes = axes_of(name, dim, x.ndim)
        if 0 in [x.shape[i] for i in axes]:
            raise IndexError(f"{name}(): Expected reduction dim to have non-zero size.")
        return op(axes, keepdim)(x)

    return takes_out(under_name(function, name, doc))


amax = _shared("amax", R.AMax, "The largest element over axes; equal ones share the gradient.")
amin = _shared("amin", R.AMin, "The smallest element over axes; equal ones share the gradient.")


def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element."""
    over: Any = () if dim is None else dim
    return named.aminmax(amin(input, over, keepdim), amax(input, over, keepdim))


# Truth --------------------------------------------------------------------------------------------


def _quantifier(name: str, op: Any, doc: str) -> Callable[..., Any]:
    def function(input: Any, dim: Dims = None, keepdim: bool = False, **named: Any) -> Any:
        dim, keepdim = spelled(dim, keepdim, named)
        x = check(name, input)
        result = op(_axes(name, x, dim), keepdim)(x)
        return cast(result, uint8) if kind(x) is uint8 else result

    return takes_out(under_name(function, name, doc))


any = _quantifier("any", R.AnyOf, "Is one element not zero?")
all = _quantifier("all", R.AllOf, "Are all elements not zero?")


def count_nonzero(input: Any, dim: Dims = None) -> Any:
    """How many elements are not zero."""
    return sum(C.not_equal(check("count_nonzero", input), 0), dim)


# Norms and logarithms -----------------------------------------------------------------------------


@takes_out
def logsumexp(input: Any, dim: Dims, keepdim: bool = False) -> Any:
    """ln Σ e^input over axes"""
    x = as_floating(check("logsumexp", input))
    axes = axes_of("logsumexp", dim, x.ndim)
    if not axes:
        return x.clone()
    return S.LogSumExp(axes, keepdim)(x)


@takes_out
def norm(
    input: Any, p: Any = "fro", dim: Dims = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """The p-norm of the elements."""
    x = _summed(check("norm", input), dtype)
    if not is_floating(x):
        raise fail(
            "norm", "linalg.vector_norm: Expected a floating point or complex tensor as input."
        )
    order = 2.0 if p in ("fro", None) else float(p)
    return vector_norm(x, order, axes_of("norm", dim, x.ndim), keepdim)


def vector_norm(x: Any, order: float, axes: tuple[int, ...], keepdim: bool) -> Any:
    """(Σ |x|^p)^(1/p)"""
    if order == math.inf:
        return R.AMax(axes, keepdim)(x.abs())
    if order == -math.inf:
        return R.AMin(axes, keepdim)(x.abs())
    if order == 0:
        return cast(sum(C.not_equal(x, 0), axes, keepdim), kind(x))
    if order == 1:
        return sum(x.abs(), axes, keepdim)
    if order == 2:
        return R.norm(x, 2, axes, keepdim)
    return _masked_root(sum(x.abs() ** order, axes, keepdim), order)


def _masked_root(total: Any, order: float) -> Any:
    zero = C.equal(total, 0)
    return C.where(zero, total, C.where(zero, 1.0, total) ** (1 / order))


@takes_out
def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of input - other"""
    return norm(input - other, p)


# Median and quantiles: of sorted values -----------------------------------------------------------


def _middle(name: str, input: Any, dim: int | None, keepdim: bool, ignores_nan: bool) -> Any:
    from .sorting import sort

    x = check(name, input)
    if dim is None:
        if x.cached_data.size == 0:
            return x.new_full((), math.nan)
        return _of_every(x, _middle(name, x.detach().reshape(-1), 0, False, ignores_nan)[0])
    ordered, order = sort(x, dim)
    n = x.shape[dim] if x.ndim else 1
    at = x.new_full(_one(x, dim), (n - 1) // 2, dtype=in_engine(int64))
    if is_floating(x):
        missing = sum(C.isnan(x), dim, True) if x.ndim else cast(C.isnan(x), int64)
        with_nan = (
            (n - 1 - missing) // 2
            if ignores_nan
            else C.where(C.greater(missing, 0), n - missing, at)
        )
        at = C.where(C.less(with_nan, 0), 0, with_nan)
    found = (gathered(v, dim, at) for v in (ordered, order))
    return getattr(named, name)(*(_without(v, dim, x.ndim, keepdim) for v in found))


def _of_every(x: Any, value: Any) -> Any:
    """A value that was found among all elements, with the gradient to those that equal it."""
    return Picked()(x, value)


def _one(x: Any, dim: int) -> tuple[int, ...]:
    return tuple(1 if i == dim % x.ndim else n for i, n in enumerate(x.shape)) if x.ndim else ()


def gathered(x: Any, dim: int, at: Any) -> Any:
    """x at positions along an axis; of a tensor without axes, its element."""
    return _along(x, axis_of("gather", dim, x.ndim), at)


@takes_out
def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element, of two the smaller one; along an axis, also where it is."""
    return _middle("median", input, dim, keepdim, False)


@takes_out
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle of the elements that are not NaN."""
    return _middle("nanmedian", input, dim, keepdim, True)


@takes_out
def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Any:  # fmt: skip
    """The element below which a share q of the others lies."""
    return _quantile(input, q, dim, keepdim, interpolation, False)


@takes_out
def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Any:  # fmt: skip
    """The same of the elements that are not NaN."""
    return _quantile(input, q, dim, keepdim, interpolation, True)


def _quantile(
    input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignores_nan: bool
) -> Any:
    from .creation import as_tensor
    from .sorting import sort

    x = check("quantile", input)
    share = as_tensor(q, dtype=x.dtype)
    if share.ndim > 1:
        raise fail("quantile", "q must be a scalar or 1D tensor")
    ndim, along = x.ndim, -1
    rows = x.reshape(-1) if dim is None or not ndim else x.movedim(dim, -1)
    ordered = sort(rows, -1)[0]
    count = sum(C.logical_not(C.isnan(rows)), along, True) if ignores_nan else None
    last = rows.shape[-1] - 1 if count is None else count - 1
    place = share.reshape(-1, *[1] * rows.ndim) * last
    found = _between(ordered, place, interpolation)
    if not ignores_nan:
        found = C.where(sum(C.isnan(rows), along, True) > 0, math.nan, found)
    found = found.squeeze(-1)
    if keepdim:
        found = (
            found.unsqueeze(dim % ndim + 1) if dim is not None else found.reshape(-1, *[1] * ndim)
        )
    return found if share.ndim else found.squeeze(0)


def _between(ordered: Any, place: Any, interpolation: str) -> Any:
    from .pointwise import ceil, floor, round
    from .shape import broadcast_to

    ways: dict[str, Any] = {"lower": floor, "higher": ceil, "nearest": round}
    shape = (place.shape[0], *ordered.shape[:-1], 1)
    rows = broadcast_to(ordered.unsqueeze(0), (place.shape[0], *ordered.shape))

    def at(position: Any) -> Any:
        limited = C.clip(cast(position, int64), 0, ordered.shape[-1] - 1)
        return Gather(rows.ndim - 1)(rows, broadcast_to(limited, shape))

    place = broadcast_to(place, shape)
    if interpolation in ways:
        return at(ways[interpolation](place))
    below, above = at(floor(place)), at(ceil(place))
    if interpolation == "midpoint":
        return (below + above) / 2
    return below + (above - below) * (place - floor(place))
