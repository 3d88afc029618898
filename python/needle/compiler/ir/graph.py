"""The compiler's graph: kernel calls on values, in an order in which they may run.

A `FlatValue` is a flat piece of memory that is written once. Kernels read and write it through
`Operand`s, which are strided views, so transposing, slicing and broadcasting need no calls. A
kernel that writes only a part of some memory, or adds to it, makes a new value that *continues* the
old one in the same memory (`Node.continues`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from ...backend import BackendDevice
from ...dtype import DType
from ...ndarray.array import NDArray, make_view
from ...ndarray.index.errors import Words
from ...ndarray.layout import Shape, compact_strides
from ...tile.program import TypedProgram

# Where values come from.
INPUT, STATE, CONSTANT, HOST, COUNTERS, COMPUTED = (
    "input", "state", "constant", "host", "counters", "computed",
)  # fmt: skip


RUN_KERNELS = frozenset({"run", "run_each"})  # tile programs that run on their own
# Kernels whose first argument is a tile program.
PROGRAM_KERNELS = RUN_KERNELS | {"matmul_then", "matmul_of", "conv_then"}
MATMUL_KERNELS = frozenset({"matmul", "matmul_then", "matmul_of"})
RUN_C = "run_c"  # the kernel whose first argument is a C function of the user's
INDEXING = frozenset({"gather", "scatter"})  # kernels that check indices, which may be wrong


class FlatValue:
    """Flat memory: `size` elements of a type. Compared by identity."""

    __slots__ = ("number", "size", "dtype", "kind")

    def __init__(self, number: int, size: int, dtype: DType, kind: str = COMPUTED):
        self.number = number
        self.size = size
        self.dtype = dtype
        self.kind = kind

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def type_text(self) -> str:
        """float32[12]"""
        return f"{self.dtype}[{self.size}]"

    def __repr__(self) -> str:
        return f"%{self.number}"


class Operand(NamedTuple):
    """A strided view of a value."""

    value: FlatValue
    shape: Shape
    strides: Shape
    offset: int

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def type_text(self) -> str:
        """float32[3, 4]"""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def is_whole(self) -> bool:
        """Does it show every element of its value once? Then each axis, from the one with the
        smallest step on, steps over all elements of those before."""
        if self.size != self.value.size:
            return False
        reach = 1
        for step, n in sorted((abs(s), n) for s, n in zip(self.strides, self.shape, strict=True)):
            if n > 1 and step != reach:
                return self.size == 0
            reach *= n
        return True

    def is_compact(self) -> bool:
        """All of its value in C order; an axis of size 1 has no step."""
        steps = zip(self.shape, self.strides, compact_strides(self.shape), strict=True)
        return self.is_whole() and all(n == 1 or s == c for n, s, c in steps)

    def array(self, device: BackendDevice, handle: object) -> NDArray:
        """The same view of real memory."""
        return make_view(self.shape, self.strides, self.offset, self.dtype, device, handle)

    def __repr__(self) -> str:
        text = f"{self.value}"
        if not self.is_compact():
            place = f"+{self.offset}" if self.offset else ""
            text += f"[{_joined(self.shape)} by {_joined(self.strides)}{place}]"
        return text


def whole(value: FlatValue, shape: Shape | None = None) -> Operand:
    """All of a value, in C order."""
    shape = (value.size,) if shape is None else shape
    return Operand(value, shape, compact_strides(shape), 0)


def _joined(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers)) or "scalar"


@dataclass(eq=False)
class Node:
    """One kernel call. `args` are the kernel's, with Operands in the place of arrays."""

    kernel: str
    args: tuple[Any, ...]
    outs: tuple[Operand, ...]
    device: BackendDevice
    # The value that each output continues, None for new memory; empty if all outputs are new.
    continues: tuple[FlatValue | None, ...] = ()
    source: str = ""  # the user's line
    words: tuple[Words, ...] = ()  # how an index out of range is reported (ndarray/index/errors.py)
    first: Node | None = None  # an earlier call that was recorded with the same indices

    @cached_property
    def ins(self) -> tuple[Operand, ...]:
        """The operands that are read, in order."""
        outs = {id(out) for out in self.outs}
        return tuple(x for x in operands(self.args) if id(x) not in outs)

    @property
    def programs(self) -> tuple[TypedProgram, ...]:
        """The tile programs that the call runs, in order."""
        return tuple(a for a in self.args if isinstance(a, TypedProgram))

    @property
    def previous(self) -> tuple[FlatValue, ...]:
        """The values that its outputs continue."""
        return tuple(value for value in self.continues if value is not None)

    def outs_and_previous(self) -> Iterator[tuple[Operand, FlatValue | None]]:
        """Every output with the value that it continues; None if it starts new memory."""
        return zip(self.outs, self.continues or (None,) * len(self.outs), strict=True)

    def reads(self) -> Iterator[FlatValue]:
        """Every value that must be there before the call."""
        for x in self.ins:
            yield x.value
        yield from self.previous

    def indices(self) -> tuple[Any, ...]:
        """Of an INDEXING call: its indices, and the sizes of the axes that they index."""
        array, indices = self.args[1:3]
        return indices, array.shape[: len(indices)]

    def instead(
        self, kernel: str, args: tuple[object, ...], outs: tuple[Operand, ...] | None = None
    ) -> Node:
        """A call that takes the place of this one, with the same outputs if none are given."""
        outs = self.outs if outs is None else outs
        return Node(kernel, args, outs, self.device, source=self.source)

    def mapped(self, change: Callable[[Operand], Operand]) -> Node:
        """The same call with other input operands."""
        outs = {id(out) for out in self.outs}
        args = map_operands(self.args, lambda x: x if id(x) in outs else change(x))
        return replace(self, args=args)

    def __str__(self) -> str:
        outs = {id(out) for out in self.outs}
        inputs = ", ".join(_text(a) for a in self.args if id(a) not in outs and a is not self.outs)
        results = ", ".join(f"{o}: {o.type_text}" for o in self.outs)
        onto = f" onto {', '.join(map(str, self.previous))}" if self.continues else ""
        if self.kernel in PROGRAM_KERNELS:  # a program's text has a line per instruction
            first, *others = self.programs
            given = ", ".join(map(str, self.ins))
            rows = f", rows of {self.args[3]} axes" if self.kernel == "run" else ""
            lines = [f"{results} = {self.kernel} {first.program.name}({given}){rows}"]
            lines += first.text.splitlines()[1:]
            for program in others:
                lines += [f"  then {program.program.name}", *program.text.splitlines()[1:]]
            return "\n".join(lines)
        return f"{results} = {self.kernel}({inputs}){onto}"


def _text(argument: object) -> str:
    if isinstance(argument, tuple) and not isinstance(argument, Operand):
        return "(" + ", ".join(map(_text, argument)) + ")"
    return str(argument) if isinstance(argument, str) else repr(argument)


def operands(args: tuple[object, ...]) -> list[Operand]:
    """All operands in nested tuples."""
    found: list[Operand] = []
    for item in args:
        if isinstance(item, Operand):
            found.append(item)
        elif isinstance(item, tuple):
            found += operands(item)
    return found


def map_operands(args: object, change: Callable[[Operand], object]) -> Any:
    """The same nested tuples with other operands."""
    if isinstance(args, Operand):
        return change(args)
    if isinstance(args, tuple):
        return tuple(map_operands(item, change) for item in args)
    return args


@dataclass
class Graph:
    """A program: values that are given, calls, and the operands that are its results."""

    inputs: list[FlatValue] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    results: list[Operand] = field(default_factory=list)
    constants: dict[FlatValue, Any] = field(default_factory=dict)  # their memory
    names: dict[FlatValue, str] = field(default_factory=dict)  # what inputs are, for the reader
    counter: int = 0

    def new_value(self, size: int, dtype: DType, kind: str = COMPUTED) -> FlatValue:
        value = FlatValue(self.counter, size, dtype, kind)
        self.counter += 1
        if kind != COMPUTED:
            self.inputs.append(value)
        return value

    def continued(self) -> set[FlatValue]:
        """The values that a later call continues, in the same memory."""
        return {v for node in self.nodes for v in node.previous}

    def with_nodes(self, nodes: list[Node], results: list[Operand] | None = None) -> Graph:
        """The same program with other calls."""
        results = self.results if results is None else results
        return Graph(self.inputs, nodes, results, self.constants, self.names, self.counter)

    def __str__(self) -> str:
        used = {v for node in self.nodes for v in node.reads()} | {r.value for r in self.results}
        lines = [
            f"{v}: {v.type_text} {v.kind}{' ' + self.names[v] if v in self.names else ''}"
            for v in self.inputs
            if v in used
        ]
        lines += map(str, self.nodes)
        lines.append(f"return {', '.join(map(str, self.results))}")
        return "\n".join(lines)


class GraphError(Exception):
    """The graph breaks a rule: a bug in a pass, never a mistake of the user's."""
