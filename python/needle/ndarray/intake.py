"""What a new tensor holds of what it is given: a NumPy array in np mode, else an NDArray."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import config
from ..backend import BackendDevice, default_device
from ..dtype import DType, bfloat16, dtype_of, float32
from . import functions
from .array import NDArray, from_numpy


def take_in(source: Any, device: BackendDevice | None, dtype: Any, share: bool) -> Any:
    """Numbers, nested lists or an array as the data of a tensor; a copy, unless it may share."""
    if config.BACKEND == "np":
        wanted = source.dtype if dtype is None and share else _numpy_dtype(dtype)
        return source if share and source.dtype == wanted else _numbers(np.array(source, wanted))
    if isinstance(source, NDArray):
        moved = source if device is None else source.to(device)
        moved = moved if dtype is None else functions.cast(moved, dtype)
        return moved if share or moved is not source else source.copy()
    kind: DType = float32 if dtype is None else dtype_of(dtype)
    return from_numpy(_numbers(np.asarray(source)), kind, device or default_device())


def _numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise TypeError(f"[Tensor] expected real numbers, got dtype {array.dtype}.")
    return array


def _numpy_dtype(dtype: Any) -> Any:
    """How NumPy spells it; None is its own choice."""
    if dtype is not None and dtype_of(dtype) is bfloat16:
        raise TypeError("[Tensor] NumPy has no bfloat16: use NEEDLE_BACKEND=nd for it.")
    return None if dtype is None else dtype_of(dtype).storage
