"""How C is written: types, numbers, and the body of a function over named operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...dtype import DType, bfloat16, bool_, float16, float32, float64
from ...tile.ir import computed_in
from ..ir.graph import Node, Operand
from .space import NotRendered

if TYPE_CHECKING:
    from ...types import Scalar

# What elements of a dtype are in memory.
STORED: dict[str, str] = {
    "float32": "f32", "float64": "f64", "float16": "uint16_t", "bfloat16": "uint16_t",
    "int8": "int8_t", "int16": "int16_t", "int32": "i32", "int64": "i64", "uint8": "uint8_t",
    "bool": "b8",
}  # fmt: skip


def suffix(dtype: DType) -> str:
    """The C type that values of a dtype are computed in, which also ends functions' names."""
    return STORED[computed_in(dtype)]


def literal(value: Scalar, dtype: DType) -> str:
    """A number as C writes it."""
    if dtype is bool_:
        return str(int(value))
    if dtype.is_integer:
        lowest, value = -(1 << 63), int(value)
        return "INT64_MIN" if value == lowest else f"({value})" if value < 0 else str(value)
    with np.errstate(over="ignore"):
        exact = float(np.float32(value)) if dtype is float32 else float(value)
    if math.isnan(exact):
        return "NAN"
    if math.isinf(exact):
        return "INFINITY" if exact > 0 else "(-INFINITY)"
    text = str(np.float32(value)) if dtype is float32 else repr(exact)
    text = text if {".", "e"} & set(text) else text + ".0"
    text += "f" if dtype is float32 else ""
    return f"({text})" if text.startswith("-") else text


def loaded(text: str, dtype: DType) -> str:
    """What is stored in memory, in the type that it is computed in."""
    if dtype in (float16, bfloat16):
        return f"f32_of_{'f16' if dtype is float16 else 'bf16'}({text})"
    return text


def rounded(text: str, source: DType, dtype: DType) -> str:
    """A value computed for one dtype, as another one is stored."""
    have, want = suffix(source), STORED[dtype]
    if dtype in (float16, bfloat16):
        cast = "round_to_odd_f32" if dtype is float16 and have == "f64" else "(f32)"
        number = text if have == "f32" else f"{cast}({text})"
        return f"{'f16' if dtype is float16 else 'bf16'}_of_f32({number})"
    if have == want:
        return text
    if dtype is bool_:
        return f"({text} != 0)"
    if source is bool_:
        return f"({text} ? ({want})1 : ({want})0)"  # which compilers make vectors of
    if source.is_floating and dtype.is_integer:
        whole = f"{'i64' if want == 'i64' else 'i32'}_of_{have}({text})"
        return whole if want in ("i32", "i64") else f"({want}){whole}"
    return f"({want}){text}"


# Functions ---------------------------------------------------------------------------------------


class CBody:
    """The body of a C function, while it is written."""

    def __init__(self, node: Node):
        self.node = node
        self.operands: list[Operand] = []
        self.names: dict[int, str] = {}
        self.lines: list[str] = []
        self.depth = 1

    def name(self, x: Operand, name: str) -> None:
        """An operand as a parameter."""
        self.operands.append(x)
        self.names[id(x)] = name

    def name_all(self, **operands: Operand | None) -> None:
        for name, x in operands.items():
            if x is not None:
                self.name(x, name)

    def put(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def loop(self, index: str, count: int | str) -> None:
        """Begin a loop from 0 to count, a number or a name in C."""
        self.put(f"for (i64 {index} = 0; {index} < {count}; ++{index}) {{")
        self.depth += 1

    def loops(self, indices: Sequence[str], shape: Sequence[int]) -> None:
        for index, n in zip(indices, shape, strict=True):
            self.loop(index, n)

    def loops_beside(self, axis: int, shape: Sequence[int]) -> list[str]:
        """Loops over all axes but one; the names of all indices."""
        indices = index_names(len(shape))
        others = [d for d in range(len(shape)) if d != axis]
        self.loops([indices[d] for d in others], [shape[d] for d in others])
        return indices

    def close(self, count: int = 1) -> None:
        for _ in range(count):
            self.depth -= 1
            self.put("}")

    def at(self, x: Operand, indices: Sequence[str]) -> str:
        """The element of an operand at indices of its last axes; an axis of size 1 has none."""
        own = indices[len(indices) - len(x.shape) :]
        terms = [
            f"{i} * {s}" if s != 1 else i
            for i, n, s in zip(own, x.shape, x.strides, strict=True)
            if n != 1 and s != 0 and i != "0"
        ]
        return f"{self.names[id(x)]}[{' + '.join(terms) or '0'}]"

    def read(self, x: Operand | Scalar, indices: Sequence[str], dtype: DType) -> str:
        """An element in the type that it is computed in; a number is written out."""
        if not isinstance(x, Operand):
            return literal(x, dtype)
        return loaded(self.at(x, indices), x.dtype)

    def write(self, out: Operand, indices: Sequence[str], value: str, dtype: DType) -> None:
        self.put(f"{self.at(out, indices)} = {rounded(value, dtype, out.dtype)};")

    def write_total(
        self, out: Operand, indices: Sequence[str], value: str, kind: str, dtype: DType
    ) -> None:
        """A total of C type `kind`, which is double for floating dtypes; halves go by way of
        float."""
        if kind == "f64" and out.dtype.itemsize == 2:
            self.write(out, indices, f"((f32){value})", float32)
        else:
            self.write(out, indices, value, float64 if kind == "f64" else dtype)


def index_names(count: int, letter: str = "i") -> list[str]:
    return [f"{letter}{d}" for d in range(count)]


def require_float(*operands: Operand | None) -> None:
    if any(x is not None and x.dtype not in (float32, float64) for x in operands):
        raise NotRendered("only float32 and float64 have C")


def require_floating(*operands: Operand) -> None:
    if not all(x.dtype.is_floating for x in operands):
        raise NotRendered("integers have no C here")
