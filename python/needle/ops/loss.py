"""Losses whose formula as separate operators would overflow, or keep what nobody needs."""

from __future__ import annotations

from typing import Any

from ..autograd import Tensor, TensorOp
from ..backend.program import (
    Row,
    Value,
    add_at,
    exp,
    gather as pick,
    log,
    program,
    row_max,
    row_sum,
)
from ..ndarray import functions as F, layout, select
from .common import check_tensor, fit
from .compare import equal, where
from .fused import FusedOp
from .indexing import NOT_WHOLE, gather, ids_of, scatter_add
from .reduce import averaged
from .softmax import logsoftmax, softmax
from .unary import log as log_of


@program
def log_total(x: Value, ids: Row, zero: Row) -> Value:
    top = row_max(x)
    return (top - pick(x, ids)) + log(row_sum(exp(x - top))) + zero


@program
def softmax_without(x: Value, ids: Row, g: Row) -> Value:
    powers = exp(x - row_max(x))
    return add_at(powers * (g / row_sum(powers)), ids, -g)


class CrossEntropy(TensorOp):
    """y = ln Σ e^x_c - x_t for class ids t (the class axis vanishes)

    dx_c = g (softmax(x)_c - [c = t])

    Equals `cross_entropy_by_definition`, and keeps no array of log-probabilities."""

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, x: Any, ids: Any) -> Any:
        x = F.cast(x, averaged(x.dtype))
        ids = F.reshape(ids, (*ids.shape[: self.axis], 1, *ids.shape[self.axis :]))
        zero = _zero_for(x, ids, self.axis)
        return F.squeeze(F.run(log_total, x, ids, zero, axes=(self.axis,)), (self.axis,))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        x, ids = node.inputs
        g, ids = (v.expand_dims(self.axis) for v in (out_grad, ids))
        return fit(CrossEntropyGradient(self.axis)(x.astype(g.dtype), ids, g), x), None


class CrossEntropyGradient(FusedOp):
    """dx_c = g (softmax(x)_c - [c = t])"""

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, x: Any, ids: Any, g: Any) -> Any:
        return F.run(softmax_without, x, ids, g, axes=(self.axis,))

    def definition(self, x: Any, ids: Any, g: Any) -> Any:
        return scatter_add(softmax(x, self.axis) * g, self.axis, ids, -g)


def _zero_for(x: Any, ids: Any, axis: int) -> Any:
    """0 for every class id that there is, an error for others: programs do not look at ids, and
    negative ones do not count from the end. Takes from a view of one zero, not from x itself."""
    classes = x.shape[axis]
    refused = F.full_like(ids, classes, shape=())
    checked = F.where(F.binary("less", ids, 0), refused, ids)
    zeros = F.broadcast_to(F.full_like(x, 0, shape=(1,) * x.ndim), x.shape)
    try:
        return select.take_along(zeros, checked, axis)
    except IndexError:
        raise IndexError(
            f"[cross_entropy] expected class ids from 0 to {classes - 1}, got "
            f"{_wrong(ids, classes)}; the input's axis {axis} has {classes} classes."
        ) from None


def _wrong(ids: Any, classes: int) -> Any:
    least, most = (F.reduce(name, ids).item() for name in ("min", "max"))
    if least == NOT_WHOLE:
        return "a number that is not whole"
    return least if least < 0 else most


def cross_entropy_of_ids(x: Tensor, ids: Tensor, axis: int) -> Tensor:
    """-log softmax(x) at the class ids along an axis, one for each position."""
    axis = layout.normalize_axis(axis, check_tensor("cross_entropy", x).ndim, "cross_entropy")
    return CrossEntropy(axis)(x, ids_of(ids))


def cross_entropy_by_definition(x: Tensor, ids: Tensor, axis: int) -> Tensor:
    """The composite that `CrossEntropy` equals."""
    picked = gather(logsoftmax(x, axis), axis, ids.expand_dims(axis))
    return -picked.squeeze(axis)


class BinaryCrossEntropy(TensorOp):
    """y = -t ln p - (1 - t) ln(1 - p), each logarithm at least -100 (PyTorch's rule)

    dp = g (p - t) / (p (1 - p)), the denominator at least 1e-12;  dt = g (ln(1 - p) - ln p)"""

    def compute(self, p: Any, t: Any) -> Any:
        other = F.binary("subtract", 1, t)
        by_p = F.binary("multiply", t, _log(p))
        by_rest = F.binary("multiply", other, _log(F.binary("subtract", 1, p)))
        return F.unary("negative", F.binary("add", by_p, by_rest))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        p, t = node.inputs
        dp = out_grad * (p - t) / (p * (1 - p)).clip(1e-12)
        dt = out_grad * (_log_tensor(1 - p) - _log_tensor(p))
        return fit(dp, p), fit(dt, t)


def _log(p: Any) -> Any:
    return F.binary("maximum", F.unary("log", p), -100)


def _log_tensor(p: Tensor) -> Tensor:
    """The same as a tensor: at p = 0 without the infinite slope."""
    dead = equal(p, 0)
    return where(dead, -100.0, log_of(where(dead, 1.0, p)).clip(-100))


def binary_cross_entropy_of(p: Tensor, t: Tensor) -> Tensor:
    """-t log(p) - (1 - t) log(1 - p), element by element."""
    return BinaryCrossEntropy()(check_tensor("binary_cross_entropy", p), t)
