"""Operands as NumPy arrays: what the reference kernels read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtype import DType, bfloat16, float16
from .protocol import Operand, Scalar

if TYPE_CHECKING:
    from ..types import NumpyArray

Array = np.ndarray[Any, Any]


class Handle:
    """A flat NumPy array and the type that its elements stand for."""

    __slots__ = ("array", "dtype", "__weakref__")

    def __init__(self, array: Array, dtype: DType):
        self.array = array
        self.dtype = dtype

    @property
    def size(self) -> int:
        return self.array.size

    def ptr(self) -> int:
        return self.array.ctypes.data


class Owned:
    """A new operand in C order."""

    def __init__(self, shape: tuple[int, ...], dtype: DType):
        array = np.empty(shape, dtype.storage)
        self._handle = Handle(array.reshape(-1), dtype)
        self.shape = shape
        self.strides = tuple(s // array.itemsize for s in array.strides)
        self.offset = 0
        self.dtype = dtype


def widen(bits: Array) -> Array:
    """bfloat16 bits -> float32: the upper half of the word."""
    return np.asarray(bits.astype(np.uint32) << 16).view(np.float32)


def narrow(values: Array) -> Array:
    """float32 -> bfloat16 bits, to nearest even; NaN stays NaN."""
    bits = np.asarray(values, np.float32).view(np.uint32)  # 0-d stays 0-d
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0 | (bits >> 16), rounded).astype(np.uint16)


def view(operand: Operand) -> Array:
    """The operand's storage as a NumPy view (NumPy refuses one that leaves the buffer)."""
    flat, size = operand._handle.array, operand.dtype.itemsize
    if 0 in operand.shape:
        return np.empty(operand.shape, flat.dtype)
    strides = tuple(s * size for s in operand.strides)
    return np.ndarray(operand.shape, flat.dtype, flat, operand.offset * size, strides)


def load(operand: Operand | Scalar, dtype: DType | None = None) -> NumpyArray:
    """The operand's elements, ready to compute with: half types as float32."""
    if isinstance(operand, (bool, int, float)):
        assert dtype is not None
        compute_type = np.float32 if dtype in (bfloat16, float16) else dtype.storage
        return np.asarray(operand).astype(compute_type)
    if operand.dtype is bfloat16:
        return widen(view(operand))
    if operand.dtype is float16:
        return view(operand).astype(np.float32)
    return view(operand)


def store(out: Operand, values: object) -> None:
    """Round and write: the one place where results become storage."""
    values = np.asarray(values)
    if out.dtype is bfloat16:
        values = narrow(values.astype(np.float32))
    view(out)[...] = values.astype(out.dtype.storage)


def accumulator(out: Operand) -> dict[str, Any]:
    """Half types and float32 accumulate in float64: the reference is the accurate one."""
    return {"dtype": np.float64 if out.dtype.is_floating else out.dtype.storage}
