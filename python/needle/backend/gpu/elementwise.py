"""Elementwise kernels: fill, copy, unary, binary, where."""

from __future__ import annotations

import struct

import numpy as np

from ..._native import cuda
from ...dtype import DType, Scalar, float32
from ..protocol import Operand
from .modules import by_rank

# What elements of a dtype are in native/cuda/kernels.
STORED: dict[str, str] = {
    "float32": "f32", "float64": "f64", "float16": "f16_t", "bfloat16": "bf16_t",
    "int8": "int8_t", "int16": "int16_t", "int32": "i32", "int64": "i64", "uint8": "uint8_t",
    "bool": "bool_t",
}  # fmt: skip


def number(value: Scalar, dtype: DType) -> bytes:
    """A Number of elements.cuh: as computed for a dtype, in 8 bytes."""
    if not dtype.is_floating:
        return struct.pack("<q", int(value))
    with np.errstate(over="ignore"):
        return struct.pack("<d", float(np.float32(value)) if dtype is float32 else float(value))


def fill(out: Operand, value: Scalar) -> None:
    cuda.launch_each(by_rank("fill", DTYPE=STORED[out.dtype]), (out,), (), number(value, out.dtype))


def copy(out: Operand, a: Operand) -> None:
    find = by_rank("copy", OUT=STORED[out.dtype], DTYPE=STORED[a.dtype])
    cuda.launch_each(find, (out,), (a,), b"", "copy")


def unary(name: str, out: Operand, a: Operand) -> None:
    find = by_rank("unary", FUNCTION=name, DTYPE=STORED[a.dtype])
    cuda.launch_each(find, (out,), (a,), b"", name)


def binary(name: str, out: Operand, a: Operand | Scalar, b: Operand | Scalar) -> None:
    if isinstance(a, (bool, int, float)):
        assert not isinstance(b, (bool, int, float))
        _binary(name, out, b, b, struct.pack("<q", 1) + number(a, b.dtype))
    elif isinstance(b, (bool, int, float)):
        _binary(name, out, a, a, struct.pack("<q", 2) + number(b, a.dtype))
    else:
        _binary(name, out, a, b, struct.pack("<qq", 0, 0))


def _binary(name: str, out: Operand, a: Operand, b: Operand, tail: bytes) -> None:
    find = by_rank("binary", FUNCTION=name, DTYPE=STORED[a.dtype])
    cuda.launch_each(find, (out,), (a, b), tail, name)


def where(out: Operand, cond: Operand, a: Operand, b: Operand) -> None:
    cuda.launch_each(by_rank("where", DTYPE=STORED[out.dtype]), (out,), (cond, a, b), b"", "where")
