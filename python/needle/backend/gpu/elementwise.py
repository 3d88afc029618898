"""Elementwise kernels: fill, copy, unary, binary, where."""

from __future__ import annotations

import math
import struct

import numpy as np

from ..._native import cuda
from ...dtype import DType, Scalar, float32
from ..protocol import Operand
from . import views
from .modules import by_rank, kernel

TILE = 32  # rows and columns of transpose.cu

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
    axes = _turned_axes(out, a)
    if axes is not None:
        return _transpose(out, a, *axes)
    find = by_rank("copy", OUT=STORED[out.dtype], DTYPE=STORED[a.dtype])
    cuda.launch_each(find, (out,), (a,), b"", "copy")


def _turned_axes(out: Operand, a: Operand) -> tuple[int, int] | None:
    """The axes along which a's and out's neighbours lie, if they are two long ones."""
    if len(a.shape) != len(out.shape) or len(out.shape) > views.MOST_AXES + 2:
        return None
    long = [axis for axis, n in enumerate(out.shape) if n >= TILE and a.shape[axis] == n]
    rows = [axis for axis in long if a.strides[axis] == 1 and out.strides[axis] != 1]
    columns = [axis for axis in long if out.strides[axis] == 1 and a.strides[axis] != 1]
    return (rows[0], columns[0]) if rows and columns else None


def _transpose(out: Operand, a: Operand, row: int, column: int) -> None:
    others = [axis for axis in range(len(out.shape)) if axis not in (row, column)]
    shape = tuple(out.shape[axis] for axis in others)
    broadcast = [views.broadcast_strides(o, tuple(out.shape)) for o in (out, a)]
    rank, tail = views.space(shape, [tuple(s[axis] for axis in others) for s in broadcast])
    rows, columns = out.shape[row], out.shape[column]
    tail += views.members("2q2I", out.strides[row], a.strides[column], rows, columns)
    call = kernel("transpose", OUT=STORED[out.dtype], DTYPE=STORED[a.dtype], RANK=rank)
    tiles = views.blocks_for(rows, TILE) * views.blocks_for(columns, TILE)
    call.launch(tiles * math.prod(shape), 256, (out,), (a,), tail)


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
