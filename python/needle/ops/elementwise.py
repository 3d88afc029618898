"""The base of operators that work element by element.

The operators themselves are in compare.py (comparisons, choice, logic, bits), arithmetic.py and
unary.py, one paragraph each. There y is the result (`node`), g the adjoint of y (`out_grad`).
Inputs broadcast; autograd sums and casts a gradient back to its input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypedDict, Unpack

import numpy as np

from ..autograd import Tensor, TensorOp
from ..dtype import DType, bool_, dtype_of
from ..ndarray import functions as F
from .common import Scalar, Ufunc, check_tensor, constant, flag, is_scalar, named, numpy_options

if TYPE_CHECKING:
    from ..types import DeviceLike, DTypeLike, NDArray, TensorLike

__all__ = ["Elementwise", "WithScalar", "Cast", "astype"]


class Elementwise(TensorOp):
    """Computes with the kernel of the same name on every device."""

    elementwise = True
    kernel: ClassVar[str]

    def compute(self, a: Any, *b: Any) -> NDArray:
        return F.binary(self.kernel, a, b[0]) if b else F.unary(self.kernel, a)


class WithScalar(Elementwise):
    """x (kernel) scalar. The scalar is a parameter, not a node."""

    def __init__(self, scalar: Scalar):
        self.scalar = scalar

    def compute(self, a: NDArray) -> NDArray:
        return F.binary(self.kernel, a, self.scalar)


class Cast(TensorOp):
    """y = x in another dtype; the gradient is cast back, and there is none through integers"""

    elementwise = True
    linear = True

    def __init__(self, dtype: DTypeLike):
        self.dtype = dtype_of(dtype)
        if not self.dtype.is_floating:
            self.differentiable = False  # type: ignore[misc]

    def compute(self, a: NDArray) -> NDArray:
        return F.cast(a, self.dtype)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad.astype(node.inputs[0].dtype)


class Casting(TypedDict, total=False):
    """NumPy's keywords of astype; those behind device have their defaults."""

    copy: bool
    device: DeviceLike | None
    order: Literal["K"]
    casting: Literal["unsafe"]
    subok: Literal[True]


def astype(x: Tensor, dtype: DTypeLike, **numpy: Unpack[Casting]) -> Tensor:
    """x with another dtype; x itself when it has it, or a copy if `copy` is True."""
    check_tensor("astype", x)
    dtype = dtype_of(dtype)
    if numpy:
        given = numpy_options("astype", numpy, "copy", "device", casting="unsafe")
        moved = x.to(given.get("device"), dtype)
        is_copy = flag("astype", "copy", given.get("copy", False))
        return moved.clone() if is_copy and moved is x else moved
    return x if x.dtype == dtype else Cast(dtype)(x)


def pair(op: str, a: object, b: object) -> tuple[Tensor, Tensor]:
    """Both as tensors; at least one must be one already."""
    if isinstance(a, Tensor):
        return a, b if isinstance(b, Tensor) else constant(b, a, op)
    if isinstance(b, Tensor):
        return constant(a, b, op), b
    raise TypeError(
        f"[{op}] expected at least one Tensor, got {type(a).__name__} and {type(b).__name__}."
    )


# What users call ----------------------------------------------------------------------------------


class OfOne(Protocol):
    """A function of one tensor, with NumPy's keywords."""

    __name__: str

    def __call__(self, x: Tensor, **numpy: Unpack[Ufunc]) -> Tensor: ...


class OfTwo(Protocol):
    """A function of two tensors, or of a tensor and a number, with NumPy's keywords."""

    __name__: str

    def __call__(self, a: TensorLike, b: TensorLike, **numpy: Unpack[Ufunc]) -> Tensor: ...


def of_one(op: type[TensorOp], doc: str) -> OfOne:
    """The function that users call for an operator of one tensor: its name in small letters."""
    name = op.__name__.lower()

    def function(x: Tensor, **numpy: Unpack[Ufunc]) -> Tensor:
        if numpy:
            return ufunc(function, numpy, x)
        return op()(check_tensor(name, x))

    function.__module__ = op.__module__
    return named(function, name, doc)


def of_two(op: type[Elementwise], doc: str) -> OfTwo:
    """The function that users call for an operator of two tensors: the name of its kernel."""
    name = op.kernel

    def function(a: TensorLike, b: TensorLike, **numpy: Unpack[Ufunc]) -> Tensor:
        if numpy:
            return ufunc(function, numpy, a, b)
        return op()(*pair(name, a, b))

    function.__module__ = op.__module__
    return named(function, name, doc)


def ufunc(function: Callable[..., Tensor], numpy: Ufunc, *operands: TensorLike | None) -> Tensor:
    """function(*operands) with NumPy's keywords, of which `dtype` is the type to compute in."""
    op = function.__name__
    dtype = numpy_options(op, numpy, "dtype").get("dtype")
    if dtype is None:
        return function(*operands)
    wanted = dtype_of(dtype)
    if wanted is not bool_:  # what gives bools does not compute in them
        like = next((x for x in operands if isinstance(x, Tensor)), None)
        operands = tuple(in_dtype(op, x, wanted, like) for x in operands)
    result = function(*operands)
    if result.dtype != wanted:
        raise TypeError(f"[{op}] cannot be computed in {wanted}: the result is {result.dtype}.")
    return result


KINDS = "buif"  # each fits into those behind it, if not in size


def in_dtype(
    op: str, x: TensorLike | None, dtype: DType, like: Tensor | None = None
) -> Tensor | Scalar | None:
    """An operand in a dtype that holds its kind; numbers stay numbers."""
    if x is None:  # no bound
        return x
    if is_scalar(x):
        kind, got = "f" if isinstance(x, (float, np.floating)) else "b", type(x).__name__
    else:
        x = check_tensor(op, x) if like is None else constant(x, like, op)
        kind, got = dtype_of(x.dtype).kind, x.dtype
    if KINDS.index(kind) > KINDS.index(dtype.kind):
        raise TypeError(f"[{op}] {got} does not go into {dtype}; cast it with astype.")
    return astype(x, dtype) if isinstance(x, Tensor) else x
