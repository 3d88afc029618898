"""Group normalisation as one operator: statistics of groups, then one line for each channel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from ...autograd import Tensor, TensorOp
from ...ndarray import functions as F
from ...tile.program import Program, Row, Symbol, program, row_mean, row_sum, rsqrt, square
from ..common import can_share
from ..fused import FusedTupleOp
from .layer_norm import layer_norm_by_definition

if TYPE_CHECKING:
    from ...ndarray.array import NDArray
    from ...types import Arrays


class GroupNorm(TensorOp):
    """y = w r (x - m) + b, with r and m as in `LayerNorm`, of each group

    x (N, G, K, P) has N samples of G groups of K channels of P places, w and b (1, G, K, 1).
    A channel of a sample is a row, y = f x + c with f = w r and c = b - f m.
    Equals `group_norm_by_definition`.
    """

    statistics: Sequence[NDArray] = ()  # m and r, (N, G, 1, 1): noted for the gradient

    def __init__(self, eps: float):
        self.eps = eps

    def compute(self, x: NDArray, w: NDArray, b: NDArray) -> NDArray:
        self.statistics = statistics_of(x, self.eps)
        return F.run(lines, x, *F.run_all(coefficients, *self.statistics, w, b), axes=(3,))

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, ...]:
        x, w, _ = node.inputs
        op = GroupNormGradient(self.eps)
        op.statistics = self.statistics
        return op(out_grad, x, w).tuple()


class GroupNormGradient(FusedTupleOp):
    """(dx, dw, db) of `GroupNorm`. With d = x - m and n = K P,

    dx = w r g - d r³ Σ wgd / n - r Σ wg / n,  dw = Σ r gd,  db = Σ g,

    the sums of dx over a group, the others over samples and places: all from those over places.
    """

    statistics: Sequence[NDArray] = ()  # as there; computed again if they are not known

    def __init__(self, eps: float):
        self.eps = eps

    def compute(self, g: NDArray, x: NDArray, w: NDArray) -> Arrays:
        known = can_share(self.statistics, x)
        mean, r = self.statistics if known else statistics_of(x, self.eps)
        # What belongs to a group is repeated for its channels: rows are then evenly spaced in all
        # operands, as quick loops need it.
        mean, of_g = F.run_all(for_channels, mean, r, w)
        by_g, by_gd = F.run_all(place_sums, g, x, mean, axes=(3,))
        factors = F.run_all(group_factors(x.shape[2] * x.shape[3]), by_g, by_gd, w, r, axes=(2,))
        of_d, of_one, dw = F.run_all(factors_for_channels, *factors, r, by_gd)
        dx = F.run(adjoint_lines, g, x, mean, of_g, of_d, of_one, axes=(3,))
        return dx, F.reduce("sum", dw, (0,), True), F.reduce("sum", by_g, (0,), True)

    def definition(self, g: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        z, _, var = layer_norm_by_definition(x, (2, 3), self.eps)
        h = g * w
        by_z = (h * z).mean((2, 3), keepdims=True)
        dx = (h - h.mean((2, 3), keepdims=True) - z * by_z) * (var + self.eps).rsqrt()
        return dx, (g * z).sum((0, 3), keepdims=True), g.sum((0, 3), keepdims=True)


def statistics_of(x: NDArray, eps: float) -> tuple[NDArray, ...]:
    """m and r. Where channels are innermost in memory, those of each channel come first."""
    if x.shape[2] == 1 or abs(x.strides[3]) <= abs(x.strides[2]):
        return F.run_all(group_statistics(eps), x, axes=(2, 3))
    return F.run_all(
        joined_statistics(eps), *F.run_all(channel_statistics, x, axes=(3,)), axes=(2,)
    )


@cache
def group_statistics(eps: float) -> Program:
    @program
    def group_statistics(x: Symbol) -> tuple[Symbol, ...]:
        mean = row_mean(x)
        return mean, rsqrt(row_mean(square(x - mean)) + eps)

    return group_statistics


@program
def channel_statistics(x: Symbol) -> tuple[Symbol, ...]:
    mean = row_mean(x)
    return mean, row_mean(square(x - mean))


@cache
def joined_statistics(eps: float) -> Program:
    """Those of a group, from the means and variances of its channels, which are a row."""

    @program
    def joined_statistics(means: Symbol, variances: Symbol) -> tuple[Symbol, ...]:
        mean = row_mean(means)
        return mean, rsqrt(row_mean(variances + square(means - mean)) + eps)

    return joined_statistics


@program
def coefficients(mean: Symbol, r: Symbol, w: Symbol, b: Symbol) -> tuple[Symbol, ...]:
    """f and c of a channel"""
    factor = r * w
    return factor, b - mean * factor


@program
def lines(x: Symbol, factor: Row, constant: Row) -> Symbol:
    return x * factor + constant


@program
def place_sums(g: Symbol, x: Symbol, mean: Row) -> tuple[Symbol, ...]:
    return row_sum(g), row_sum(g * (x - mean))


@program
def for_channels(mean: Symbol, r: Symbol, w: Symbol) -> tuple[Symbol, ...]:
    """The mean, and what g is multiplied with in dx"""
    return mean, r * w


@cache
def group_factors(count: int) -> Program:
    """What x - m and 1 are multiplied with in dx; a row is the channels of a group."""

    @program
    def group_factors(by_g: Symbol, by_gd: Symbol, w: Symbol, r: Row) -> tuple[Symbol, ...]:
        return r * r * r * row_sum(w * by_gd) / count, r * row_sum(w * by_g) / count

    return group_factors


@program
def factors_for_channels(
    of_d: Symbol, of_one: Symbol, r: Symbol, by_gd: Symbol
) -> tuple[Symbol, ...]:
    """The factors, and a sample's part of dw"""
    return of_d, of_one, r * by_gd


@program
def adjoint_lines(g: Symbol, x: Symbol, mean: Row, of_g: Row, of_d: Row, of_one: Row) -> Symbol:
    return of_g * g - of_d * (x - mean) - of_one


def group_norm(x: Tensor, eps: float, w: Tensor, b: Tensor) -> Tensor:
    """Each group of x (N, G, K, P) with mean 0 and deviation 1, times w, plus b (1, G, K, 1).

    All are of one dtype, float32 or float64."""
    return GroupNorm(eps)(x, w, b)


def group_norm_by_definition(x: Tensor, eps: float, w: Tensor, b: Tensor) -> Tensor:
    """The composite that `GroupNorm` equals."""
    return layer_norm_by_definition(x, (2, 3), eps)[0] * w + b
