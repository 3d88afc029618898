"""How C and its dialects are written: types and numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...dtype import DType, bfloat16, bool_, computed_in, float16, float32

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
