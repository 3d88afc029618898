"""Arrays around memory that others own: NumPy's, PyTorch's, JAX's. Nothing is copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _native, config
from ..backend import cpu
from ..dtype import dtype_of
from .array import make_view


def from_dlpack(source: Any) -> Any:
    """The memory of an object with `__dlpack__`, as tensors hold arrays."""
    if not hasattr(source, "__dlpack__"):
        raise TypeError(
            f"[from_dlpack] expected an object with __dlpack__, got {type(source).__name__}."
        )
    if config.BACKEND == "np":
        return np.from_dlpack(source)
    handle, shape, strides, name = _native.from_dlpack(_capsule(source))
    return make_view(shape, strides, 0, dtype_of(name), cpu(), handle)


def _capsule(source: Any) -> Any:
    try:
        return source.__dlpack__(max_version=(1, 0))  # read-only memory needs version 1
    except TypeError:
        return source.__dlpack__()


def from_numpy(array: np.ndarray[Any, Any]) -> Any:
    """The memory of a NumPy array, as tensors hold arrays."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"[from_numpy] expected a numpy.ndarray, got {type(array).__name__}.")
    dtype_of(array.dtype)
    return array if config.BACKEND == "np" else from_dlpack(array)
