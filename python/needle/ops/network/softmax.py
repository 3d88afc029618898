"""Softmax and its relatives. The largest element is taken out first: exp never overflows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ...autograd import Tensor, TensorOp
from ...ndarray import functions as F, layout
from ...tile.program import (
    Row,
    Symbol,
    equal as is_equal,
    exp,
    isfinite,
    log,
    logical_and,
    logical_not,
    program,
    row_max,
    row_sum,
    where as choose,
)
from ..common import check_tensor, one_of
from ..fused import FusedOp
from ..reduce import Reduction, in_floats, over_axes

if TYPE_CHECKING:
    from ...types import Axes, NDArray

__all__ = ["LogSumExp", "logsumexp", "Normalizer", "LogSoftmax", "Softmax", "logsoftmax", "softmax"]


@program
def log_sum_exp(x: Symbol) -> Symbol:
    top = row_max(x)
    # Where the largest is infinite, x - top would be NaN; 0 gives the right result there.
    top = choose(isfinite(top), top, 0.0)
    return log(row_sum(exp(x - top))) + top


@program
def log_sum_exp_gradient(g: Row, x: Symbol, y: Row) -> Symbol:
    # Where every x is -inf, so is y: 0 instead of y gives the weights e^-inf = 0. Where y is inf,
    # the infinite x share the gradient.
    level = choose(is_equal(y, -math.inf), 0.0, y)
    is_top = logical_and(is_equal(x, level), logical_not(isfinite(x)))
    weights = choose(is_top, 1.0, exp(x - level))
    total = row_sum(weights)
    return weights * (g / choose(is_equal(total, 0.0), 1.0, total))


@program
def softmax_program(x: Symbol) -> Symbol:
    powers = exp(x - row_max(x))
    return powers * (1.0 / row_sum(powers))


@program
def softmax_gradient(g: Symbol, y: Symbol) -> Symbol:
    weighted = g * y
    return weighted - y * row_sum(weighted)


@program
def log_softmax(x: Symbol) -> Symbol:
    below = x - row_max(x)
    return below - log(row_sum(exp(below)))


@program
def log_softmax_gradient(g: Symbol, y: Symbol) -> Symbol:
    return g - exp(y) * row_sum(g)


class LogSumExp(Reduction):
    """y = ln Σ e^x_i = m + ln Σ e^(x_i - m)  with m = max x_i,  dy/dx_i = w_i / Σ w_j

    with w_i = e^(x_i - y). Their sum is 1 but for the rounding of y: much, when y is large.
    """

    name = "logsumexp"
    keywords = ("where",)
    identity = -math.inf

    def compute(self, a: NDArray) -> NDArray:
        axes = self.reduced(len(a.shape))
        result = F.run(log_sum_exp, in_floats(a), axes=axes)
        return result if self.keepdims else F.squeeze(result, axes)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        x: Any = node.inputs[0]
        axes = self.reduced(x.ndim)
        g, y = (self.spread(v, x) for v in (out_grad, node))
        return LogSumExpGradient(axes)(g, x.astype(g.dtype), y)


class LogSumExpGradient(FusedOp):
    """dx_i = g w_i / Σ w_j  with w_i = e^(x_i - y)"""

    formula = log_sum_exp_gradient

    def __init__(self, axes: tuple[int, ...]):
        self.axes = axes


logsumexp = over_axes(LogSumExp, "logsumexp", "log(sum(exp(a))) over axes, without overflow.")


class Normalizer(TensorOp):
    """Over an axis, or several"""

    name: ClassVar[str]

    def __init__(self, axis: int | Sequence[int] = -1):
        self.axis = axis

    def axes(self, ndim: int) -> tuple[int, ...]:
        """The axes, from 0."""
        return layout.normalize_axes(self.axis, ndim, self.name)


class LogSoftmax(Normalizer):
    """y_i = x_i - ln Σ e^x_j,  dx_i = g_i - e^y_i Σ g_j"""

    name = "logsoftmax"

    def compute(self, a: NDArray) -> NDArray:
        return F.run(log_softmax, in_floats(a), axes=self.axes(len(a.shape)))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        x: Any = node.inputs[0]
        return LogSoftmaxGradient(self.axes(x.ndim))(out_grad, node)


class LogSoftmaxGradient(FusedOp):
    """dx_i = g_i - e^y_i Σ g_j"""

    formula = log_softmax_gradient

    def __init__(self, axes: tuple[int, ...]):
        self.axes = axes


class Softmax(Normalizer):
    """y_i = e^x_i / Σ e^x_j,  dx_i = y_i (g_i - Σ g_j y_j)"""

    name = "softmax"

    def compute(self, a: NDArray) -> NDArray:
        return F.run(softmax_program, in_floats(a), axes=self.axes(len(a.shape)))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        x: Any = node.inputs[0]
        return SoftmaxGradient(self.axes(x.ndim))(out_grad, node)


class SoftmaxGradient(FusedOp):
    """dx_i = y_i (g_i - Σ g_j y_j)"""

    formula = softmax_gradient

    def __init__(self, axes: tuple[int, ...]):
        self.axes = axes


def _axis(op: str, axes: Axes, axis: Axes, dim: Axes) -> int | Sequence[int]:
    axis = one_of(op, axis) if axes is None and dim is None else one_of(op, axes, axis, dim)
    return -1 if axis is None else axis


def logsoftmax(a: Tensor, axis: Axes = None, *, axes: Axes = None, dim: Axes = None) -> Tensor:
    """log(softmax(a)) along an axis (the last one), without overflow."""
    axis = _axis("logsoftmax", axes, axis, dim)
    return LogSoftmax(axis)(check_tensor("logsoftmax", a))


def softmax(a: Tensor, axis: Axes = None, *, axes: Axes = None, dim: Axes = None) -> Tensor:
    """exp(a) / sum(exp(a)) along an axis (the last one): positive numbers that sum to 1."""
    return Softmax(_axis("softmax", axes, axis, dim))(check_tensor("softmax", a))


METHODS = {"logsumexp": logsumexp, "logsoftmax": logsoftmax, "softmax": softmax}
