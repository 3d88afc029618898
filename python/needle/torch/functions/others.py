"""Functions that few programs use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...dtype import float64
from ...ops import compare as C
from ...ops.common import named as under_name
from ..core.dtypes import dtype_in_engine as kind
from . import indexing as I, joining as J, shape as S
from .common import as_floating, axis_of, cast, check, fail
from .creation import empty_strided, from_numpy, zeros
from .reduction import vector_norm

Function = Callable[..., Any]


def _copied(name: str, function: Function) -> Function:
    """The function of a view, as a copy."""

    def copy(*args: Any, **options: Any) -> Any:
        result = function(*args, **options)
        if isinstance(result, tuple):
            return tuple([S.clone(x) for x in result])
        return S.clone(result)

    return under_name(copy, f"{name}_copy", f"A copy of {name}(...).")


def alias(input: Any) -> Any:
    """input itself, as another value"""
    return S.reshape(input, tuple(input.shape))


def slice_of(
    input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """A slice of an axis."""
    axis = axis_of("slice", dim, input.ndim)
    return input[(*[slice(None)] * axis, slice(start, end, step))]


(
    alias_copy, as_strided_copy, detach_copy, diagonal_copy, expand_copy, narrow_copy, permute_copy,
    select_copy, slice_copy, split_copy, split_with_sizes_copy, squeeze_copy, t_copy,
    transpose_copy, unbind_copy, unfold_copy, unsqueeze_copy, view_copy,
) = (
    _copied(name, function) for name, function in (
        ("alias", alias), ("as_strided", S.as_strided), ("detach", lambda x: x.detach()),
        ("diagonal", S.diagonal), ("expand", S.expand), ("narrow", S.narrow),
        ("permute", S.permute), ("select", S.select), ("slice", slice_of), ("split", J.split),
        ("split_with_sizes", J.split_with_sizes), ("squeeze", S.squeeze), ("t", S.t),
        ("transpose", S.transpose), ("unbind", J.unbind), ("unfold", S.unfold),
        ("unsqueeze", S.unsqueeze), ("view", S.view),
    )
)  # fmt: skip
unsafe_chunk, unsafe_split, unsafe_split_with_sizes = J.chunk, J.split, J.split_with_sizes


def as_strided_scatter(
    input: Any,
    src: Any,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Any:
    """A copy with src at the elements that strides name."""
    data = check("as_strided_scatter", input).cached_data
    if not data.is_row_major() or (storage_offset is not None and data.offset):
        raise fail(
            "as_strided_scatter",
            "the input is a part of other memory, which strides would count in; pass a contiguous "
            "clone(), and strides in that.",
        )
    result = input.clone()
    S.as_strided(result, size, stride, storage_offset).copy_(src)
    return result


def fill(input: Any, value: Any) -> Any:
    """input's shape, filled with a number"""
    return input.clone().fill_(value)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Positions in the flat tensor as positions on each axis."""
    sizes = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    found = np.unravel_index(check("unravel_index", indices).numpy(), sizes)
    return tuple(from_numpy(np.asarray(a, np.int64)) for a in found)


def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """Slices of an axis, scaled down to a norm where theirs is larger."""
    axis = axis_of("renorm", dim, check("renorm", input).ndim)
    others = tuple(i for i in range(input.ndim) if i != axis)
    norms = vector_norm(input, float(p), others, True)
    factor = C.where(C.greater(norms, maxnorm), maxnorm / (norms + 1e-7), 1.0)
    return input * factor


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The area under y so far, by the trapezoidal rule."""
    from .sorting import cumsum, diff

    n = y.shape[dim]
    means = (S.narrow(y, dim, 1, n - 1) + S.narrow(y, dim, 0, n - 1)) / 2
    widths = dx if x is None else diff(x, dim=-1 if x.ndim == 1 else dim)
    return cumsum(means * widths, dim)


def gradient(input: Any, *, spacing: Any = 1.0, dim: Any = None, edge_order: int = 1) -> list[Any]:
    """Derivatives along axes by differences of neighbours that lie `spacing` apart."""
    axes = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    steps = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(list(axes))
    return [_slope(input, axis, step, edge_order) for axis, step in zip(axes, steps, strict=True)]


def _slope(x: Any, axis: int, step: Any, edge_order: int) -> Any:
    if hasattr(step, "detach") and step.ndim:
        raise NotImplementedError("torch.gradient: coordinates are not supported; give a number.")
    if edge_order != 1:
        raise NotImplementedError(
            "torch.gradient: expected edge_order=1; edges of order 2 are missing."
        )
    x, n, h = as_floating(x), x.shape[axis], float(step)
    first = (S.narrow(x, axis, 1, 1) - S.narrow(x, axis, 0, 1)) / h
    last = (S.narrow(x, axis, n - 1, 1) - S.narrow(x, axis, n - 2, 1)) / h
    inner = (S.narrow(x, axis, 2, n - 2) - S.narrow(x, axis, 0, n - 2)) / (2 * h)
    return J.cat([first, inner, last], axis)


def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """The first `size` positions of elements that are not zero; fill_value where there are less."""
    found = I.nonzero(input)
    result = zeros(size, found.shape[1], dtype=found.dtype) + fill_value
    count = min(size, found.shape[0])
    result[:count] = found[:count]
    return result


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Any:
    """Memory of a shape, with its axes in this order in memory."""
    strides, step = [0] * len(size), 1
    for axis in reversed(physical_layout):
        strides[axis], step = step, step * size[axis]
    return empty_strided(size, strides, **options)


def mvlgamma(input: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function."""
    from ..special.functions import multigammaln

    if bool((input <= (p - 1) / 2).any()):
        raise fail("mvlgamma", "All elements must be greater than (p-1)/2")
    return multigammaln(input, p)


def resize_as_(input: Any, the_template: Any, *, memory_format: object = None) -> Any:
    """Give input another tensor's shape; new elements are not set."""
    return input.resize_(tuple(the_template.shape))


def is_distributed(input: object) -> bool:
    """No."""
    return False


def igamma(input: Any, other: Any) -> Any:
    """The regularised lower incomplete gamma function, without a gradient: by its series, or one
    minus its continued fraction."""
    a, x = np.broadcast_arrays(input.detach().numpy(), other.detach().numpy())
    found = np.vectorize(_lower_gamma, otypes=[np.float64])(a, x)
    return cast(from_numpy(np.asarray(found)), kind(input))


def igammac(input: Any, other: Any) -> Any:
    """1 - igamma"""
    return 1 - igamma(cast(input, float64), cast(other, float64)).to(input.dtype)


def _lower_gamma(a: float, x: float) -> float:
    if x < 0 or a < 0 or (a == 0 and x == 0):
        return math.nan
    if a == 0 or math.isinf(x):
        return math.nan if math.isinf(a) and math.isinf(x) else 1.0
    if x == 0 or math.isinf(a):
        return 0.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        k = a
        while abs(term) > abs(total) * 1e-17:
            k += 1
            term *= x / k
            total += term
        return scale * total
    return 1 - scale * _fraction(a, x)


def _fraction(a: float, x: float) -> float:
    """Lentz's evaluation of the continued fraction of the upper incomplete gamma function."""
    b = x + 1 - a
    c, d = 1e300, 1 / b
    value = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b or 1e-300)
        c = b + step / c or 1e-300
        value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return value
