"""Reductions over axes.

Every function takes its axes as `axes`, `axis` or `dim`: an int, several, negative ones from the
end, None for all. Integers sum to int64 and average to float64. In the formulas i runs over the
reduced elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Unpack

from ..autograd import Tensor, TensorOp
from ..dtype import accumulator as accumulator, averaged as averaged, dtype_of, float64
from ..ndarray import functions as F, layout
from ..tile import program as tp
from ..tile.program import Symbol, program
from .arithmetic import add, multiply
from .common import (
    Scalar,
    check_tensor,
    either,
    kept,
    named,
    no_out,
    one_of,
    reporting_as,
    zeros_like,
)
from .compare import equal, maximum, minimum, not_equal, where
from .elementwise import astype
from .index.along_axis import AlongIntoZeros
from .index.masked import KEYWORDS_DOC, Reduced, Spread, mean_with, reduce_with, var_with
from .shape.movement import inverse_order

if TYPE_CHECKING:
    from ..types import Axes, Gradients, NDArray, TensorLike

__all__ = [
    "Reduction", "Summation", "summation", "sum", "Mean", "mean", "Var", "Std", "var", "std",
    "Extreme", "Max", "max", "AMax", "amax", "Min", "min", "AMin", "amin", "ArgReduce",
    "argmax", "argmin", "AnyOf", "AllOf", "any", "all", "Prod", "prod", "norm",
]  # fmt: skip


def in_floats(a: NDArray) -> NDArray:
    """An array in the type of a mean: itself if it holds floats."""
    return a if dtype_of(a.dtype).is_floating else F.cast(a, float64)


class Reduction(TensorOp):
    """Over axes (None: all) that vanish, or stay with size 1 (keepdims)."""

    name: ClassVar[str]
    keywords: ClassVar[tuple[str, ...]] = ()  # of NumPy's, those that it takes
    with_numpy: ClassVar[Callable[..., Tensor]] = staticmethod(reduce_with)
    identity: ClassVar[Scalar | None] = None  # counts for nothing beside other elements
    of_two: ClassVar[Callable[..., Tensor]]  # a result and one more element

    def __init__(self, axes: Axes = None, keepdims: bool = False):
        self.axes = axes
        self.keepdims = bool(keepdims)  # kernels take no 1 for True

    def compute(self, a: NDArray) -> NDArray:
        return F.reduce(self.name, a, self.axes, self.keepdims)

    def reduced(self, ndim: int) -> tuple[int, ...]:
        """The axes, from 0 and in order."""
        return layout.normalize_axes(self.axes, ndim, self.name)

    def count(self, shape: Sequence[int]) -> int:
        """How many elements become one."""
        return math.prod(shape[i] for i in self.reduced(len(shape)))

    def spread(self, result: Tensor, x: Tensor) -> Tensor:
        """A result with the reduced axes back, of size 1: it broadcasts against x."""
        if self.keepdims:
            return result
        return result.reshape(layout.reduced_shape(x.shape, self.reduced(x.ndim), True))


class OverAxes(Protocol):
    """A reduction: its axes go by the names of the course, NumPy and PyTorch."""

    def __call__(
        self,
        a: Tensor,
        axes: Axes = None,
        keepdims: bool = False,
        *,
        axis: Axes = None,
        dim: Axes = None,
        keepdim: bool | None = None,
        **numpy: Unpack[Reduced],
    ) -> Tensor: ...


AXES_DOC = """\
axes, axis and dim mean the same: an int, several, negative ones from the end, None for all. They
vanish, or with keepdims (or keepdim) stay with size 1."""


def over_axes(op: type[Reduction], name: str, doc: str) -> OverAxes:
    """The function that users call for a reduction operator."""
    is_extreme = op.identity is None and hasattr(op, "of_two")

    def function(
        a: Tensor,
        axes: Axes = None,
        keepdims: bool = False,
        *,
        axis: Axes = None,
        dim: Axes = None,
        keepdim: bool | None = None,
        **numpy: Unpack[Reduced],
    ) -> Tensor:
        if is_extreme and isinstance(axes, Tensor):
            if keepdims is not False or not axis is dim is keepdim is None:
                raise TypeError(f"[{name}] expected two tensors alone, got axes or keepdims, too.")
            return op.of_two(a, axes, **numpy)
        given = one_of(op.name, axes, axis, dim)
        if keepdims is not False or keepdim is not None:
            keepdims = kept(op.name, keepdims, keepdim)
        if numpy:
            return op.with_numpy(op, check_tensor(op.name, a), given, keepdims, numpy)
        return op(given, keepdims)(check_tensor(op.name, a))

    function.__module__ = op.__module__
    if is_extreme:
        doc += f" Of two tensors, as in PyTorch, their {op.of_two.__name__}."
    meant = [KEYWORDS_DOC[keyword] for keyword in op.keywords]
    return named(function, name, "\n\n".join([doc, AXES_DOC, *meant]))


# Sums and averages --------------------------------------------------------------------------------


class Summation(Reduction):
    """y = Σ x_i,  dy/dx_i = 1"""

    name = "sum"
    linear = True
    keywords = ("dtype", "where", "initial")
    identity = 0
    of_two = staticmethod(add)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x = node.inputs[0]
        return self.spread(out_grad, x).broadcast_to(x.shape)


summation = over_axes(Summation, "summation", "The sum over axes; integers and bools in int64.")
sum = summation


class Mean(Reduction):
    """y = 1/n Σ x_i,  dy/dx_i = 1/n"""

    name = "mean"
    linear = True
    keywords = ("dtype", "where")
    with_numpy = staticmethod(mean_with)

    def compute(self, a: NDArray) -> NDArray:
        count = self.count(a.shape)
        total = F.reduce("sum", a, self.axes, self.keepdims, accumulator(a.dtype))
        return F.cast(F.binary("divide", total, count), averaged(a.dtype))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x = node.inputs[0]
        share = self.spread(out_grad, x) / self.count(x.shape)
        return share.broadcast_to(x.shape)


mean = over_axes(Mean, "mean", "The average over axes; of integers and bools in float64.")


class Var(Reduction):
    """y = 1/(n - c) Σ (x_i - mean)²,  dy/dx_i = 2/(n - c) (x_i - mean)"""

    name = "var"

    def __init__(self, axes: Axes = None, keepdims: bool = False, correction: float = 0):
        super().__init__(axes, keepdims)
        self.correction = correction

    def compute(self, a: NDArray) -> NDArray:
        axes, wide = self.reduced(len(a.shape)), F.cast(a, accumulator(a.dtype))
        average = F.binary("divide", F.reduce("sum", wide, axes, True), self.count(a.shape))
        squares = F.unary("square", F.binary("subtract", wide, average))
        total = F.reduce("sum", squares, axes, self.keepdims)
        return F.cast(F.binary("divide", total, self.freedom(a.shape)), averaged(a.dtype))

    def freedom(self, shape: Sequence[int]) -> float:
        """n - c, not below 0."""
        freedom = self.count(shape) - self.correction
        return freedom if freedom > 0 else 0

    def deviation(self, x: Tensor) -> Tensor:
        """x_i - mean"""
        return x - mean(x, self.axes, keepdims=True)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x = node.inputs[0]
        scale = self.spread(out_grad, x) * 2 / self.freedom(x.shape)
        return scale * self.deviation(x)


class Std(Var):
    """y = √var,  dy/dx_i = (x_i - mean) / ((n - c) y), and 0 where y = 0"""

    name = "std"

    def compute(self, a: NDArray) -> NDArray:
        return F.unary("sqrt", super().compute(a))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x = node.inputs[0]
        # Where y = 0 every deviation is 0: any divisor but 0 gives the right gradient.
        scale = out_grad / where(equal(node, 0), 1, node)
        scale = scale / self.freedom(x.shape)
        return self.spread(scale, x) * self.deviation(x)


def _correction(
    op: str, correction: float | None, ddof: float | None, unbiased: bool | None
) -> float:
    if correction is not None and ddof is not None:
        raise TypeError(f"[{op}] give one of correction and ddof, got {correction} and {ddof}.")
    if unbiased is not None and (correction is not None or ddof is not None):
        raise TypeError(f"[{op}] give unbiased or a correction, got both.")
    given = correction if correction is not None else ddof if ddof is not None else bool(unbiased)
    if not isinstance(given, (int, float)):
        raise TypeError(f"[{op}] the correction must be a number, got {given!r}.")
    return given


def var(
    a: Tensor, axes: Axes = None, keepdims: bool = False, *, axis: Axes = None, dim: Axes = None,
    keepdim: bool | None = None, correction: float | None = None, ddof: float | None = None,
    unbiased: bool | None = None, **numpy: Unpack[Spread],
) -> Tensor:  # fmt: skip
    """The variance over axes, divided by n - correction (also called ddof; 0 if not given).

    unbiased=True is a correction of 1. NumPy's keywords: the dtype to compute in; where, bools that
    say which elements count; mean, if it is known, with the axes that vanish of size 1."""
    free = _correction("var", correction, ddof, unbiased)
    given = one_of("var", axes, axis, dim)
    return _variance(Var, a, given, kept("var", keepdims, keepdim), free, numpy)


def std(
    a: Tensor, axes: Axes = None, keepdims: bool = False, *, axis: Axes = None, dim: Axes = None,
    keepdim: bool | None = None, correction: float | None = None, ddof: float | None = None,
    unbiased: bool | None = None, **numpy: Unpack[Spread],
) -> Tensor:  # fmt: skip
    """The standard deviation over axes: the square root of `var`, with the same arguments."""
    free = _correction("std", correction, ddof, unbiased)
    given = one_of("std", axes, axis, dim)
    return _variance(Std, a, given, kept("std", keepdims, keepdim), free, numpy)


def _variance(
    op: type[Var], a: Tensor, axes: Axes, keepdims: bool, correction: float, numpy: Spread
) -> Tensor:
    check_tensor(op.name, a)
    if numpy:
        return var_with(op.name, a, axes, keepdims, correction, numpy)
    return op(axes, keepdims, correction)(a)


# Largest and smallest -----------------------------------------------------------------------------

FIRST_DOC = "The first of equals gets the gradient along one axis; over more they share it."
SHARED_DOC = "Equal elements share the gradient."


class Extreme(Reduction):
    """Of equal elements, the first one along an axis gets the gradient, or NaN before all; over
    several axes, or all, they share it equally. PyTorch's rules, for max(dim) and for max()"""

    position: ClassVar[str]
    shares: ClassVar[bool] = False  # along one axis, too

    keywords = ("where", "initial")

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        x = node.inputs[0]
        axes, g = self.reduced(x.ndim), self.spread(out_grad, x)
        if len(axes) == 1 and self.axes is not None and not self.shares:
            first = ArgReduce(self.position, axes[0], True)(x)
            return AlongIntoZeros(axes[0], x.shape)(g, first)
        return shared(g, x, self.spread(node, x), self.axes)


def shared(g: Tensor, x: Tensor, y: TensorLike, axes: Axes) -> Tensor:
    """g in equal parts at the elements of x over axes that equal y, or are NaN if y is."""
    # Counted in a wide type: 65,520 ties are infinitely many for float16.
    chosen: Any = astype(Chosen()(x, y), accumulator(x.dtype))
    result: Tensor = g / chosen.sum(axes, keepdims=True) * chosen
    return result


class Chosen(TensorOp):
    """c = true where x = y, or x is NaN"""

    differentiable = False

    def compute(self, x: NDArray, y: NDArray) -> NDArray:
        return F.run(is_chosen, x, y)


@program
def is_chosen(x: Symbol, y: Symbol) -> Symbol:
    return tp.logical_or(tp.equal(x, y), tp.not_equal(x, x))


class Max(Extreme):
    """y = max x_i; NaN if any is"""

    name = "max"
    of_two = staticmethod(maximum)
    position = "argmax"


class AMax(Max):
    """y = max x_i; equal elements share the gradient"""

    shares = True


max = over_axes(Max, "max", f"The largest element over axes. {FIRST_DOC}")
amax = over_axes(AMax, "amax", f"The largest element over axes. {SHARED_DOC}")


class Min(Extreme):
    """y = min x_i; NaN if any is"""

    name = "min"
    of_two = staticmethod(minimum)
    position = "argmin"


class AMin(Min):
    """y = min x_i; equal elements share the gradient"""

    shares = True


min = over_axes(Min, "min", f"The smallest element over axes. {FIRST_DOC}")
amin = over_axes(AMin, "amin", f"The smallest element over axes. {SHARED_DOC}")


class ArgReduce(TensorOp):
    """The position of the first extreme element along an axis (None: in the flattened tensor)"""

    differentiable = False

    def __init__(self, name: str, axis: int | None, keepdims: bool):
        self.name = name
        self.axis = axis
        self.keepdims = keepdims

    def compute(self, a: NDArray) -> NDArray:
        return F.arg_reduce(self.name, a, self.axis, self.keepdims)


def argmax(
    a: Tensor, axis: int | None = None, keepdims: bool = False, *, axes: int | None = None,
    dim: int | None = None, keepdim: bool | None = None, out: None = None,
) -> Tensor:  # fmt: skip
    """Where the largest element is, along an axis; the first of equals, NaN before all."""
    no_out("argmax", out)
    given, keepdims = one_of("argmax", axes, axis, dim), kept("argmax", keepdims, keepdim)
    return ArgReduce("argmax", given, keepdims)(check_tensor("argmax", a))


def argmin(
    a: Tensor, axis: int | None = None, keepdims: bool = False, *, axes: int | None = None,
    dim: int | None = None, keepdim: bool | None = None, out: None = None,
) -> Tensor:  # fmt: skip
    """Where the smallest element is, along an axis; the first of equals, NaN before all."""
    no_out("argmin", out)
    given, keepdims = one_of("argmin", axes, axis, dim), kept("argmin", keepdims, keepdim)
    return ArgReduce("argmin", given, keepdims)(check_tensor("argmin", a))


class Quantifier(Reduction):
    """y = true if any, or all, of x_i are not zero"""

    differentiable = False
    keywords = ("where",)


class AnyOf(Quantifier):
    """y = x_1 or x_2 or ..."""

    name = "any"
    identity = False


class AllOf(Quantifier):
    """y = x_1 and x_2 and ..."""

    name = "all"
    identity = True


any = over_axes(AnyOf, "any", "Is any element true (not zero)?")


all = over_axes(AllOf, "all", "Is every element true (not zero)?")


@reporting_as("in")
def contains(x: Tensor, value: TensorLike) -> bool:
    """Is any element equal to the value?"""
    return bool(any(equal(x, value)).item())


# Products -----------------------------------------------------------------------------------------


class Prod(Reduction):
    """y = Π x_i,  dy/dx_i = Π_{j < i} x_j Π_{j > i} x_j: right with zeros, too"""

    name = "prod"
    keywords = ("dtype", "where", "initial")
    identity = 1
    of_two = staticmethod(multiply)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x = node.inputs[0]
        if x.size == 0:
            return zeros_like(x)
        axes = self.reduced(x.ndim)
        order = (*(i for i in range(x.ndim) if i not in axes), *axes)
        moved = x.permute(order)  # the reduced axes last, then as one
        flat = moved.reshape(*moved.shape[: x.ndim - len(axes)], self.count(x.shape))
        before, after = _product_before(flat), _product_before(flat.flip(-1)).flip(-1)
        others = (before * after).reshape(moved.shape).permute(inverse_order(order))
        return self.spread(out_grad, x) * others


def _product_before(x: Tensor) -> Tensor:
    """Π_{j < i} x_j along the last axis."""
    from .cumulative import cumprod, shifted

    return shifted(cumprod(x, -1), x.ndim - 1, 1)


prod = over_axes(Prod, "prod", "The product over axes.")


# Norms --------------------------------------------------------------------------------------------


@reporting_as("norm")
def norm(
    a: Tensor, ord: float | str | None = None, axes: Axes = None, keepdims: bool = False, *,
    axis: Axes = None, dim: Axes = None, keepdim: bool | None = None, p: float | str | None = None,
) -> Tensor:  # fmt: skip
    """(Σ |x_i|^ord)^(1/ord) over axes: a vector norm. ord (or p) is 2 if not given, and may be inf,
    -inf and 0 (not-zeros).

    The gradient is 0 where the norm is 0."""
    keepdims = kept("norm", keepdims, keepdim)
    ord = either("norm", 2, ord=ord, p=p)
    given = one_of("norm", axes, axis, dim)
    dtype = check_tensor("norm", a).dtype
    x: Any = astype(a, accumulator(dtype))
    power = 2 if ord == "fro" else ord
    if not isinstance(power, (int, float)) or math.isnan(power):
        raise ValueError(f"[norm] ord must be a number, inf, -inf or 'fro', got {ord!r}.")
    result: Any
    if power == math.inf:
        result = amax(x.abs(), given, keepdims)
    elif power == -math.inf:
        result = amin(x.abs(), given, keepdims)
    elif power == 0:
        result = summation(astype(not_equal(x, 0), x.dtype), given, keepdims)
    elif power == 1:
        result = x.abs().sum(given, keepdims)
    elif power == 2:
        result = Norm(given, keepdims)(x)
    else:
        result = Root(power)(_powers(x, power).sum(given, keepdims))
    return astype(result, averaged(dtype))


@program
def norm_of_rows(x: Symbol) -> Symbol:
    return tp.sqrt(tp.row_sum(tp.square(x)))


class Norm(Reduction):
    """y = √(Σ x_i²),  dy/dx_i = x_i / y, and 0 where y = 0"""

    name = "norm"

    def compute(self, a: NDArray) -> NDArray:
        axes = self.reduced(len(a.shape))
        kept = len(a.shape) - len(axes)
        if not axes or axes[0] != kept:  # other axes than the last: no rows of memory
            return F.unary("sqrt", F.reduce("sum", F.unary("square", a), axes, self.keepdims))
        result = F.run(norm_of_rows, a, axes=axes)
        return result if self.keepdims else F.reshape(result, a.shape[:kept])

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x = node.inputs[0]
        zero = equal(node, 0)
        return self.spread(where(zero, 0, out_grad / where(zero, 1, node)), x) * x


def _powers(x: TensorLike, power: float) -> Tensor:
    """|x|^power; a zero is taken out of the graph, since the rule gives 0 · ∞ there."""
    zero = equal(x, 0)
    safe: Any = where(zero, 1, x)
    return where(zero, 0 if power > 0 else math.inf, safe.abs() ** power)


class Root(TensorOp):
    """y = x^(1/p),  dy/dx = x^(1/p - 1) / p, and 0 where x = 0"""

    elementwise = True

    def __init__(self, power: float):
        self.power = power

    def compute(self, x: NDArray) -> NDArray:
        return F.binary("power", x, 1 / self.power)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        (x,) = node.inputs
        zero = equal(x, 0)
        slope: Any = where(zero, 1, x) ** (1 / self.power - 1) / self.power
        return out_grad * where(zero, 0, slope)
