"""Subtracting a mean and dividing by a deviation: what every normalisation layer is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from ...autograd import Op, Tensor, TensorOp, TensorTuple, TensorTupleOp
from ...dtype import DType, dtype_of, float32, float64
from ...ndarray import functions as F
from ...tile.program import (
    Program,
    Row,
    Symbol,
    as_number,
    cast,
    column_sum,
    maximum,
    program,
    row_mean,
    row_size,
    rsqrt,
    square,
    trace,
)
from ..common import can_share, check_tensor
from ..fused import FusedOp, FusedTupleOp, run_composite, run_composites
from ..reduce import accumulator, averaged

if TYPE_CHECKING:
    from ...ndarray.array import NDArray
    from ...types import Arrays


class LayerNorm(TensorTupleOp):
    """(y, m, v) with y = r (x - m),  r = 1 / √(v + ε),  m = mean x,  v = mean (x - m)²

    Not centred, m = 0: y = x / √(mean x² + ε). One operator equal to `layer_norm_by_definition`.
    With the means over the n elements that share m and v, and adjoints g, g_m, g_v:

    dx = r (g - mean g - y mean gy) + g_m / n + 2 y g_v / (n r)
    """

    def __init__(self, axes: tuple[int, ...], eps: float, centred: bool = True):
        self.axes = axes
        self.eps = eps
        self.centred = centred

    def compute(self, a: NDArray) -> Arrays:
        dtype = averaged(a.dtype)
        if self.centred and goes_by_columns(a, self.axes):
            mean, var, scale = column_moments(a, self.axes, self.eps)
            return F.run(scaled_deviation, a, mean, scale), mean, var
        source = layer_norm_program(self.eps, self.centred, accumulator(dtype))
        return F.run_all(source, F.cast(a, dtype), axes=self.axes)

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Tensor:
        g, g_mean, g_var = out_grad.tuple()
        y, _, var = node.tuple()
        op = LayerNormGradient(self.axes, self.eps, self.centred)
        return op(g, y, var, g_mean, g_var)


class LayerNormGradient(FusedOp):
    """dx = r (g - mean g - y mean gy) + g_m / n + 2 y g_v / (n r)"""

    def __init__(self, axes: tuple[int, ...], eps: float, centred: bool):
        self.axes = axes
        self.eps = eps
        self.centred = centred

    def compute(
        self, g: NDArray, y: NDArray, var: NDArray, g_mean: NDArray, g_var: NDArray
    ) -> NDArray:
        if self.centred and goes_by_columns(y, self.axes):
            sums = F.run_all(adjoint_sums, g, y, axes=other_axes(y, self.axes))
            count = math.prod(y.shape[i] for i in self.axes)
            factors = F.run_all(adjoint_factors(count, self.eps), *sums, var, g_mean, g_var)
            return F.run(scaled_adjoint, g, y, *factors)
        source = layer_norm_gradient(self.eps, self.centred)
        return F.run(source, g, y, var, g_mean, g_var, axes=self.axes)

    def definition(self, *inputs: Tensor) -> Tensor:
        source = layer_norm_gradient(self.eps, self.centred)
        return run_composite(source, *inputs, axes=self.axes)


@cache
def layer_norm_program(eps: float, centred: bool, statistics: DType) -> Program:
    @program
    def layer_norm(x: Symbol) -> tuple[Symbol, ...]:
        deviation = x - row_mean(x) if centred else x
        var = row_mean(square(deviation))
        mean = row_mean(x) if centred else var * 0.0
        return deviation * rsqrt(var + eps), cast(mean, statistics), cast(var, statistics)

    return layer_norm


@cache
def layer_norm_gradient(eps: float, centred: bool) -> Program:
    @program
    def layer_norm_gradient(g: Symbol, y: Symbol, var: Row, g_mean: Row, g_var: Row) -> Symbol:
        scale = rsqrt(var + eps)
        count = as_number(row_size())
        by_y = scale * row_mean(g * y) - g_var * 2.0 / (count * scale)
        if not centred:
            return scale * g - y * by_y
        return scale * g - y * by_y - (scale * row_mean(g) - g_mean / count)

    return layer_norm_gradient


# By columns --------------------------------------------------------------------------------------


def goes_by_columns(a: NDArray, axes: Sequence[int]) -> bool:
    """Do elements that share a mean lie further apart in memory than those that do not? Channels
    that are innermost, for one: rows across them would jump from line to line."""
    if a.dtype not in (float32, float64) or a.size == 0:
        return False
    steps = [abs(s) for s in a.strides]
    shared = [steps[i] for i in axes if a.shape[i] != 1]
    others = [steps[i] for i in other_axes(a, axes) if a.shape[i] != 1]
    return bool(shared and others) and max(others) < min(shared)


def other_axes(a: NDArray, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(i for i in range(a.ndim) if i not in axes)


def column_moments(a: NDArray, axes: Sequence[int], eps: float) -> tuple[NDArray, ...]:
    """m, v and r of `LayerNorm`, in one pass over memory in its own order.

    The sums are of x - p for an element p of each mean, so that squares do not cancel. At worst p
    holds all of the variance: it lies √(n - 1) deviations from the mean of n elements, no element
    can lie further, and the variance is off by n roundings."""
    first = tuple(slice(0, 1) if i in axes else slice(None) for i in range(a.ndim))
    pivot = a[first]
    sums = F.run_all(shifted_sums, a, pivot, axes=other_axes(a, axes))
    count = math.prod(a.shape[i] for i in axes)
    return F.run_all(moments(count, eps), *sums, pivot)


@program
def shifted_sums(x: Symbol, pivot: Symbol) -> tuple[Symbol, ...]:
    deviation = x - pivot
    return column_sum(deviation), column_sum(square(deviation))


@cache
def moments(count: int, eps: float) -> Program:
    """m, v and r of `LayerNorm`, from the sums of n deviations from a pivot and of squares."""

    @program
    def moments(total: Symbol, squares: Symbol, pivot: Symbol) -> tuple[Symbol, ...]:
        mean = total / count
        var = maximum(squares / count - square(mean), 0.0)
        return pivot + mean, var, rsqrt(var + eps)

    return moments


@program
def scaled_deviation(x: Symbol, mean: Symbol, scale: Symbol) -> Symbol:
    return (x - mean) * scale


@program
def adjoint_sums(g: Symbol, y: Symbol) -> tuple[Symbol, ...]:
    return column_sum(g), column_sum(g * y)


@cache
def adjoint_factors(count: int, eps: float) -> Program:
    """What g, y and 1 are multiplied with in the gradient of `LayerNorm`."""

    @program
    def adjoint_factors(
        by_g: Symbol, by_gy: Symbol, var: Symbol, g_mean: Symbol, g_var: Symbol
    ) -> tuple[Symbol, ...]:
        scale = rsqrt(var + eps)
        of_y = (scale * by_gy - 2.0 * g_var / scale) / count
        return scale, of_y, (scale * by_g - g_mean) / count

    return adjoint_factors


@program
def scaled_adjoint(g: Symbol, y: Symbol, of_g: Symbol, of_y: Symbol, of_one: Symbol) -> Symbol:
    return of_g * g - of_y * y - of_one


def layer_norm(
    x: Tensor, axes: Sequence[int], eps: float, centred: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """x with mean 0 and deviation 1 over axes, its mean and its variance (axes kept, size 1)."""
    y, mean, var = LayerNorm(tuple(axes), eps, centred)(check_tensor("layer_norm", x)).tuple()
    return y, mean, var


def layer_norm_by_definition(
    x: Tensor, axes: Sequence[int], eps: float, centred: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """The composite that `LayerNorm` equals."""
    source = layer_norm_program(eps, centred, dtype_of(x.dtype))
    y, mean, var = run_composites(source, x, axes=tuple(axes))
    return y, mean, var


class _OverLastAxes(Op):
    """The parameters of the two operators below."""

    def __init__(self, n_axes: int, eps: float, centred: bool, weighted: bool, shifted: bool):
        self.n_axes = n_axes
        self.eps = eps
        self.centred = centred
        self.weighted = weighted
        self.shifted = shifted

    def axes(self, ndim: int) -> tuple[int, ...]:
        return tuple(range(ndim - self.n_axes, ndim))


class AffineNorm(_OverLastAxes, TensorOp):
    """y = w z + b with z = r (x - m) as in `LayerNorm`, over the last axes, which w and b have

    dx = r (h - mean h - z mean hz) with h = g w,  dw = Σ g z,  db = Σ g, sums over all other axes.
    Equals `affine_norm_by_definition`. w, or b, or both may be left out.
    """

    statistics: Sequence[NDArray] = ()  # m (if centred) and r: noted for the gradient

    def compute(self, x: NDArray, *affine: NDArray) -> NDArray:
        kind = self.eps, self.centred, accumulator(x.dtype)
        source = affine_norm_program(*kind, self.weighted, self.shifted)
        y, *self.statistics = F.run_all(source, x, *affine, axes=self.axes(x.ndim))
        return y

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, ...]:
        x, *affine = node.inputs
        op = AffineNormGradient(self.n_axes, self.eps, self.centred, self.weighted, self.shifted)
        op.statistics = self.statistics
        return op(out_grad, x, *affine[: self.weighted]).tuple()


class AffineNormGradient(_OverLastAxes, FusedTupleOp):
    """(dx, dw, db) of `AffineNorm`, without those of what was left out"""

    statistics: Sequence[NDArray] = ()  # as there; computed again if they are not known

    def compute(self, g: NDArray, x: NDArray, *weight: NDArray) -> Arrays:
        source = affine_norm_gradient(self.centred, self.weighted, self.shifted)
        axes = self.axes(x.ndim)
        rows = self.statistics
        if not can_share(rows, x):
            kind = self.eps, self.centred, accumulator(x.dtype)
            _, *rows = F.run_all(affine_norm_program(*kind, False, False), x, axes=axes)
        found = F.run_all(source, g, x, *rows, *weight, axes=axes)
        if not (self.weighted or self.shifted):
            return (found,)  # type: ignore[return-value]
        dx, *sums = found
        return dx, *[F.cast(F.reshape(v, v.shape[x.ndim - self.n_axes :]), x.dtype) for v in sums]

    def definition(self, g: Tensor, x: Tensor, *weight: Tensor) -> tuple[Tensor, ...]:
        axes = self.axes(x.ndim)
        forward = affine_norm_program(self.eps, self.centred, dtype_of(x.dtype), False, False)
        _, *rows = run_composites(forward, x, axes=axes)
        source = affine_norm_gradient(self.centred, self.weighted, self.shifted)
        found = run_composites(source, g, x, *rows, *weight, axes=axes)
        if isinstance(found, Tensor):
            return (found,)
        dx, *sums = found
        return dx, *[v.reshape(v.shape[x.ndim - self.n_axes :]) for v in sums]


@cache
def affine_norm_program(
    eps: float, centred: bool, statistics: DType, weighted: bool, shifted: bool
) -> Program:
    def affine_norm(x: Symbol, *affine: Symbol) -> tuple[Symbol, ...]:
        mean = [row_mean(x)] if centred else []
        deviation = x - mean[0] if centred else x
        scale = rsqrt(row_mean(square(deviation)) + eps)
        y = deviation * scale
        if weighted:
            y = y * affine[0]
        y = y + affine[-1] if shifted else y
        return y, *(cast(v, statistics) for v in (*mean, scale))

    return trace(affine_norm, "affine_norm", ["x"] + ["weight"] * weighted + ["bias"] * shifted)


@cache
def affine_norm_gradient(centred: bool, weighted: bool, shifted: bool) -> Program:
    def affine_norm_gradient(g: Symbol, x: Symbol, *rest: Symbol) -> tuple[Symbol, ...]:
        scale = rest[centred]
        z = (x - rest[0]) * scale if centred else x * scale
        h = g * rest[-1] if weighted else g
        dx = h - z * row_mean(h * z)
        if centred:
            dx = dx - row_mean(h)
        sums = [column_sum(g * z)] * weighted + [column_sum(g)] * shifted
        return cast(dx * scale, x), *sums

    rows = ["mean"] * centred + ["scale"]
    names = ["g", "x", *rows] + ["weight"] * weighted
    kinds = ["row" if name in rows else "full" for name in names]
    return trace(affine_norm_gradient, "affine_norm_gradient", names, kinds)


def affine_norm(
    x: Tensor, n_axes: int, eps: float, centred: bool, weight: Tensor | None, bias: Tensor | None
) -> Tensor:
    """x with mean 0 (if centred) and deviation 1 over its last axes, times weight, plus bias."""
    affine = [p for p in (weight, bias) if p is not None]
    op = AffineNorm(n_axes, eps, centred, weight is not None, bias is not None)
    form = x.shape[x.ndim - n_axes :], averaged(x.dtype)
    if form[1] == x.dtype and [(p.shape, p.dtype) for p in affine] == [form] * len(affine):
        return op(check_tensor("affine_norm", x), *affine)
    y, _, _ = layer_norm(x, op.axes(x.ndim), eps, centred)
    return apply_affine(y, weight, bias)


def apply_affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """y weight + bias, which broadcast against the last axes and may be None."""
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def affine_norm_by_definition(
    x: Tensor, n_axes: int, eps: float, centred: bool, weight: Tensor | None, bias: Tensor | None
) -> Tensor:
    """The composite that `AffineNorm` equals."""
    axes = range(x.ndim - n_axes, x.ndim)
    return apply_affine(layer_norm_by_definition(x, axes, eps, centred)[0], weight, bias)
