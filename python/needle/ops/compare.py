"""Comparisons, logic, bits, and choosing between values."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, TypeGuard, Unpack, cast, overload

import numpy as np

from ..autograd import Tensor, TensorOp
from ..config import BACKEND
from ..dtype import dtype_of
from ..ndarray import functions as F
from ..ndarray.array import NDArray
from ..tile import program as tp
from ..tile.program import Program, Symbol, program
from .common import (
    Scalar,
    Ufunc,
    check_tensor,
    constant,
    either,
    is_scalar,
    named,
    reporting_as,
)
from .elementwise import Elementwise, OfOne, OfTwo, astype, of_two, pair, ufunc
from .fused import FusedOp

if TYPE_CHECKING:
    from ..types import Gradients, TensorLike

__all__ = [
    "Predicate", "PredicateScalar", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "logical_and", "logical_or", "logical_xor", "logical_not", "isnan",
    "isinf", "isfinite", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift",
    "right_shift", "invert", "Extremum", "Maximum", "maximum", "Minimum", "minimum", "Where",
    "where", "Clip", "clip",
]  # fmt: skip

# Yes or no, and bits ----------------------------------------------------------------------------


class Predicate(Elementwise):
    """A result without gradient: comparisons, tests, logic and bit operations."""

    differentiable = False

    def __init__(self, kernel: str):
        self.kernel = kernel  # type: ignore[misc]


class PredicateScalar(Predicate):
    """The same against a number, on the right or (`swapped`) on the left."""

    def __init__(self, kernel: str, scalar: Scalar, swapped: bool = False):
        super().__init__(kernel)
        self.scalar = scalar
        self.swapped = swapped

    def compute(self, a: NDArray) -> NDArray:
        operands = (self.scalar, a) if self.swapped else (a, self.scalar)
        return F.binary(self.kernel, *operands)


def _comparison(kernel: str, doc: str) -> OfTwo:
    """The function that users call for a kernel of two operands."""

    def function(a: TensorLike, b: TensorLike, **numpy: Unpack[Ufunc]) -> Tensor:
        if numpy:
            return ufunc(function, numpy, a, b)
        if is_scalar(b) and isinstance(a, Tensor):
            return PredicateScalar(kernel, b)(a)
        if is_scalar(a) and isinstance(b, Tensor):
            return PredicateScalar(kernel, a, swapped=True)(b)
        return Predicate(kernel)(*pair(kernel, a, b))

    return named(function, kernel, doc)


def _test(kernel: str, doc: str) -> OfOne:
    """The function that users call for a kernel of one operand."""

    def function(x: Tensor, **numpy: Unpack[Ufunc]) -> Tensor:
        if numpy:
            return ufunc(function, numpy, x)
        return Predicate(kernel)(check_tensor(kernel, x))

    return named(function, kernel, doc)


equal = _comparison("equal", "a == b, element by element.")
not_equal = _comparison("not_equal", "a != b, element by element.")
less = _comparison("less", "a < b, element by element.")
less_equal = _comparison("less_equal", "a <= b, element by element.")
greater = _comparison("greater", "a > b, element by element.")
greater_equal = _comparison("greater_equal", "a >= b, element by element.")

logical_and = _comparison("logical_and", "True where both are true (not zero).")
logical_or = _comparison("logical_or", "True where a, b or both are true (not zero).")
logical_xor = _comparison(
    "logical_xor", "True where one of a and b is true (not zero) and the other is not."
)
logical_not = _test("logical_not", "True where x is zero or False.")

isnan = _test("isnan", "True where x is NaN.")
isinf = _test("isinf", "True where x is plus or minus infinity.")
isfinite = _test("isfinite", "True where x is neither NaN nor infinite.")

bitwise_and = _comparison("bitwise_and", "a & b of integers or bools.")
bitwise_or = _comparison("bitwise_or", "a | b of integers or bools.")
bitwise_xor = _comparison("bitwise_xor", "a ^ b of integers or bools.")
left_shift = _comparison("left_shift", "a << b of integers.")
right_shift = _comparison("right_shift", "a >> b of integers.")
invert = _test("invert", "~x of integers or bools.")

ARRAYS = (Tensor, NDArray, np.ndarray)


def _operator(function: OfTwo) -> Callable[[Tensor, object], Tensor]:
    """`==` or `!=`: element by element of tensors, arrays and numbers; of others, identity.

    With NEEDLE_BACKEND=np it is always identity, by which course code compares batches there."""

    def method(x: Tensor, other: object) -> Tensor:
        if BACKEND == "nd" and (is_scalar(other) or isinstance(other, ARRAYS)):
            return function(x, other)
        return cast(Tensor, NotImplemented)

    return method


EQUALITY = {"__eq__": _operator(equal), "__ne__": _operator(not_equal)}


# Choosing ---------------------------------------------------------------------------------------


class Extremum(Elementwise):
    """The gradient goes to the input that won; where both are equal, half to each."""

    wins: ClassVar[str]

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        a, b = (astype(x, node.dtype) for x in node.inputs)
        by_a, by_b = (
            ExtremumGradient(self.wins)(out_grad, *both) if x.requires_grad else None
            for x, both in zip(node.inputs, ((a, b), (b, a)), strict=True)
        )
        return by_a, by_b


@program
def greatest_gradient(g: Symbol, x: Symbol, other: Symbol) -> Symbol:
    return tp.where(other > x, 0.0, tp.where(tp.equal(other, x), g * 0.5, g))


@program
def least_gradient(g: Symbol, x: Symbol, other: Symbol) -> Symbol:
    return tp.where(other < x, 0.0, tp.where(tp.equal(other, x), g * 0.5, g))


class ExtremumGradient(FusedOp):
    """dx = 0 where the other input wins, g / 2 where both are equal, else g

    Chosen, not multiplied by 0 and 1: an infinite gradient is none for the input that lost."""

    elementwise = True

    def __init__(self, wins: str):
        self.formula = greatest_gradient if wins == "greater" else least_gradient


class Maximum(Extremum):
    """y = max(a, b); NaN if either is"""

    kernel = "maximum"
    wins = "greater"


maximum = of_two(Maximum, "The larger of a and b, element by element.")


class Minimum(Extremum):
    """y = min(a, b); NaN if either is"""

    kernel = "minimum"
    wins = "less"


minimum = of_two(Minimum, "The smaller of a and b, element by element.")


class Where(TensorOp):
    """y = a where cond else b"""

    elementwise = True

    def compute(self, cond: NDArray, a: NDArray, b: NDArray) -> NDArray:
        return F.where(cond, a, b)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        cond, a, b = node.inputs
        by_a = where(cond, out_grad, 0) if a.requires_grad else None
        return None, by_a, where(cond, 0, out_grad) if b.requires_grad else None


def check_mask(op: str, mask: object) -> None:
    """Raise if it is a bool of Python's."""
    if isinstance(mask, bool):
        raise TypeError(
            f"[{op}] expected a tensor of bools, got {mask}; == compares tensors with tensors, "
            "arrays and numbers only."
        )


@overload
def where(cond: TensorLike, a: TensorLike, b: TensorLike) -> Tensor: ...
@overload
def where(cond: Tensor) -> tuple[Tensor, ...]: ...
def where(
    cond: TensorLike, a: TensorLike | None = None, b: TensorLike | None = None
) -> Tensor | tuple[Tensor, ...]:
    """a where cond is true, else b; all three broadcast. Without them, where cond is true:
    one tensor of positions per axis."""
    if a is None and b is None:
        return check_tensor("where", cond).nonzero(as_tuple=True)
    like = next((x for x in (a, b, cond) if isinstance(x, Tensor)), None)
    if like is None:
        raise TypeError("[where] expected at least one Tensor among cond, a and b.")
    check_mask("where", cond)
    if is_scalar(a) and is_scalar(b):
        number = float(a) if isinstance(a, float) or isinstance(b, float) else a
        first = constant(number, like, "where") if like is not cond else _number(number, like)
        return Where()(constant(cond, like, "where"), first, constant(b, first, "where"))
    return Where()(*(constant(x, like, "where") for x in (cond, a, b)))


def _number(value: Scalar, like: Tensor) -> Tensor:
    """A number as a 0-d tensor of the dtype that `tensor` gives it: float32, int64 or bool."""
    kind = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    data = F.full((), value, kind, like.home)
    return Tensor.make_const(data)


NUMBERS = frozenset({int, float})


@lru_cache(maxsize=64)
def clip_program(low: float, high: float) -> Program:
    @program
    def clip(x: Symbol) -> Symbol:
        return tp.minimum(tp.maximum(x, low), high)

    return clip


class Clip(TensorOp):
    """y = min(max(x, low), high),  dy/dx = 1 where low <= x <= high"""

    elementwise = True

    def __init__(self, low: Scalar | None, high: Scalar | None):
        self.low = low
        self.high = high

    def compute(self, a: NDArray) -> NDArray:
        if NUMBERS.issuperset((type(self.low), type(self.high))) and dtype_of(a.dtype).is_floating:
            # One pass. Programs are found by their numbers, and -0.0 equals 0.0.
            low, high = cast(float, self.low), cast(float, self.high)
            return F.run(clip_program(low + 0.0, high + 0.0), a)
        if self.low is not None:
            a = F.binary("maximum", a, self.low)
        return a if self.high is None else F.binary("minimum", a, self.high)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        (x,) = node.inputs
        gradient = out_grad
        if self.low is not None:
            gradient = where(greater_equal(x, self.low), gradient, 0)
        if self.high is not None:
            gradient = where(less_equal(x, self.high), gradient, 0)
        return gradient


class ClipBetween(TensorOp):
    """y = min(max(x, low), high) with bounds that have gradients: x gets it where low <= x <= high,
    else the bound that x is beyond; where low > high, high"""

    elementwise = True

    def __init__(self, has_low: bool, has_high: bool):
        self.has_low = has_low
        self.has_high = has_high

    def compute(self, x: NDArray, *bounds: NDArray) -> NDArray:
        if self.has_low:
            x = F.binary("maximum", x, bounds[0])
        return F.binary("minimum", x, bounds[-1]) if self.has_high else x

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return tuple(
            where(self.chosen(i, *node.inputs), out_grad, 0) if x.requires_grad else None
            for i, x in enumerate(node.inputs)
        )

    def chosen(self, which: int, x: Tensor, *bounds: Tensor) -> Tensor:
        """Where x (0) or a bound (1, 2) is the result."""
        if not self.has_high:
            return less(x, *bounds) if which else greater_equal(x, *bounds)
        if not self.has_low:
            return greater(x, *bounds) if which else less_equal(x, *bounds)
        low, high = bounds
        if which == 1:
            return logical_and(less(x, low), less(low, high))
        if which == 2:
            return logical_or(greater(x, high), less(high, low))
        return logical_and(greater_equal(x, low), less_equal(x, high))


@reporting_as("clip")
def clip(
    x: Tensor,
    min: TensorLike | None = None,
    max: TensorLike | None = None,
    *,
    a_min: TensorLike | None = None,
    a_max: TensorLike | None = None,
    **numpy: Unpack[Ufunc],
) -> Tensor:
    """x limited to [min, max]; None leaves a side open. Bounds may be tensors, which broadcast.

    a_min and a_max are NumPy's other names of min and max."""
    min, max = (
        either("clip", None, min=min, a_min=a_min),
        either("clip", None, max=max, a_max=a_max),
    )
    if numpy:
        return ufunc(clip, numpy, x, min, max)
    if min is None and max is None:
        raise ValueError("[clip] expected min, max or both, got neither.")
    if _is_bound(min) and _is_bound(max):
        return Clip(min, max)(check_tensor("clip", x))
    bounds = [constant(v, check_tensor("clip", x)) for v in (min, max) if v is not None]
    return ClipBetween(min is not None, max is not None)(x, *bounds)


def _is_bound(x: TensorLike | None) -> TypeGuard[Scalar | None]:
    return x is None or is_scalar(x)
