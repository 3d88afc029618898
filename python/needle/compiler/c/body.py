"""The body of a C function over named operands, while it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...backend.render.space import NotRendered
from ...backend.render.text import literal, loaded, rounded
from ...dtype import DType, float32, float64
from ..ir.graph import Node, Operand

if TYPE_CHECKING:
    from ...types import Scalar


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
