"""Arrays around memory that others own: NumPy's, PyTorch's, JAX's. Nothing is copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ... import config
from ...dtype import dtype_of
from ..array import view_of

if TYPE_CHECKING:
    from ...types import NDArray, NumpyArray


def from_dlpack(source: object) -> NumpyArray | NDArray:
    """The memory of an object with `__dlpack__`, as tensors hold arrays."""
    if not hasattr(source, "__dlpack__"):
        raise TypeError(
            f"[from_dlpack] expected an object with __dlpack__, got {type(source).__name__}."
        )
    if config.BACKEND == "np":
        return np.from_dlpack(source)
    return view_of(source)


def from_numpy(array: NumpyArray) -> NumpyArray | NDArray:
    """The memory of a NumPy array, as tensors hold arrays."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"[from_numpy] expected a numpy.ndarray, got {type(array).__name__}.")
    dtype_of(array.dtype)
    return array if config.BACKEND == "np" else from_dlpack(array)
