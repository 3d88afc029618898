"""Batch normalisation as one operator: of what it makes, only the result stays in memory."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from ...autograd import Tensor, TensorTuple, TensorTupleOp
from ...ndarray import functions as F
from ...tile.program import (
    Program,
    Row,
    Symbol,
    as_number,
    column_sum,
    program,
    row_mean,
    row_size,
    row_sum,
    rsqrt,
    square,
)
from ..common import check_tensor
from ..fused import FusedTupleOp, run_composites
from .layer_norm import column_moments, goes_by_columns, layer_norm_by_definition, other_axes

if TYPE_CHECKING:
    from ...ndarray.array import NDArray
    from ...types import Arrays


class BatchNorm(TensorTupleOp):
    """(y, m, v) with y = w r (x - m) + b and r, m, v as in `LayerNorm`, over axes

    w and b have size 1 along axes. Equals `batch_norm_by_definition`. Its gradient needs x, which
    the layer before keeps anyway, where a product with w would keep the layer_normd x too.
    """

    def __init__(self, axes: tuple[int, ...], eps: float):
        self.axes = axes
        self.eps = eps

    def compute(self, x: NDArray, w: NDArray, b: NDArray) -> Arrays:
        if not goes_by_columns(x, self.axes):
            return F.run_all(by_rows(self.eps), x, w, b, axes=self.axes)
        mean, var, scale = column_moments(x, self.axes, self.eps)
        return F.run(affine_deviation, x, mean, scale, w, b), mean, var

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> tuple[Tensor, ...]:
        x, w, _ = node.inputs
        g, g_mean, g_var = out_grad.tuple()
        _, mean, var = node.tuple()
        op = BatchNormGradient(self.axes, self.eps)
        return op(g, x, w, mean, var, g_mean, g_var).tuple()


class BatchNormGradient(FusedTupleOp):
    """(dx, dw, db) of `BatchNorm`, given the adjoints of y, m and v; d = x - m, n = their number

    dx = w r (g - mean g) - d (w r³ Σ gd - 2 g_v) / n + g_m / n,  dw = r Σ gd,  db = Σ g
    """

    def __init__(self, axes: tuple[int, ...], eps: float):
        self.axes = axes
        self.eps = eps

    def compute(
        self,
        g: NDArray,
        x: NDArray,
        w: NDArray,
        mean: NDArray,
        var: NDArray,
        g_mean: NDArray,
        g_var: NDArray,
    ) -> Arrays:
        if not goes_by_columns(x, self.axes):
            source = gradient_by_rows(self.eps)
            return F.run_all(source, g, x, w, mean, var, g_mean, g_var, axes=self.axes)
        sums = F.run_all(adjoint_sums, g, x, mean, axes=other_axes(x, self.axes))
        count = math.prod(x.shape[i] for i in self.axes)
        dw, *factors = F.run_all(adjoint_factors(count, self.eps), *sums, w, var, g_mean, g_var)
        return F.run(scaled_adjoint, g, x, mean, *factors), dw, sums[0]

    def definition(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return run_composites(gradient_by_rows(self.eps), *inputs, axes=self.axes)


@cache
def by_rows(eps: float) -> Program:
    @program
    def batch_norm(x: Symbol, w: Row, b: Row) -> tuple[Symbol, ...]:
        mean = row_mean(x)
        deviation = x - mean
        var = row_mean(square(deviation))
        return deviation * (rsqrt(var + eps) * w) + b, mean, var

    return batch_norm


@cache
def gradient_by_rows(eps: float) -> Program:
    @program
    def batch_norm_gradient(
        g: Symbol, x: Symbol, w: Row, mean: Row, var: Row, g_mean: Row, g_var: Row
    ) -> tuple[Symbol, ...]:
        r, d, count = rsqrt(var + eps), x - mean, as_number(row_size())
        by_g, by_gd = row_sum(g), row_sum(g * d)
        of_d = (w * r * r * r * by_gd - 2.0 * g_var) / count
        dx = w * r * g - d * of_d - (w * r * by_g - g_mean) / count
        return dx, r * by_gd, by_g

    return batch_norm_gradient


@program
def affine_deviation(x: Symbol, mean: Symbol, scale: Symbol, w: Symbol, b: Symbol) -> Symbol:
    return (x - mean) * (scale * w) + b


@program
def adjoint_sums(g: Symbol, x: Symbol, mean: Symbol) -> tuple[Symbol, ...]:
    return column_sum(g), column_sum(g * (x - mean))


@cache
def adjoint_factors(count: int, eps: float) -> Program:
    """dw, and what g, x - m and 1 are multiplied with in dx."""

    @program
    def adjoint_factors(
        by_g: Symbol, by_gd: Symbol, w: Symbol, var: Symbol, g_mean: Symbol, g_var: Symbol
    ) -> tuple[Symbol, ...]:
        r = rsqrt(var + eps)
        of_d = (w * r * r * r * by_gd - 2.0 * g_var) / count
        return r * by_gd, w * r, of_d, (w * r * by_g - g_mean) / count

    return adjoint_factors


@program
def scaled_adjoint(
    g: Symbol, x: Symbol, mean: Symbol, of_g: Symbol, of_d: Symbol, of_one: Symbol
) -> Symbol:
    return of_g * g - of_d * (x - mean) - of_one


def batch_norm(
    x: Tensor, axes: tuple[int, ...], eps: float, w: Tensor, b: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """x with mean 0 and deviation 1 over axes, times w, plus b; its mean and its variance.

    w and b have x's floating dtype, float32 or float64, and size 1 along axes."""
    y, mean, var = BatchNorm(axes, eps)(check_tensor("batch_norm", x), w, b).tuple()
    return y, mean, var


def batch_norm_by_definition(
    x: Tensor, axes: tuple[int, ...], eps: float, w: Tensor, b: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The composite that `BatchNorm` equals."""
    y, mean, var = layer_norm_by_definition(x, axes, eps)
    return y * w + b, mean, var
