"""Weighted sums along an axis, with a sparse matrix of numbers: what resizing is made of."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ...autograd import Tensor, TensorOp
from ...ndarray import functions as F
from ..common import constant

Numbers = np.ndarray[Any, Any]


class SparseMatrix:
    """A matrix of which row j has weights[e] in column places[e] for starts[j] <= e < starts[j+1].

    Weights of one place add up."""

    def __init__(self, starts: Numbers, places: Numbers, weights: Numbers, columns: int):
        self.starts = starts
        self.places = places
        self.weights = weights
        self.columns = columns

    @cached_property
    def transposed(self) -> SparseMatrix:
        rows = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        order = np.argsort(self.places, kind="stable")
        counts = np.bincount(self.places, minlength=self.columns)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return SparseMatrix(starts, rows[order], self.weights[order], len(self.starts) - 1)


class Mix(TensorOp):
    """y = m x along an axis: y_j = Σ m_ji x_i,  dx = mᵀ g"""

    def __init__(self, matrix: SparseMatrix, axis: int):
        self.matrix = matrix
        self.axis = axis

    def compute(self, a: Any, starts: Any, places: Any, weights: Any) -> Any:
        return F.mix(a, starts, places, weights, self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return mix(out_grad, self.matrix.transposed, self.axis), None, None, None


def mix(x: Tensor, matrix: SparseMatrix, axis: int) -> Tensor:
    """m x along an axis of x, which is float32 or float64 as the matrix is."""
    numbers = matrix.starts, matrix.places, matrix.weights
    return Mix(matrix, axis)(x, *(constant(n, x) for n in numbers))
