"""Weighted sums along an axis, with a sparse matrix of numbers: what resizing is made of."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...autograd import Tensor, TensorOp
from ...ndarray import functions as F
from ..common import constant

if TYPE_CHECKING:
    from ...types import Gradients, NDArray, NumpyArray


class SparseMatrix:
    """A matrix of which row j has values[e] in column indices[e] for indptr[j] <= e < indptr[j+1].

    Values of one place add up."""

    def __init__(self, indptr: NumpyArray, indices: NumpyArray, values: NumpyArray, columns: int):
        self.indptr = indptr
        self.indices = indices
        self.values = values
        self.columns = columns

    @cached_property
    def transposed(self) -> SparseMatrix:
        rows = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        order = np.argsort(self.indices, kind="stable")
        counts = np.bincount(self.indices, minlength=self.columns)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return SparseMatrix(indptr, rows[order], self.values[order], len(self.indptr) - 1)


class SparseMatmul(TensorOp):
    """y = m x along an axis: y_j = Σ m_ji x_i,  dx = mᵀ g"""

    def __init__(self, matrix: SparseMatrix, axis: int):
        self.matrix = matrix
        self.axis = axis

    def compute(self, a: NDArray, indptr: NDArray, indices: NDArray, values: NDArray) -> NDArray:
        return F.sparse_matmul(a, indptr, indices, values, self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return sparse_matmul(out_grad, self.matrix.transposed, self.axis), None, None, None


def sparse_matmul(x: Tensor, matrix: SparseMatrix, axis: int) -> Tensor:
    """m x along an axis of x, which is float32 or float64 as the matrix is."""
    numbers = matrix.indptr, matrix.indices, matrix.values
    return SparseMatmul(matrix, axis)(x, *(constant(n, x) for n in numbers))
