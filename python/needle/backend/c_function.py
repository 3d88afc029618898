"""Functions that the user wrote in C, as a kernel takes them: a name, a source, an address."""

from __future__ import annotations

import ctypes
from functools import cached_property

from .c_build import library

# What C calls the elements; halves are their bits.
C_TYPES: dict[str, str] = {
    "float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t",
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "bool": "bool",
}  # fmt: skip
INCLUDES = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n"
PARAMETERS = "void *const *at, const int64_t *const *shapes, int64_t begin, int64_t end"
# What no name of the user's can be.
C_WORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while _Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary
    _Noreturn _Static_assert _Thread_local bool true false NULL NAN INFINITY""".split()
)


class CFunction:
    """void symbol(at, shapes, begin, end): the operands' memory and shapes, outputs first.

    `name` is what the user calls it, `header` comes before its `source`. It is built when its
    address is first asked for; equal sources are built once per machine."""

    def __init__(self, name: str, symbol: str, source: str, header: str = ""):
        self.name = name
        self.symbol = symbol
        self.source = source
        self.header = header

    def __repr__(self) -> str:
        return self.name

    @cached_property
    def address(self) -> int:
        text = f"{INCLUDES}{self.header}\n{self.source}"
        built = getattr(library(text, self.name), self.symbol)
        return ctypes.cast(built, ctypes.c_void_p).value or 0
