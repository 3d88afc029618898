"""Softmax and its relatives. The largest element is taken out first: exp never overflows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import Tensor, TensorOp
from ..ndarray import functions as F, layout
from .arithmetic import multiply
from .common import check_tensor, fit, one_of
from .compare import equal, where
from .reduce import Axes, Reduction, accumulator, averaged, summation


class LogSumExp(Reduction):
    """y = ln Σ e^x_i = m + ln Σ e^(x_i - m)  with m = max x_i,  dy/dx_i = w_i / Σ w_j

    with w_i = e^(x_i - y). Their sum is 1 but for the rounding of y: much, when y is large.
    """

    name = "logsumexp"

    def compute(self, a: Any) -> Any:
        axes = self.reduced(len(a.shape))
        dtype, a = averaged(a.dtype), F.cast(a, accumulator(a.dtype))
        if 0 in a.shape:
            return F.cast(F.unary("log", F.reduce("sum", a, axes, self.keepdims)), dtype)
        top = F.reduce("max", a, axes, True)
        # Where the largest is infinite, x - m would be NaN; 0 gives the right result there.
        top = F.where(F.unary("isfinite", top), top, F.full_like(top, 0))
        sums = F.reduce("sum", F.unary("exp", F.binary("subtract", a, top)), axes, True)
        result = F.binary("add", F.unary("log", sums), top)
        return F.cast(result if self.keepdims else F.squeeze(result, axes), dtype)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        x: Any = node.inputs[0]
        # Where every x_i is -inf, so is y: 0 instead of y gives the weights e^-inf = 0.
        y = where(equal(node, -math.inf), 0, node)
        weights = (x - self.spread(y, x)).exp()
        total = weights.sum(self.axes, keepdims=True)
        share = self.spread(out_grad, x) / where(equal(total, 0), 1, total)
        return fit(share * weights, x)


def logsumexp(
    a: Tensor,
    axes: Axes = None,
    keepdims: bool = False,
    *,
    axis: Axes = None,
    dim: Axes = None,
    keepdim: bool = False,
) -> Tensor:
    """log(sum(exp(a))) over axes, without overflow."""
    given = one_of("logsumexp", axes, axis, dim)
    return LogSumExp(given, keepdims or keepdim)(check_tensor("logsumexp", a))


class Normalizer(TensorOp):
    """Over an axis, or several; a 0-d tensor is a single element"""

    def __init__(self, axis: int | Sequence[int] = -1):
        self.axis = axis

    def axes(self, ndim: int) -> tuple[int, ...]:
        """The axes, from 0."""
        name = type(self).__name__.lower()  # softmax, logsoftmax
        return layout.normalize_axes(self.axis, ndim, name) if ndim else ()

    def below_top(self, a: Any) -> tuple[Any, tuple[int, ...]]:
        """x_i - max x_i in the type to compute in, and the axes; what is empty stays so."""
        axes, a = self.axes(len(a.shape)), F.cast(a, accumulator(a.dtype))
        if 0 in a.shape:
            return a, axes
        return F.binary("subtract", a, F.reduce("max", a, axes, True)), axes


class LogSoftmax(Normalizer):
    """y_i = x_i - ln Σ e^x_j,  dx_i = g_i - e^y_i Σ g_j"""

    def compute(self, a: Any) -> Any:
        below, axes = self.below_top(a)
        sums = F.reduce("sum", F.unary("exp", below), axes, True)
        return F.cast(F.binary("subtract", below, F.unary("log", sums)), averaged(a.dtype))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        x: Any = node.inputs[0]
        y: Any = node
        total: Any = summation(out_grad, self.axes(x.ndim), keepdims=True)
        return fit(out_grad - y.exp() * total, x)


class Softmax(Normalizer):
    """y_i = e^x_i / Σ e^x_j,  dx_i = y_i (g_i - Σ g_j y_j)"""

    def compute(self, a: Any) -> Any:
        below, axes = self.below_top(a)
        powers = F.unary("exp", below)
        sums = F.reduce("sum", powers, axes, True)
        return F.cast(F.binary("divide", powers, sums), averaged(a.dtype))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        x: Any = node.inputs[0]
        weighted: Any = multiply(out_grad, node)
        total = weighted.sum(self.axes(x.ndim), keepdims=True)
        return fit(weighted - total * node, x)


def _axis(op: str, *given: Any) -> Any:
    axis = one_of(op, *given)
    return -1 if axis is None else axis


def logsoftmax(a: Tensor, axis: Axes = None, *, axes: Axes = None, dim: Axes = None) -> Tensor:
    """log(softmax(a)) along an axis (the last one), without overflow."""
    axis = _axis("logsoftmax", axes, axis, dim)
    return LogSoftmax(axis)(check_tensor("logsoftmax", a))


def softmax(a: Tensor, axis: Axes = None, *, axes: Axes = None, dim: Axes = None) -> Tensor:
    """exp(a) / sum(exp(a)) along an axis (the last one): positive numbers that sum to 1."""
    return Softmax(_axis("softmax", axes, axis, dim))(check_tensor("softmax", a))
