"""The base of operators that work element by element.

The operators themselves are in compare.py (comparisons, choice, logic, bits), arithmetic.py and
unary.py, one paragraph each. There y is the result (`node`), g the adjoint of y (`out_grad`).
Inputs broadcast; `fit` sums and casts a gradient back to its input.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ..autograd import Tensor, TensorOp
from ..dtype import dtype_of
from ..ndarray import functions as F
from .common import Scalar, check_tensor, constant

__all__ = ["Elementwise", "WithScalar", "Cast", "astype"]


class Elementwise(TensorOp):
    """Computes with the kernel of the same name on every device."""

    elementwise = True
    kernel: ClassVar[str]

    def compute(self, a: Any, *b: Any) -> Any:
        return F.binary(self.kernel, a, b[0]) if b else F.unary(self.kernel, a)


class WithScalar(Elementwise):
    """x (kernel) scalar. The scalar is a parameter, not a node."""

    def __init__(self, scalar: Scalar):
        self.scalar = scalar

    def compute(self, a: Any) -> Any:
        return F.binary(self.kernel, a, self.scalar)


class Cast(TensorOp):
    """y = x in another dtype; the gradient is cast back, and there is none through integers"""

    elementwise = True
    linear = True

    def __init__(self, dtype: Any):
        self.dtype = dtype_of(dtype)
        if not self.dtype.is_floating:
            self.differentiable = False  # type: ignore[misc]

    def compute(self, a: Any) -> Any:
        return F.cast(a, self.dtype)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad.astype(node.inputs[0].dtype)


def astype(x: Tensor, dtype: Any) -> Tensor:
    """x with another dtype; x itself when it has it."""
    check_tensor("astype", x)
    dtype = dtype_of(dtype)
    return x if x.dtype == dtype else Cast(dtype)(x)


def pair(op: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors; at least one must be one already."""
    if isinstance(a, Tensor):
        return a, b if isinstance(b, Tensor) else constant(b, a, op)
    if isinstance(b, Tensor):
        return constant(a, b, op), b
    raise TypeError(
        f"[{op}] expected at least one Tensor, got {type(a).__name__} and {type(b).__name__}."
    )
