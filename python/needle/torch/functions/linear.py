"""Products of matrices and vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...autograd import Tensor as EngineTensor
from ...dtype import bool_
from ...ops.contraction import einsum as contract
from ...ops.matmul import MatMul
from ...ops.shape.movement import Diagonal
from ..core.dtypes import dtype_in_engine as kind
from . import shape as S
from .arithmetic import add, mul
from .common import as_floating, axis_of, cast, check, fail, give, is_floating, takes_out


def _same_type(op: str, a: Any, b: Any) -> None:
    if kind(check(op, a)) is not kind(check(op, b)):
        raise fail(
            op, f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}"
        )


def _product(op: str, a: Any, b: Any, *ndims: tuple[int, int]) -> Any:
    _same_type(op, a, b)
    if ndims and (a.ndim, b.ndim) not in ndims:
        raise fail(op, f"expected operands of {ndims} dimensions, got {a.ndim} and {b.ndim}")
    if a.ndim == 0 or b.ndim == 0:
        raise fail(op, "both arguments to matmul need to be at least 1D")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise fail(op, f"mat1 and mat2 shapes cannot be multiplied ({_shown(a)} and {_shown(b)})")
    if kind(a) is bool_:
        raise fail(op, "\"addmm_impl_cpu_\" not implemented for 'Bool'")
    result = MatMul()(a, b)
    return result if kind(result) is kind(a) else cast(result, kind(a))


def _shown(x: Any) -> str:
    return "x".join(map(str, x.shape))


def is_sparse(x: Any) -> bool:
    """Is it a sparse tensor? Those are no tensors of the engine."""
    return not isinstance(x, EngineTensor) and getattr(x, "is_sparse", False)


def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """The matrix product, batched and broadcast over leading axes."""
    if is_sparse(input):
        return input @ other
    if kind(check("matmul", input)) is kind(check("matmul", other)) and is_floating(input):
        try:
            result = MatMul()(input, other)
        except ValueError as error:  # of shapes
            raise RuntimeError(str(error)) from None
    else:
        result = _product("matmul", input, other)
    return result if out is None else give("matmul", out, result)


@takes_out
def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices, of which the first may be sparse."""
    if is_sparse(input):
        return input @ mat2
    return _product("mm", input, mat2, (2, 2))


@takes_out
def bmm(input: Any, mat2: Any) -> Any:
    """The products of two batches of matrices."""
    if check("bmm", input).ndim == 3 and input.shape[0] != check("bmm", mat2).shape[0]:
        raise fail("bmm", "batch1 and batch2 must have same number of batches")
    return _product("bmm", input, mat2, (3, 3))


@takes_out
def mv(input: Any, vec: Any) -> Any:
    """The product of a matrix and a vector."""
    return _product("mv", input, vec, (2, 1))


@takes_out
def dot(input: Any, tensor: Any) -> Any:
    """The sum of the products of two vectors."""
    if check("dot", input).ndim == check("dot", tensor).ndim == 1 and input.shape != tensor.shape:
        raise fail("dot", f"inconsistent tensor size, expected tensor {list(input.shape)} and src "
                   f"{list(tensor.shape)} to have the same number of elements")  # fmt: skip
    return _product("dot", input, tensor, (1, 1))


vdot = dot


@takes_out
def inner(input: Any, other: Any) -> Any:
    """The products of the rows of one with the rows of the other."""
    if input.ndim == 0 or other.ndim == 0:
        return mul(input, other)
    return tensordot(input, other, ([-1], [-1]))


@takes_out
def outer(input: Any, vec2: Any) -> Any:
    """All products of elements of two vectors."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise fail("outer", "Expected 1-D arguments")
    return mul(S.unsqueeze(input, 1), S.unsqueeze(vec2, 0))


ger = outer


def _sum(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    if not is_floating(product):
        beta, alpha = int(beta), int(alpha)
    product = product if alpha == 1 else mul(product, alpha)
    if beta == 0:
        return product
    start = input if beta == 1 else mul(input, beta)
    if len(S.broadcast_shapes(start.shape, product.shape)) != product.ndim:
        raise fail("addmm", f"The expanded size of the tensor {list(product.shape)} must match")
    return add(S.expand(start, product.shape), product)


@takes_out
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta input + alpha mat1 @ mat2"""
    return _sum(input, mm(mat1, mat2), beta, alpha)


@takes_out
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta input + alpha mat @ vec"""
    return _sum(input, mv(mat, vec), beta, alpha)


@takes_out
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta input + alpha vec1 vec2ᵀ"""
    product = outer(vec1, vec2)
    if kind(product) is bool_:
        return S.expand(input, product.shape) | product if beta else product
    return _sum(input, product, beta, alpha)


@takes_out
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta input + alpha batch1 @ batch2"""
    return _sum(input, bmm(batch1, batch2), beta, alpha)


@takes_out
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta input + alpha Σ batch1 @ batch2"""
    return _sum(input, bmm(batch1, batch2).sum(0), beta, alpha)


def chain_matmul(*matrices: Any) -> Any:
    """The product of several matrices."""
    result = matrices[0]
    for m in matrices[1:]:
        result = mm(result, m)
    return result


def matrix_power(input: Any, n: int) -> Any:
    """A matrix multiplied with itself n times."""
    if n < 0:
        raise NotImplementedError("torch.matrix_power: expected n >= 0; invert the matrix first.")
    result, power = None, input
    if n == 0:
        from .creation import eye

        return S.expand(eye(input.shape[-1], dtype=input.dtype), input.shape).clone()
    while n:
        if n % 2:
            result = power if result is None else matmul(result, power)
        power, n = matmul(power, power) if n > 1 else power, n // 2
    return result


def trace(input: Any) -> Any:
    """The sum of a matrix's diagonal."""
    if check("trace", input).ndim != 2:
        raise fail("trace", "trace: expected a matrix")
    return Diagonal(0, 0, 1)(input).sum()


def einsum(equation: Any, *operands: Any) -> Any:
    """Products summed over the labels that the output does not have."""
    if not isinstance(equation, str):
        return _of_sublists(equation, *operands)
    given = (
        operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    )
    return contract(equation.replace(" ", ""), *given)


def _of_sublists(*parts: Any) -> Any:
    """einsum(a, [0, 1], b, [1, 2], [0, 2])"""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def text(labels: Sequence[Any]) -> str:
        return "".join("..." if i is Ellipsis else letters[i] for i in labels)

    pairs = [(parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
    equation = ",".join(text(labels) for _, labels in pairs)
    if len(parts) % 2:
        equation += "->" + text(parts[-1])
    return contract(equation, *(x for x, _ in pairs))


def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """Products summed over several axes of both."""
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise fail("tensordot", f"tensordot expects dims >= 0, but got dims={dims}")
        dims = (range(a.ndim - dims, a.ndim), range(dims))
    left, right = (
        [axis_of("tensordot", i, x.ndim) for i in axes]
        for x, axes in zip((a, b), dims, strict=True)
    )
    rows = [i for i in range(a.ndim) if i not in left]
    columns = [i for i in range(b.ndim) if i not in right]
    k = math.prod(a.shape[i] for i in left)
    m, n = math.prod(a.shape[i] for i in rows), math.prod(b.shape[i] for i in columns)
    product = mm(
        S.reshape(S.permute(a, (*rows, *left)), m, k),
        S.reshape(S.permute(b, (*right, *columns)), k, n),
    )
    return S.reshape(product, (*(a.shape[i] for i in rows), *(b.shape[i] for i in columns)))


def kron(input: Any, other: Any) -> Any:
    """Every element of one times all of the other."""
    ndim = max(input.ndim, other.ndim)
    a, b = (S.reshape(x, (*[1] * (ndim - x.ndim), *x.shape)) for x in (input, other))
    left = S.reshape(a, tuple(m for n in a.shape for m in (n, 1)))
    right = S.reshape(b, tuple(m for n in b.shape for m in (1, n)))
    return S.reshape(mul(left, right), tuple(n * m for n, m in zip(a.shape, b.shape, strict=True)))


@takes_out
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """The vector product along an axis of size 3."""
    if dim is None:
        dim = next((i for i, n in enumerate(input.shape) if n == 3), -1)
    a, b = S.broadcast_tensors(input, other)
    if a.shape[dim] != 3:
        raise fail("cross", f"inputs dimension {dim} must have length 3, got {a.shape[dim]}")
    x, y = ([S.select(v, dim, i) for i in range(3)] for v in (a, b))
    from .joining import stack

    pairs = ((1, 2), (2, 0), (0, 1))
    return stack([x[i] * y[j] - x[j] * y[i] for i, j in pairs], axis_of("cross", dim, a.ndim))


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: object = None) -> Any:
    """The distances of all rows of one to all of the other."""
    from .reduction import vector_norm

    difference = S.unsqueeze(x1, -2) - S.unsqueeze(x2, -3)
    return vector_norm(difference, float(p), (difference.ndim - 1,), False)


def cov(input: Any, *, correction: float = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariances of rows."""
    x = as_floating(S.reshape(input, 1, -1) if input.ndim < 2 else input)
    weights = (
        fweights if aweights is None else aweights if fweights is None else fweights * aweights
    )
    if weights is None:
        centred = x - x.mean(1, keepdim=True)
        return S.squeeze(matmul(centred, S.t(centred)) / (x.shape[1] - correction))
    total = weights.sum()
    centred = x - ((x * weights).sum(1) / total).unsqueeze(1)
    bias = (weights * aweights).sum() / total if aweights is not None else 1
    return S.squeeze(matmul(centred, S.t(centred * weights)) / (total - correction * bias))


def corrcoef(input: Any) -> Any:
    """The correlations of rows."""
    c = cov(input)
    if c.ndim == 0:
        return c / c
    d = Diagonal(0, 0, 1)(c).sqrt()
    return (c / S.unsqueeze(d, 1) / S.unsqueeze(d, 0)).clamp(-1, 1)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along an axis."""
    from .reduction import norm

    a, b = S.broadcast_tensors(x1, x2)
    lengths = norm(a, 2, dim).clamp(min=eps) * norm(b, 2, dim).clamp(min=eps)
    return (a * b).sum(dim) / lengths
