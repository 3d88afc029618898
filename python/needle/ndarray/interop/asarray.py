"""What a new tensor holds of what it is given: a NumPy array in np mode, else an NDArray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ... import config
from ...backend import BackendDevice, default_device
from ...dtype import DType, bfloat16, dtype_of, float32
from .. import functions
from ..array import NDArray, from_numpy

if TYPE_CHECKING:
    from ...types import DTypeLike, NumpyArray


def as_array_data(source: Any, device: BackendDevice | None, dtype: Any, share: bool) -> Any:
    """Numbers, nested lists or an array as the data of a tensor; a copy, unless it may share."""
    if config.BACKEND == "np":
        wanted = source.dtype if dtype is None and share else numpy_dtype(dtype)
        if share and source.dtype == wanted:
            return source
        return np.array(numbers("Tensor", source, dtype), wanted)
    if isinstance(source, NDArray):
        moved = source if device is None else source.to(device)
        moved = moved if dtype is None else functions.cast(moved, dtype)
        return moved if share or moved is not source else source.copy()
    kind: DType = float32 if dtype is None else dtype_of(dtype)
    return from_numpy(numbers("Tensor", source, kind), kind, device or default_device())


def as_numpy(op: str, source: object) -> NumpyArray:
    """Nested lists or an array as a NumPy array."""
    try:
        array = np.asarray(source)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(f"[{op}] expected lists of equal lengths, got {source!r:.60}.") from None
    return array


def check_values(op: str, array: NumpyArray, dtype: DType) -> None:
    """Raise ValueError unless the integers of an array are values of an integer dtype."""
    if array.size and array.dtype.kind in "iuO" and dtype.is_integer:
        functions.check_fits(op, dtype, int(array.min()))
        functions.check_fits(op, dtype, int(array.max()))


def numbers(op: str, source: object, dtype: object) -> NumpyArray:
    """Real numbers as a NumPy array, which dtype (None: any) can hold.

    Whole numbers of Python must not wrap around; arrays are cast as `astype` does. NumPy would also
    take strings, None and the real part of complex numbers.
    """
    array = as_numpy(op, source)
    is_real = array.dtype.kind in "biuf" or array.dtype.name == "bfloat16"
    if not is_real and not _are_long(array):
        raise TypeError(f"[{op}] expected real numbers, got dtype {array.dtype}.")
    if dtype is not None and not hasattr(source, "dtype"):
        check_values(op, array, dtype_of(dtype))
    return array


def _are_long(array: NumpyArray) -> bool:
    """Are these numbers of which some have more than 64 bits?"""
    return array.dtype == object and all(isinstance(x, (int, float)) for x in array.flat)


def numpy_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """How NumPy spells it; None is its own choice."""
    if dtype is not None and dtype_of(dtype) is bfloat16:
        raise TypeError("[Tensor] NumPy has no bfloat16: use NEEDLE_BACKEND=nd for it.")
    return None if dtype is None else dtype_of(dtype).storage
