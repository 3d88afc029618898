"""The functions of `torch.linalg`."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

from ..functions import reduction
from ..functions.common import axes_of, check, fail, is_floating, takes_out
from ..functions.indexing import where
from . import factors

Eigh = namedtuple("Eigh", "eigenvalues eigenvectors")
QR = namedtuple("QR", "Q R")
SVD = namedtuple("SVD", "U S Vh")
SLogDet = namedtuple("SLogDet", "sign logabsdet")


class LinAlgError(RuntimeError):
    """A matrix that LAPACK cannot invert or take apart."""


def _matrices(op: str, x: Any, square: bool = True) -> Any:
    """x, which must consist of matrices of float32 or float64."""
    if not is_floating(check(op, x)) or x.element_size() < 4:
        raise fail(op, f"linalg.{op}: Expected float32 or float64 matrices, got {x.dtype}")
    if x.ndim < 2:
        raise fail(op, f"linalg.{op}: The input tensor A must have at least 2 dimensions.")
    if square and x.shape[-1] != x.shape[-2]:
        raise fail(
            op,
            f"linalg.{op}: A must be batches of square matrices, but they are {x.shape[-2]} by "
            f"{x.shape[-1]} matrices",
        )
    return x


@takes_out
def inv(A: Any) -> Any:
    """The inverse."""
    return factors.Inverse()(_matrices("inv", A))


@takes_out
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """X with A X = B, or X A = B; B has vectors if it has A's shape without the last axis."""
    _matrices("solve", A)
    if not left:
        return factors.transposed(solve(factors.transposed(A), factors.transposed(B)))
    is_vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    right = B.unsqueeze(-1) if is_vector else B
    stack = tuple((A[..., :1, :1] + right[..., :1, :1]).shape[:-2])
    A, right = A.expand(*stack, *A.shape[-2:]), right.expand(*stack, *right.shape[-2:])
    found = factors.Solve()(A, right)
    return found.squeeze(-1) if is_vector else found


@takes_out
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """The triangle L with A = L Lᵀ, or U with A = Uᵀ U."""
    found = factors.Cholesky()(_matrices("cholesky", A))
    return factors.transposed(found) if upper else found


def eigh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues, from the least on, and eigenvectors of symmetric matrices."""
    if UPLO not in ("L", "U", "l", "u"):
        raise fail("eigh", f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return Eigh(*factors.Eigh(UPLO.upper())(_matrices("eigh", A)).tuple())


def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric matrices."""
    return eigh(A, UPLO).eigenvalues


def qr(A: Any, mode: str = "reduced") -> Any:
    """A = Q R, with orthonormal columns in Q and a triangle R."""
    if mode != "reduced":
        raise NotImplementedError(f"torch.linalg.qr: mode={mode!r} is missing; use 'reduced'.")
    return QR(*factors.QR()(_matrices("qr", A, square=False)).tuple())


def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """A = U diag(S) Vh, with the largest singular values first."""
    n, m = _matrices("svd", A, square=False).shape[-2:]
    if full_matrices and n != m:
        raise NotImplementedError(
            "torch.linalg.svd: full_matrices=True is missing for matrices that are not square; "
            "pass full_matrices=False."
        )
    return SVD(*factors.SVD()(A).tuple())


def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """The singular values, the largest first."""
    return svd(A, full_matrices=False).S


@takes_out
def pinv(A: Any, *, rtol: float | None = None) -> Any:
    """The pseudoinverse: singular values below rtol times the largest count as 0."""
    u, s, vh = svd(A, full_matrices=False)
    eps = 2.0**-23 if A.element_size() == 4 else 2.0**-52
    rtol = max(A.shape[-2:]) * eps if rtol is None else rtol
    counts = s > rtol * s.amax(-1, keepdim=True)
    kept = s.masked_fill(counts.logical_not(), 1.0).reciprocal() * counts
    return factors.transposed(vh) @ (kept.unsqueeze(-1) * factors.transposed(u))


def slogdet(A: Any) -> Any:
    """The sign of the determinant, and the logarithm of its absolute value."""
    sign, logarithm = factors.Determinant()(_matrices("slogdet", A)).tuple()
    return SLogDet(sign.detach(), logarithm)


@takes_out
def det(A: Any) -> Any:
    """The determinant. Its gradient needs an inverse."""
    sign, logarithm = slogdet(_matrices("det", A))
    return sign * logarithm.exp()


def logdet(input: Any) -> Any:
    """The logarithm of the determinant; nan if it is negative."""
    sign, logarithm = slogdet(input)
    return where(sign < 0, math.nan, logarithm)


def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """The pseudoinverse, `pinv`."""
    return pinv(input, rtol=rcond)


@takes_out
def vector_norm(
    x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """(Σ |x|^ord)^(1/ord)"""
    return reduction.norm(x, ord, dim, keepdim, dtype)


@takes_out
def matrix_norm(
    A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """A norm of matrices: "fro", "nuc", 1, 2, inf, or the smallest with a minus."""
    x = A if dtype is None else A.to(dtype)
    rows, columns = axes_of("matrix_norm", dim, x.ndim)
    if ord == "fro":
        return reduction.norm(x, 2, (rows, columns), keepdim)
    if ord in (1, -1, math.inf, -math.inf):
        added, chosen = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = x.abs().sum(added, keepdim=True)
        found = sums.amax(chosen, True) if ord > 0 else sums.amin(chosen, True)
    elif ord in ("nuc", 2, -2):
        s = svdvals(x.movedim((rows, columns), (-2, -1)))
        found = s.sum(-1) if ord == "nuc" else s.amax(-1) if ord == 2 else s.amin(-1)
        for axis in sorted((rows, columns)):
            found = found.unsqueeze(axis)
    else:
        raise fail("matrix_norm", f"linalg.matrix_norm: Order {ord} not supported.")
    return found if keepdim else found.squeeze((rows, columns))


@takes_out
def norm(
    A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The norm of a vector, or of matrices if two axes or ord are given for one."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    axes = axes_of("norm", dim, A.ndim) if dim is not None else tuple(range(A.ndim))
    if len(axes) == 2:
        return matrix_norm(A, ord, axes, keepdim, dtype=dtype)
    if len(axes) != 1:
        raise fail("norm", "linalg.norm: If dim is not specified but ord is, the input must be 1D "
                   f"or 2D. Got {A.ndim}D.")  # fmt: skip
    return vector_norm(A, ord, axes, keepdim, dtype=dtype)
