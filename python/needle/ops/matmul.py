"""Products of matrices and vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Unpack

from ..autograd import Tensor, TensorOp
from ..ndarray import functions as F
from .arithmetic import multiply
from .common import Ufunc, no_out
from .elementwise import pair, ufunc
from .shape.movement import permute, reshape, transpose

if TYPE_CHECKING:
    from ..types import Gradients, NDArray, TensorLike

__all__ = ["MatMul", "matmul", "dot", "outer"]


class MatMul(TensorOp):
    """y = a b for (..., M, K) and (..., K, N), the leading axes broadcast.

    da = g bᵀ,  db = aᵀ g, each summed over the axes that were broadcast. A 1-D operand is a row on
    the left or a column on the right, and its axis is left out of the result, as in NumPy. b in
    float16, bfloat16 or int8 beside a float32 a is widened as it is read, not copied.
    """

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        if len(a.shape) == len(b.shape) == 2:
            return F.matmul(a, b)
        _check(a.shape, b.shape)
        inner = a.shape[-1]
        left = F.reshape(a, (1, inner)) if len(a.shape) == 1 else a
        right = F.reshape(b, (inner, 1)) if len(b.shape) == 1 else b
        if len(right.shape) > 2:
            product = F.matmul(left, right)
            return product if len(a.shape) > 1 else F.squeeze(product, (len(product.shape) - 2,))
        # One matrix on the right for all: one product with all rows below each other.
        rows, columns = a.shape[:-1], b.shape[1:]
        product = F.matmul(F.reshape(left, (math.prod(rows), inner)), right)
        return F.reshape(product, (*rows, *columns))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        a: Any
        b: Any
        a, b = node.inputs
        g: Any = out_grad
        left, right = a, b
        if b.ndim == 1:  # a column
            right, g = b.expand_dims(1), g.expand_dims(-1)
        if a.ndim == 1:  # a row
            left, g = a.expand_dims(0), g.expand_dims(-2)
        by_left = g @ transpose(right) if a.requires_grad else None
        if not b.requires_grad:
            return by_left, None
        if right.ndim == 2 and left.ndim > 2:
            left, g = _rows(left), _rows(g)
        by_right = transpose(left) @ g
        return by_left, by_right.squeeze(-1) if b.ndim == 1 else by_right


def _check(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    if not a or not b:
        raise ValueError(f"[matmul] expected at least 1 axis, got shapes {a} and {b}; use *.")
    if a[-1] != b[max(len(b) - 2, 0)]:
        place = "b.shape[-2]" if len(b) > 1 else "b.shape[0]"
        raise ValueError(
            f"[matmul] inner dimensions differ: {a} @ {b}; expected a.shape[-1] == {place}, "
            f"got {a[-1]} and {b[max(len(b) - 2, 0)]}."
        )


def _rows(x: Tensor) -> Tensor:
    """(..., K) as (rows, K)"""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def matmul(a: TensorLike, b: TensorLike, **numpy: Unpack[Ufunc]) -> Tensor:
    """The matrix product a @ b, batched and broadcast over the leading axes."""
    if numpy:
        return ufunc(matmul, numpy, a, b)
    return MatMul()(*pair("matmul", a, b))


def dot(a: TensorLike, b: TensorLike, out: None = None) -> Tensor:
    """NumPy's dot: the last axis of a with the last but one of b; products with 0-d tensors."""
    no_out("dot", out)
    a, b = pair("dot", a, b)
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    if b.ndim <= 2:
        return matmul(a, b)
    # (..., K) with (B..., K, N): b becomes one matrix (K, B... N).
    inner, batch, columns = b.shape[-2], b.shape[:-2], b.shape[-1]
    order = (b.ndim - 2, *range(b.ndim - 2), b.ndim - 1)
    flat = reshape(permute(b, order), inner, math.prod(batch) * columns)
    return reshape(matmul(a, flat), *a.shape[:-1], *batch, columns)


def outer(a: TensorLike, b: TensorLike, out: None = None) -> Tensor:
    """y[i, j] = a[i] b[j], of the flattened tensors."""
    no_out("outer", out)
    a, b = pair("outer", a, b)
    return multiply(reshape(a, a.size, 1), reshape(b, 1, b.size))
