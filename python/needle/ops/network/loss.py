"""Losses whose formula as separate operators would overflow, or keep what nobody needs."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from ...autograd import Tensor, TensorOp
from ...backend.protocol import Outside
from ...dtype import DType, dtype_of, float64, int64, promote
from ...ndarray import functions as F, layout
from ...ndarray.index import gather as select
from ...ndarray.index.errors import rewrite_index_error, wrong_id
from ...tile.program import (
    Program,
    Row,
    Scalar,
    Symbol,
    abs as absolute,
    add_at,
    apply,
    cast,
    equal as is_equal,
    exp,
    gather as pick,
    log,
    log1p,
    not_equal as is_different,
    program,
    relu,
    row_max,
    row_min,
    row_sum,
    sigmoid,
    where as choose,
)
from ..common import can_share, check_tensor
from ..compare import equal, not_equal, where
from ..elementwise import astype
from ..fused import FusedOp, run_composite
from ..index.along_axis import gather
from ..index.indexing import from_zero, ids_of
from ..reduce import accumulator, averaged, in_floats
from ..unary import log as log_of, sigmoid as sigmoid_of
from .softmax import logsoftmax

if TYPE_CHECKING:
    from ...ndarray.array import NDArray
    from ...types import Arrays, Gradients


@program
def log_total(x: Symbol, ids: Row, zero: Row) -> Symbol:
    top = row_max(x)
    return (top - pick(x, ids)) + log(row_sum(exp(x - top))) + zero


@program
def softmax_without(x: Symbol, ids: Row, g: Row) -> Symbol:
    powers = exp(x - row_max(x))
    return add_at(powers * (g / row_sum(powers)), ids, -g)


class CrossEntropy(TensorOp):
    """y = ln Σ e^x_c - x_t for class ids t (the class axis vanishes)

    dx_c = g (softmax(x)_c - [c = t])

    Equals `cross_entropy_by_definition`, and keeps no array of log-probabilities."""

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, x: NDArray, ids: NDArray) -> NDArray:
        x = in_floats(x)
        ids = _with_axis(ids, self.axis)
        zero = _zero_for(x, ids, self.axis)
        return F.squeeze(F.run(log_total, x, ids, zero, axes=(self.axis,)), (self.axis,))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x, ids = node.inputs
        g, ids = (v.expand_dims(self.axis) for v in (out_grad, ids))
        return CrossEntropyGradient(self.axis)(x.astype(g.dtype), ids, g), None


class CrossEntropyGradient(FusedOp):
    """dx_c = g (softmax(x)_c - [c = t])"""

    formula = softmax_without

    def __init__(self, axis: int):
        self.axes = (axis,)


class MeanCrossEntropy(TensorOp):
    """y = Σ (ln Σ e^x_c - x_t) / n over the n positions whose class id t is not the ignored one

    dx_c = (g / n) (softmax(x)_c - [c = t]) there, else 0. Equals the mean of `CrossEntropy`.
    """

    statistics: Arrays = ()  # n, and of each position max x_c and Σ e^(x_c - max)

    def __init__(self, axis: int, ignored: int):
        self.axis = axis
        self.ignored = ignored

    def compute(self, x: NDArray, ids: NDArray) -> NDArray:
        x = in_floats(x)
        mean, self.statistics = _mean_cross_entropy(x, ids, self.axis, self.ignored)
        return mean

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x, ids = node.inputs
        op = MeanCrossEntropyGradient(self.axis, self.ignored)
        op.statistics = self.statistics
        return op(x.astype(out_grad.dtype), ids, out_grad), None


class MeanCrossEntropyGradient(FusedOp):
    """dx_c = (g / n) (softmax(x)_c - [c = t]), 0 where t is the ignored id"""

    statistics: Arrays = ()  # as there; computed again if they are not known

    def __init__(self, axis: int, ignored: int):
        self.axis = axis
        self.ignored = ignored

    def compute(self, x: NDArray, ids: NDArray, g: NDArray) -> NDArray:
        noted = self.statistics
        if not can_share(noted, x):
            _, noted = _mean_cross_entropy(x, ids, self.axis, self.ignored)
        source = mean_cross_entropy_gradient(self.ignored)
        return F.run(source, x, _with_axis(ids, self.axis), g, *noted, axes=(self.axis,))

    def definition(self, x: Tensor, ids: Tensor, g: Tensor) -> Tensor:
        kept = not_equal(ids, self.ignored)
        share = where(kept, g / kept.astype(g.dtype).sum(), 0.0)
        rows = (v.expand_dims(self.axis) for v in (ids, share))
        return run_composite(softmax_without, x, *rows, axes=(self.axis,))


def _mean_cross_entropy(
    x: NDArray, ids: NDArray, axis: int, ignored: int
) -> tuple[NDArray, Arrays]:
    """The mean and the statistics of `MeanCrossEntropy`."""
    expanded = _with_axis(ids, axis)
    zero = _zero_for(x, expanded, axis, ignored)
    statistics = accumulator(x.dtype)
    losses, top, total = F.run_all(
        cross_entropy_program(ignored, statistics), x, expanded, zero, axes=(axis,)
    )
    everywhere = tuple(range(x.ndim))
    mean, count = F.run_all(mean_of_kept(ignored, x.dtype), losses, expanded, axes=everywhere)
    return F.reshape(mean, ()), (F.reshape(count, ()), top, total)


@cache
def cross_entropy_program(ignored: int, statistics: DType) -> Program:
    @program
    def cross_entropy(x: Symbol, ids: Row, zero: Row) -> tuple[Symbol, ...]:
        top = row_max(x)
        total = row_sum(exp(x - top))
        loss = choose(is_equal(ids, ignored), 0.0, (top - pick(x, ids)) + log(total) + zero)
        return tuple(cast(v, statistics) for v in (loss, top, total))

    return cross_entropy


@cache
def mean_of_kept(ignored: int, dtype: DType) -> Program:
    @program
    def mean_of_kept(losses: Symbol, ids: Symbol) -> tuple[Symbol, ...]:
        count = row_sum(cast(is_different(ids, ignored), losses))
        return cast(row_sum(losses) / count, dtype), count

    return mean_of_kept


@cache
def mean_cross_entropy_gradient(ignored: int) -> Program:
    @program
    def mean_cross_entropy_gradient(
        x: Symbol, ids: Row, g: Scalar, count: Scalar, top: Row, total: Row
    ) -> Symbol:
        share = choose(is_equal(ids, ignored), 0.0, g / count)
        return cast(add_at(exp(x - top) * (share / total), ids, -share), x)

    return mean_cross_entropy_gradient


def _with_axis(ids: NDArray, axis: int) -> NDArray:
    return F.reshape(ids, (*ids.shape[:axis], 1, *ids.shape[axis:]))


def _zero_for(x: NDArray, ids: NDArray, axis: int, ignored: int | None = None) -> NDArray:
    """0 for every class id that there is, an error for others: programs do not look at ids, and
    negative ones do not count from the end. Takes from a view of one zero, not from x itself."""
    classes = x.shape[axis]
    zeros = F.broadcast_to(F.full_like(x, 0, shape=(1,)), (classes,))

    def words(_: str, outside: Outside) -> str:
        return (
            f"[cross_entropy] expected class ids from 0 to {classes - 1}, got {wrong_id(outside)}; "
            f"the input's axis {axis} has {classes} classes."
        )

    with rewrite_index_error(words):
        return select.take(zeros, F.run(from_zero(ignored), ids))


def cross_entropy_of_ids(x: Tensor, ids: Tensor, axis: int) -> Tensor:
    """-log softmax(x) at the class ids along an axis, one for each position."""
    axis = layout.normalize_axis(axis, check_tensor("cross_entropy", x).ndim, "cross_entropy")
    return CrossEntropy(axis)(x, ids_of(ids))


def mean_cross_entropy(x: Tensor, ids: Tensor, axis: int, ignored: int) -> Tensor:
    """The mean of -log softmax(x) at the class ids, over positions whose id is not ignored."""
    return MeanCrossEntropy(axis, ignored)(x, ids_of(ids))


def cross_entropy_by_definition(x: Tensor, ids: Tensor, axis: int) -> Tensor:
    """The composite that `CrossEntropy` equals."""
    picked = gather(logsoftmax(x, axis), axis, ids.expand_dims(axis))
    return -picked.squeeze(axis)


# A number v that is no probability is told as v SCALE ± FAR, from -MOST to MOST.
SCALE, FAR, MOST = 2.0**28, 2.0**50, 2.0**20


@program
def code_of_wrong(p: Symbol) -> Symbol:
    """Of each row: 0, or one number outside of 0 to 1 as a code that is no place on an axis of one;
    that of NaN is the lowest number."""
    low, top = cast(row_min(p), float64), cast(row_max(p), float64)

    def code(value: Symbol, far: float) -> Symbol:
        return apply("minimum", apply("maximum", value, -MOST), MOST) * SCALE + far

    return cast(choose(low >= 0, choose(top <= 1, 0.0, code(top, FAR)), code(low, -FAR)), int64)


def _zero_for_probabilities(name: str, p: NDArray, result: NDArray) -> NDArray:
    """A zero of the result's dtype, taken from an array of one element, at a place that it does not
    have if some p is outside of 0 to 1: so that compiled programs look, too."""
    zero = F.full_like(result, 0, shape=(1,))
    if p.size == 0:
        return zero

    def words(_: str, outside: Outside) -> ValueError:
        code = outside.value
        value = math.nan if code < -2 * FAR else (code - math.copysign(FAR, code)) / SCALE
        return ValueError(
            f"[binary_cross_entropy] expected {name} from 0 to 1, got {value:.8g}"
            f"{' or beyond' * (abs(value) == MOST)}; for scores, use "
            "binary_cross_entropy_with_logits."
        )

    p = p if p.ndim else F.reshape(p, (1,))
    code = F.run(code_of_wrong, p, axes=tuple(range(p.ndim)))
    with rewrite_index_error(words):
        return select.take(zero, F.reshape(code, (1,)))


class BinaryCrossEntropy(TensorOp):
    """y = -t ln p - (1 - t) ln(1 - p), each logarithm at least -100 (PyTorch's rule)

    dp = g (p - t) / (p (1 - p)), the denominator at least 1e-12;  dt = g (ln(1 - p) - ln p)"""

    def compute(self, p: NDArray, t: NDArray) -> NDArray:
        other = F.binary("subtract", 1, t)
        by_p = F.binary("multiply", t, _log(p))
        by_rest = F.binary("multiply", other, _log(F.binary("subtract", 1, p)))
        losses = F.unary("negative", F.binary("add", by_p, by_rest))
        for name, given in (("inputs", p), ("targets", t)):
            zero = _zero_for_probabilities(name, given, losses)
            losses = F.binary("add", losses, F.reshape(zero, ()))
        return losses

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        p, t = node.inputs
        wide = p.astype(accumulator(p.dtype))  # 1e-12 is no float16
        dp = out_grad * (wide - t) / (wide * (1 - wide)).clip(1e-12)
        dt = out_grad * (_log_tensor(1 - p) - _log_tensor(p))
        return dp, dt


def _log(p: NDArray) -> NDArray:
    return F.binary("maximum", F.unary("log", p), -100)


def _log_tensor(p: Tensor) -> Tensor:
    """The same as a tensor: at p = 0 without the infinite slope."""
    dead = equal(p, 0)
    return where(dead, -100.0, log_of(where(dead, 1.0, p)).clip(-100))


def binary_cross_entropy_of(p: Tensor, t: Tensor) -> Tensor:
    """-t log(p) - (1 - t) log(1 - p), element by element."""
    return BinaryCrossEntropy()(check_tensor("binary_cross_entropy", p), t)


class LogitsCrossEntropy(TensorOp):
    """y = (1 - t) x + ln(1 + e^-x): -t ln σ(x) - (1 - t) ln(1 - σ(x)) without overflow

    dx = g ((1 - t) σ(x) - t σ(-x)): σ(x) - t would have no digits for sure predictions.
    dt = -g x"""

    elementwise = True

    def compute(self, x: NDArray, t: NDArray) -> NDArray:
        dtype = averaged(promote(dtype_of(x.dtype), dtype_of(t.dtype)))
        return F.run(logits_cross_entropy, F.cast(x, dtype), F.cast(t, dtype))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x, t = node.inputs
        wide = (astype(v, node.dtype) for v in (x, t))
        by_x = LogitsCrossEntropyGradient()(out_grad, *wide) if x.requires_grad else None
        return by_x, -out_grad * x if t.requires_grad else None


class LogitsCrossEntropyGradient(FusedOp):
    """dx = g ((1 - t) σ(x) - t σ(-x))"""

    elementwise = True

    def compute(self, g: NDArray, x: NDArray, t: NDArray) -> NDArray:
        return F.run(logits_cross_entropy_gradient, g, x, t)

    def definition(self, g: Tensor, x: Tensor, t: Tensor) -> Tensor:
        return g * ((1 - t) * sigmoid_of(x) - t * sigmoid_of(-x))


@program
def logits_cross_entropy(x: Symbol, t: Symbol) -> Symbol:
    return (1.0 - t) * x + (relu(-x) + log1p(exp(-absolute(x))))


@program
def logits_cross_entropy_gradient(g: Symbol, x: Symbol, t: Symbol) -> Symbol:
    return g * ((1.0 - t) * sigmoid(x) - t * sigmoid(-x))


def binary_cross_entropy_of_logits(x: Tensor, t: Tensor) -> Tensor:
    """-t log σ(x) - (1 - t) log(1 - σ(x)), element by element."""
    return LogitsCrossEntropy()(check_tensor("binary_cross_entropy_with_logits", x), t)
