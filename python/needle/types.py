"""The types of signatures: what functions of several rooms take and give.

Only type checkers import this file.

Stands on: autograd.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, TypeAlias, TypedDict

import numpy as np

from .autograd.tensor import Tensor as Tensor, TensorTuple as TensorTuple, Value as Value
from .backend import BackendDevice as BackendDevice
from .backend.protocol import Backend as Backend, Handle as Handle
from .dtype import DType as DType, Scalar as Scalar
from .ndarray.array import NDArray as NDArray
from .ndarray.layout import Shape as Shape

NumpyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]  # of a dtype that only the run knows
Arrays: TypeAlias = tuple[NDArray, ...]  # what an operator with several results computes
Nested: TypeAlias = list[Any] | tuple[Any, ...] | range  # of numbers; text is none
ArrayLike: TypeAlias = NDArray | NumpyArray | np.generic | Scalar | Nested
TensorLike: TypeAlias = Tensor | ArrayLike  # an operand of Tensor's arithmetic
DTypeLike: TypeAlias = DType | str | type | np.dtype[Any]
DeviceLike: TypeAlias = BackendDevice | str
PathLike: TypeAlias = str | os.PathLike[str]


class Placed(TypedDict, total=False):
    """Where a layer's parameters are made, and in which dtype."""

    device: DeviceLike | None
    dtype: DTypeLike


Axes: TypeAlias = int | Sequence[int] | None
Sizes: TypeAlias = int | Sequence[int]  # one for all axes, or one for each
ShapeLike: TypeAlias = Sizes | np.integer[Any] | NumpyArray | Tensor  # of a new tensor
Border: TypeAlias = Sizes | Sequence[Sequence[int]] | NumpyArray  # also (before, after) pairs
Padding: TypeAlias = Sizes | Sequence[Sequence[int]] | str
IndexEntry: TypeAlias = (
    int | slice | EllipsisType | Tensor | NDArray | NumpyArray | np.generic | Nested | None
)
Index: TypeAlias = IndexEntry | tuple[IndexEntry, ...]  # x[index]

RawData: TypeAlias = NDArray | Arrays | None  # of a value of the graph; None: not computed yet
Adjoint: TypeAlias = Tensor | TensorTuple | None  # None: nothing flows there
Gradients: TypeAlias = Adjoint | Sequence[Adjoint]  # one for each input of an operator
