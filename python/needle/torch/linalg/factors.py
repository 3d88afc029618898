"""Operators of matrices, in stacks (..., n, n): NumPy's LAPACK computes, and gradients are made of
operators, so that gradients have gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd import TensorOp, TensorTupleOp
from ...ndarray.array import from_numpy
from ..functions.creation import ones_like
from ..functions.shape import diag_embed, transpose, tril, unsqueeze

Arrays = tuple[Any, ...]


def by_numpy(function: Callable[..., Any], *arrays: Any) -> Any:
    """function(*arrays) of NumPy's arrays; what LAPACK cannot do is PyTorch's error."""
    from .functions import LinAlgError

    try:
        found = function(*(a.numpy() for a in arrays))
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"linalg: {error}") from None
    dtype, device = arrays[0].dtype, arrays[0].device
    if not isinstance(found, tuple):
        return from_numpy(np.ascontiguousarray(found), dtype, device)
    return tuple(from_numpy(np.ascontiguousarray(x), dtype, device) for x in found)


def transposed(x: Any) -> Any:
    """Each matrix, transposed."""
    return transpose(x, -2, -1)


def symmetric(x: Any) -> Any:
    """(x + xᵀ) / 2"""
    return (x + transposed(x)) / 2


class Inverse(TensorOp):
    """y = x⁻¹;  dx = -yᵀ g yᵀ"""

    def compute(self, a: Any) -> Any:
        return by_numpy(np.linalg.inv, a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        y = transposed(node)
        return -(y @ out_grad @ y)


class Solve(TensorOp):
    """y = a⁻¹ b, of matrices b in stacks as a's;  db = a⁻ᵀ g,  da = -db yᵀ"""

    def compute(self, a: Any, b: Any) -> Any:
        return by_numpy(np.linalg.solve, a, b)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        g = Solve()(transposed(node.inputs[0]), out_grad)
        return -(g @ transposed(node)), g


class Cholesky(TensorOp):
    """x = y yᵀ;  dx = sym(y⁻ᵀ Φ(yᵀ g) y⁻¹), where Φ takes the lower triangle, half its diagonal"""

    def compute(self, a: Any) -> Any:
        return by_numpy(np.linalg.cholesky, a)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        inner = transposed(node) @ out_grad
        inverse = Inverse()(node)
        return symmetric(transposed(inverse) @ lower(inner) @ inverse)


def lower(x: Any) -> Any:
    """The lower triangle, with half of the diagonal."""
    return (tril(x) + tril(x, -1)) / 2


class Eigh(TensorTupleOp):
    """(w, v) with x = v diag(w) vᵀ;  dx = v (diag(g_w) + (vᵀ g_v) / (w_j - w_i)) vᵀ"""

    def __init__(self, triangle: str):
        self.triangle = triangle  # "L" or "U": the only one that is read

    def compute(self, a: Any) -> Arrays:
        return by_numpy(self._factors, a)  # type: ignore[no-any-return]

    def _factors(self, x: Any) -> Arrays:
        which: Any = self.triangle
        return tuple(np.linalg.eigh(x, which))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (w, v), (g_w, g_v) = node.tuple(), out_grad.tuple()
        inner = diag_embed(g_w) + (transposed(v) @ g_v) * reciprocal_gaps(w)
        return symmetric(v @ inner @ transposed(v))


def reciprocal_gaps(w: Any) -> Any:
    """1 / (w_j - w_i), and 0 on the diagonal"""
    gaps = unsqueeze(w, -2) - unsqueeze(w, -1)
    ones = diag_embed(ones_like(w.detach()))
    return (1 - ones) / (gaps + ones)


class SVD(TensorTupleOp):
    """(u, s, vᵀ) with x = u diag(s) vᵀ, the short form

    With F = 1 / (s_j² - s_i²), U = F (uᵀ g_u - g_uᵀ u), V likewise:
    dx = u (U s + s V + diag(g_s)) vᵀ + (1 - u uᵀ) g_u s⁻¹ vᵀ + u s⁻¹ g_vᵀ (1 - v vᵀ)"""

    def compute(self, a: Any) -> Arrays:
        return by_numpy(lambda x: tuple(np.linalg.svd(x, full_matrices=False)), a)  # type: ignore[no-any-return]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (u, s, vt), (g_u, g_s, g_vt) = node.tuple(), out_grad.tuple()
        v, g_v = transposed(vt), transposed(g_vt)
        gaps = reciprocal_gaps(s * s)
        rows, columns = unsqueeze(s, -1), unsqueeze(s, -2)
        of_u, of_v = transposed(u) @ g_u, transposed(v) @ g_v
        inner = gaps * (of_u - transposed(of_u)) * columns
        inner = inner + rows * gaps * (of_v - transposed(of_v)) + diag_embed(g_s)
        dx = u @ inner @ vt
        if u.shape[-2] > s.shape[-1]:
            dx = dx + ((g_u - u @ of_u) / columns) @ vt
        if v.shape[-2] > s.shape[-1]:
            dx = dx + u @ transposed((g_v - v @ of_v) / columns)
        return dx


class QR(TensorTupleOp):
    """(q, r) with x = q r, the short form;  dx = (g_q + q copy(r g_rᵀ - g_qᵀ q)) r⁻ᵀ

    where copy puts the lower triangle in the upper one, too."""

    def compute(self, a: Any) -> Arrays:
        return by_numpy(lambda x: tuple(np.linalg.qr(x)), a)  # type: ignore[no-any-return]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (q, r), (g_q, g_r) = node.tuple(), out_grad.tuple()
        if r.shape[-2] != r.shape[-1]:
            raise NotImplementedError("linalg.qr: the gradient of wide matrices is missing.")
        inner = r @ transposed(g_r) - transposed(g_q) @ q
        mirrored = tril(inner) + transposed(tril(inner, -1))
        found = Solve()(r, transposed(g_q + q @ mirrored))
        return transposed(found)


class Determinant(TensorTupleOp):
    """(sign, ln |det x|);  dx = g x⁻ᵀ"""

    def compute(self, a: Any) -> Arrays:
        return by_numpy(lambda x: tuple(np.linalg.slogdet(x)), a)  # type: ignore[no-any-return]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        inverse = transposed(Inverse()(node.inputs[0]))
        return unsqueeze(unsqueeze(out_grad.tuple()[1], -1), -1) * inverse
