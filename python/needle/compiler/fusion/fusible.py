"""Calls as fusion sees them: a space, how operands lie in it, and what is computed.

A call is *fusible* if a tile program can do its work: elementwise functions, copies and casts,
reductions along rows (the innermost axes), sums down columns, and tile programs themselves. Its
`emit` writes its instructions into the program of a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...backend.protocol import ROW_REDUCTIONS
from ...dtype import DType, bool_, float32, float64, int32, int64
from ...ndarray.layout import Shape, broadcast_shapes
from ...tile.ir import COLUMN, FULL, ROW, SCALAR, TypedProgram
from ...tile.program import Builder, Symbol, apply, cast, random, where
from ..ir.graph import Node, Operand
from .spaces import Access, access, memory_order

# Types that fused and eager calls compute alike. Others are rounded after every eager call.
FUSED_TYPES = frozenset({float32, float64, int32, int64, bool_})
FEW_ROWS, SHORT = 16, 1 << 14  # fewer, longer rows stay calls of `reduce`, which splits each row

Inputs = Sequence[Any]  # symbols, or Python numbers
Emit = Callable[[Builder, Inputs], Sequence[Symbol]]


@dataclass
class FusibleNode:
    """A call that can be part of a program."""

    node: Node
    space: Shape
    row: int  # elements of a row, if it has rows; else 0
    inputs: list[Any]  # Python numbers, and Accesses over the axes that their kind says
    input_kinds: list[str]
    outputs: list[Access]
    output_kinds: list[str]
    emit: Emit
    is_random: bool = False  # draws a number for each element of the space, in C order

    @cached_property
    def size(self) -> int:
        """At most so many instructions; loads and stores do not count."""
        programs = self.node.programs
        numbers = sum(not isinstance(x, Access) for x in self.inputs)
        return 2 + numbers if not programs else len(programs[0].instructions)

    @cached_property
    def passes(self) -> int:
        """Reductions of rows that depend on each other."""
        if not self.node.programs:
            return int(ROW in self.output_kinds)
        return _passes(self.node.programs[0])

    @property
    def rows(self) -> Shape:
        """The space of its rows."""
        total, outer = 1, list(self.space)
        while total < self.row:
            total *= outer.pop()
        return tuple(outer)


def as_fusible(node: Node) -> FusibleNode | None:
    """The call as a fusible node, or None if no program can do its work."""
    make = FUSIBLE.get(node.kernel)
    if make is None or node.continues or not all(o.is_whole() for o in node.outs):
        return None
    if any(x.dtype not in FUSED_TYPES for x in (*node.ins, *node.outs)):
        return None
    if any(0 in o.shape for o in (*node.ins, *node.outs)):
        return None
    return make(node)


def _elementwise(node: Node, inputs: Sequence[object], emit: Emit) -> FusibleNode:
    out = node.outs[0]
    axes = memory_order(out)
    entries = [access(x, out.shape, axes) if isinstance(x, Operand) else x for x in inputs]
    space = tuple(out.shape[i] for i in axes)
    outputs = [access(out, out.shape, axes)]
    kinds = [FULL] * len(entries)
    return FusibleNode(node, space, 0, entries, kinds, outputs, [FULL], emit)


def _unary(node: Node) -> FusibleNode:
    name, _, a = node.args
    return _elementwise(node, [a], lambda _, x: [apply(name, x[0])])


def _binary(node: Node) -> FusibleNode:
    name, _, a, b = node.args
    return _elementwise(node, [a, b], lambda _, x: [apply(name, x[0], x[1])])


def _where(node: Node) -> FusibleNode:
    _, cond, a, b = node.args
    return _elementwise(node, [cond, a, b], lambda _, x: [where(x[0], x[1], x[2])])


def _copy(node: Node) -> FusibleNode | None:
    """Not a large transposed copy: the kernel `copy` works on blocks, and a program on rows."""
    out, a = node.args
    to = out.dtype
    steps = access(a, out.shape, memory_order(out)).steps
    if out.size >= 1 << 14 and 1 in steps[:-1] and steps[-1] not in (0, 1):
        return None

    def emit(builder: Builder, x: Inputs) -> Sequence[Symbol]:
        return [x[0] if a.dtype is to else cast(x[0], to)]

    return _elementwise(node, [a], emit)


def _random_from(node: Node) -> FusibleNode | None:
    """Uniform float32 numbers, which programs can draw too."""
    name, out, counter = node.args
    if name != "uniform" or out.dtype is not float32:
        return None
    seed, offset = (
        Operand(counter.value, (), (), counter.offset + word * counter.strides[0])
        for word in range(2)
    )

    def emit(builder: Builder, x: Inputs) -> Sequence[Symbol]:
        return [random(x[0], x[1])]

    return replace(_elementwise(node, [seed, offset], emit), is_random=True)


def _reduce(node: Node) -> FusibleNode | None:
    name, out, a = node.args
    reduction = f"row_{name}"
    if not out.dtype.is_floating or out.dtype is not a.dtype or reduction not in ROW_REDUCTIONS:
        return None
    axes = memory_order(a)
    reduced = [i for i in axes if out.shape[i] == 1]
    count = len(reduced)
    space = tuple(a.shape[i] for i in axes)
    source = access(a, a.shape, axes)
    kept = [i for i in axes if out.shape[i] != 1]
    result = Access(out.value, tuple(out.strides[i] for i in kept), out.offset)
    length = math.prod(a.shape[i] for i in reduced)
    if count and axes[len(axes) - count :] == reduced:
        if math.prod(space) // length < FEW_ROWS and length > SHORT:
            return None

        def emit(builder: Builder, x: Inputs) -> Sequence[Symbol]:
            return [builder.reduce(reduction, ROW, x[0])]

        return FusibleNode(node, space, length, [source], [FULL], [result], [ROW], emit)
    if count and axes[:count] == reduced and name == "sum":

        def emit_column(builder: Builder, x: Inputs) -> Sequence[Symbol]:
            return [builder.reduce("column_sum", COLUMN, x[0])]

        row = math.prod(space) // length
        return FusibleNode(node, space, row, [source], [FULL], [result], [COLUMN], emit_column)
    return None


def _run(node: Node) -> FusibleNode | None:
    """A tile program of an operator: its instructions go into the larger one."""
    typed, outs, ins, inner = node.args
    shape = broadcast_shapes("run", *(x.shape for x in (*outs, *ins)))
    has_rows = inner > 0 and not typed.is_elementwise
    axes = [i for i, n in enumerate(shape) if n != 1]
    if not has_rows and len(outs) == 1 and not typed.is_random:
        axes = memory_order(outs[0])
    space = tuple(shape[i] for i in axes)
    row = math.prod(shape[len(shape) - inner :]) if has_rows else 0
    if has_rows and row == 1:
        return None
    outer = [i for i in axes if i < len(shape) - inner]
    rest = [i for i in axes if i >= len(shape) - inner]
    over = {FULL: axes, ROW: outer, COLUMN: rest, SCALAR: []}
    input_kinds = [k if has_rows and k == ROW else FULL for k in typed.input_kinds]
    output_kinds = [k if has_rows else FULL for k in typed.output_kinds]
    if SCALAR in output_kinds:
        return None
    entries = [access(x, shape, over[k]) for x, k in zip(ins, input_kinds, strict=True)]
    outputs = [access(x, shape, over[k]) for x, k in zip(outs, output_kinds, strict=True)]

    def emit(builder: Builder, x: Inputs) -> Sequence[Symbol]:
        return spliced(builder, typed, x)

    return FusibleNode(
        node, space, row, entries, input_kinds, outputs, output_kinds, emit, typed.is_random
    )


def _passes(typed: TypedProgram) -> int:
    """How many passes over the row end with a reduction, one after the other."""
    both = zip(typed.instructions, typed.phases, strict=True)
    return max(phase + i.is_row_reduction for i, phase in both)


def writes_at_the_end(typed: Any, output: int) -> bool:
    """Is a full output of a program with rows written in the last pass over the row, after all
    reductions? Then it may share memory with an input, since no later pass reads the input."""
    last = _passes(typed)
    return any(
        i.name == "store" and i.detail == output and i.kind == FULL and phase == last
        for i, phase in zip(typed.instructions, typed.phases, strict=True)
    )


def spliced(builder: Builder, typed: Any, inputs: Inputs) -> Sequence[Symbol]:
    """Emit the instructions of a typed program on other inputs; returns what it stores."""
    made: list[Any] = []
    stored: dict[int, Symbol] = {}
    for i, dtype in zip(typed.instructions, typed.dtypes, strict=True):
        args = [made[a] for a in i.args]
        if i.name == "load":
            made.append(inputs[i.detail])
        elif i.name == "store":
            is_same = typed.dtypes[i.args[0]] is dtype
            stored[i.detail] = args[0] if is_same else cast(args[0], dtype)
            made.append(args[0])
        elif i.name == "constant":
            made.append(typed_constant(builder, i.detail, dtype))
        elif i.name in ("row_index", "row_size"):
            made.append(builder.emit(i.name, (), i.kind, dtype))
        elif i.name == "random":
            made.append(random(*args))
        elif i.name == "cast":
            is_same = typed.dtypes[i.args[0]] is dtype and dtype in FUSED_TYPES
            made.append(args[0] if is_same else cast(args[0], dtype))
        elif i.is_row_reduction:
            made.append(builder.reduce(i.name, ROW, *args))
        elif i.name == "column_sum":
            made.append(builder.reduce(i.name, COLUMN, *args))
        else:
            made.append(builder.apply(i.name, *args))
    return [stored[k] for k in sorted(stored)]


def typed_constant(builder: Builder, number: object, dtype: DType) -> Symbol:
    """A number with a dtype."""
    return builder.emit("constant", (), SCALAR, (number, dtype))


FUSIBLE: dict[str, Callable[[Node], FusibleNode | None]] = {
    "unary": _unary,
    "binary": _binary,
    "where": _where,
    "copy": _copy,
    "random_from": _random_from,
    "reduce": _reduce,
    "run": _run,
}
