"""Subtracting a mean and dividing by a deviation: what every normalisation layer is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import Tensor, TensorTuple, TensorTupleOp
from ..ndarray import functions as F
from .common import check_tensor, fit
from .reduce import accumulator, averaged


class Standardize(TensorTupleOp):
    """(y, m, v) with y = r (x - m),  r = 1 / √(v + ε),  m = mean x,  v = mean (x - m)²

    Not centred, m = 0: y = x / √(mean x² + ε). One operator equal to `standardize_by_definition`.
    With the means over the n elements that share m and v, and adjoints g, g_m, g_v:

    dx = r (g - mean g - y mean gy) + g_m / n + 2 y g_v / (n r)
    """

    def __init__(self, axes: tuple[int, ...], eps: float, centred: bool = True):
        self.axes = axes
        self.eps = eps
        self.centred = centred

    def count(self, shape: Sequence[int]) -> int:
        """How many elements share a mean."""
        return math.prod(shape[i] for i in self.axes)

    def compute(self, a: Any) -> Any:
        dtype, a = averaged(a.dtype), F.cast(a, accumulator(a.dtype))
        count = self.count(a.shape)
        if self.centred:
            mean = F.binary("divide", F.reduce("sum", a, self.axes, True), count)
            a = F.binary("subtract", a, mean)
        total = F.reduce("sum", F.unary("square", a), self.axes, True)
        var = F.binary("divide", total, count)
        if not self.centred:
            mean = F.full_like(var, 0)
        scale = F.unary("rsqrt", F.binary("add", var, self.eps))
        return F.cast(F.binary("multiply", a, scale), dtype), mean, var

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Any:
        g, g_mean, g_var = out_grad.tuple()
        y, _, var = node.tuple()
        x = node.inputs[0]
        scale = (var + self.eps).rsqrt()
        count = self.count(x.shape)
        by_y = scale * (g * y).mean(self.axes, keepdims=True) - 2 * g_var / (count * scale)
        dx = scale * g - y * by_y
        if self.centred:
            dx = dx - (scale * g.mean(self.axes, keepdims=True) - g_mean / count)
        return fit(dx, x)


def standardize(
    x: Tensor, axes: Sequence[int], eps: float, centred: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """x with mean 0 and deviation 1 over axes, its mean and its variance (axes kept, size 1)."""
    y, mean, var = Standardize(tuple(axes), eps, centred)(check_tensor("standardize", x)).tuple()
    return y, mean, var


def standardize_by_definition(
    x: Tensor, axes: Sequence[int], eps: float, centred: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """The composite that `Standardize` equals."""
    mean = x.mean(axes, keepdims=True) * (1 if centred else 0)
    deviation = x - mean if centred else x
    var = (deviation * deviation).mean(axes, keepdims=True)
    return deviation / (var + eps).sqrt(), mean, var
