"""Memory of the device, and copies from and to the host's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..._native import cuda
from ...dtype import DType, bfloat16
from ..protocol import Operand
from ..storage import widen

if TYPE_CHECKING:
    from ...types import NumpyArray
    from ..protocol import Handle

empty = cuda.empty


def from_numpy(array: NumpyArray, dtype: DType) -> Handle:
    stored = np.ascontiguousarray(array, dtype.storage)
    handle = cuda.empty(stored.size, dtype)
    cuda.copy_in(handle, stored.ctypes.data)
    return handle


def to_numpy(a: Operand) -> NumpyArray:
    compact = _Compact(a.shape, a.dtype)
    if compact.strides == tuple(a.strides) and a.offset == 0 and a._handle.size == compact.size:
        handle = a._handle
    else:
        from .elementwise import copy

        copy(compact, a)
        handle = compact._handle
    stored = np.empty(a.shape, a.dtype.storage)
    cuda.copy_out(handle, stored.ctypes.data)
    return widen(stored) if a.dtype is bfloat16 else stored


class _Compact:
    """A new operand in C order; its memory is there when it is asked for."""

    __slots__ = ("shape", "strides", "offset", "dtype", "size", "_handle")

    def __init__(self, shape: tuple[int, ...], dtype: DType):
        self.shape, self.dtype, self.offset = shape, dtype, 0
        self.size = math.prod(shape)
        strides, step = [], 1
        for n in reversed(shape):
            strides.append(step)
            step *= n
        self.strides = tuple(reversed(strides))
        self._handle = cuda.empty(self.size, dtype)
