"""A trace for any size of one axis, derived from the traces at two sizes: the *probes*.

Every number in a trace (a size, a stride, a constant of a call) either does not depend on the size
n, or is slope * n + shift, or is a quotient of two such numbers. The two probes determine which;
anything else raises `Varies`.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backend import default_device
from ...dtype import DType
from ...ndarray.array import from_device, make_view
from ...tile.ir import TypedProgram
from ...tree import leaves, map_leaves
from ..export.stored import assembled
from ..ir.graph import COMPUTED, FlatValue, Graph, Node, Operand
from ..passes.simplify import eliminate_dead_code
from ..trace.record import Draw, Handle
from ..trace.state import State, data_of
from ..trace.tracer import Output, Trace

if TYPE_CHECKING:
    from ...types import NumpyArray, Shape

# A prime and twice a prime: numbers that depend on them are unlikely to occur otherwise. One is
# even, and their difference is a prime, so that numbers such as n // 2 have no integer slope.
PROBES = (1021, 2138)
MOST_DENOMINATOR = 1 << 26  # of quotients
NUMPY_DEPENDS = "the elements of a NumPy array depend on the size"


class Varies(Exception):
    """The trace depends on the size in a way that cannot be derived."""


def _affine(a: int, b: int, n: int) -> int:
    """The integer for size n that is a at the first probe and b at the second."""
    a, b = int(a), int(b)  # from Sizes
    slope, rest = divmod(b - a, PROBES[1] - PROBES[0])
    if rest:
        raise Varies(f"{a} and {b}")
    return slope * (n - PROBES[0]) + a


def _number(a: float, b: float, n: int) -> float:
    """The float for size n: the same at both probes, or a quotient of integers that depend on n."""
    if a == b or (a != a and b != b):
        return a
    first, second = (Fraction(x).limit_denominator(MOST_DENOMINATOR) for x in (a, b))
    above = _affine(first.numerator, second.numerator, n)
    below = _affine(first.denominator, second.denominator, n)
    if first.numerator / first.denominator != a or second.numerator / second.denominator != b:
        raise Varies(f"{a} and {b}")
    return above / below


class Blend:
    """The trace for size n, from two traces of the same structure."""

    def __init__(self, first: Trace, second: Trace, n: int):
        self.first, self.second, self.n = first, second, n
        self.values: dict[FlatValue, FlatValue] = {}
        self.states: dict[int, State] = {}
        self.node: Node | None = None  # the call that is being derived, for the error

    def whole(self, a: int, b: int) -> int:
        return _affine(a, b, self.n)

    def sizes(self, a: Shape, b: Shape) -> Shape:
        if len(a) != len(b):
            raise Varies("the number of axes depends on the size")
        return tuple(map(self.whole, a, b))

    def operand(self, a: Operand, b: Operand) -> Operand:
        shape, strides = self.sizes(a.shape, b.shape), self.sizes(a.strides, b.strides)
        return Operand(self.values[a.value], shape, strides, self.whole(a.offset, b.offset))

    def argument(self, a: Any, b: Any) -> Any:
        if type(a) is not type(b):
            raise Varies(f"{a!r:.40} and {b!r:.40}")
        if isinstance(a, Operand):
            return self.operand(a, b)
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise Varies("the number of operands depends on the size")
            return tuple(map(self.argument, a, b))
        if isinstance(a, TypedProgram):
            return a if a == b else self._program(a, b)
        if isinstance(a, float):
            return _number(a, b, self.n)
        if isinstance(a, int) and not isinstance(a, bool):
            return self.whole(a, b)
        if a != b:
            raise Varies(f"{a!r} and {b!r}")
        return a

    def _program(self, a: TypedProgram, b: TypedProgram) -> TypedProgram:
        """The same instructions, with constants for this size."""
        fixed = [[(i.name, i.args, i.kind) for i in p.instructions] for p in (a, b)]
        if fixed[0] != fixed[1] or a.dtypes != b.dtypes:
            raise Varies(f"the instructions of {a.program.name} depend on the size")
        instructions = [
            replace(i, detail=self.argument(i.detail, j.detail))
            for i, j in zip(a.instructions, b.instructions, strict=True)
        ]
        program = replace(a.program, instructions=())
        return assembled(program, instructions, a.dtypes, a.inputs)

    def graph(self) -> Graph:
        first, second, made = self.first.graph, self.second.graph, Graph()
        if len(first.inputs) != len(second.inputs) or len(first.nodes) != len(second.nodes):
            both = itertools.zip_longest(first.nodes, second.nodes)
            apart = ((a, b) for a, b in both if not (a and b and a.source == b.source))
            self.node = next((a or b for a, b in apart), None)
            raise Varies("the number of calls depends on the size")
        for a, b in zip(first.inputs, second.inputs, strict=True):
            self._value(made, a, b)
            if a in first.constants:
                made.constants[self.values[a]] = self._constant(a, b)
        for one, other in zip(first.nodes, second.nodes, strict=True):
            self.node = one
            if one.kernel != other.kernel or len(one.outs) != len(other.outs):
                raise Varies("which calls are made depends on the size")
            for x, y in zip(one.outs, other.outs, strict=True):
                self._value(made, x.value, y.value)
            outs = {id(x): self.operand(x, y) for x, y in zip(one.outs, other.outs, strict=True)}
            args = self._arguments(one.args, other.args, outs)
            previous = tuple(None if v is None else self.values[v] for v in one.continues)
            made.nodes.append(
                replace(one, args=args, outs=tuple(outs.values()), continues=previous)
            )
        self.node = None
        made.inputs.sort(key=lambda v: v.number)
        made.counter = first.counter
        return made

    def _arguments(self, a: object, b: object, outs: dict[int, Operand]) -> Any:
        if isinstance(a, Operand):
            return outs.get(id(a)) or self.argument(a, b)
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self._arguments(x, y, outs) for x, y in zip(a, b, strict=True))
        return self.argument(a, b)

    def _value(self, made: Graph, a: FlatValue, b: FlatValue) -> None:
        if a.dtype is not b.dtype or a.kind != b.kind or a.number != b.number:
            raise Varies("the types of values depend on the size")
        value = FlatValue(a.number, self.whole(a.size, b.size), a.dtype, a.kind)
        self.values[a] = value
        if a in self.first.graph.names:
            made.names[value] = self.first.graph.names[a]
        if a.kind != COMPUTED:
            made.inputs.append(value)

    def _constant(self, a: FlatValue, b: FlatValue) -> object:
        """The elements of both, or, if lengths differ, an arithmetic sequence for this size."""
        one, other = self.first.graph.constants[a], self.second.graph.constants[b]
        if one is other:
            return one
        found, theirs = _elements(one, a.dtype), _elements(other, a.dtype)
        if a.size == b.size:
            if found.tobytes() != theirs.tobytes():
                raise Varies(NUMPY_DEPENDS)
            return one
        size = self.values[a].size
        if not (_is_sequence(found) and _is_sequence(theirs) and _starts_alike(found, theirs)):
            raise Varies(NUMPY_DEPENDS)
        return default_device().mod.from_numpy(_sequence(found, size), a.dtype)

    def trace(self) -> Trace:
        first, second = self.first, self.second
        graph = self.graph()
        for state in first.states:
            handle = Handle(state.value.size, state.value.dtype, self.values[state.value])
            made = State(handle, None)
            made.cells = list(state.cells)
            made.arrays = [data_of(cell.tensor()) for cell in state.cells]
            if state.is_mutated:
                assert state.handle.value is not None
                made.handle.value = self.values[state.handle.value]
            self.states[id(state)] = made
        outputs = [self._output(a, b) for a, b in zip(first.outputs, second.outputs, strict=True)]
        graph.results = [output.operand for output in outputs]
        draws = [
            Draw(a.generator, self.whole(a.start, b.start), a.words, a.device)
            for a, b in zip(first.draws, second.draws, strict=True)
        ]
        advances = [
            (g, self.whole(a, b))
            for (g, a), (_, b) in zip(first.advances, second.advances, strict=True)
        ]
        others = iter(leaves(second.result))
        return replace(
            first,
            graph=graph,
            arguments=[self.values[v] for v in first.arguments],
            states=list(self.states.values()),
            draws=draws,
            counters=None if first.counters is None else self.values[first.counters],
            outputs=outputs,
            result=map_leaves(lambda leaf: self.argument(leaf, next(others)), first.result),
            advances=advances,
        )

    def _output(self, a: Output, b: Output) -> Output:
        if a.kind != b.kind:
            raise Varies("the results depend on the size")
        target = self.states.get(id(a.target), a.target)
        state = None if a.state is None else self.states[id(a.state)]
        return replace(a, target=target, operand=self.operand(a.operand, b.operand), state=state)


# Constants ---------------------------------------------------------------------------------------


def _elements(handle: Handle, dtype: DType) -> NumpyArray:
    """The elements in a piece of memory, as a NumPy array."""
    device = default_device()
    return np.asarray(from_device(make_view((handle.size,), (1,), 0, dtype, device, handle)))


def _sequence(start: NumpyArray, size: int) -> NumpyArray:
    """An arithmetic sequence that starts with these two numbers, which may be equal."""
    step = start[1] - start[0] if start.dtype.kind in "iuf" else 0
    made = start[:1] + step * np.arange(size) if step else start[:1].repeat(size)
    return np.ascontiguousarray(made.astype(start.dtype))


def _is_sequence(numbers: NumpyArray) -> bool:
    return len(numbers) > 1 and bool(np.array_equal(numbers, _sequence(numbers, len(numbers))))


def _starts_alike(a: NumpyArray, b: NumpyArray) -> bool:
    return bool(np.array_equal(a[:2], b[:2]))


# Comparing ---------------------------------------------------------------------------------------


def _described(graph: Graph) -> tuple[list[str], list[FlatValue]]:
    """Calls and results as text, with values numbered in order of use; and these values."""
    order: dict[FlatValue, int] = {}

    def seen(x: object) -> object:
        if isinstance(x, Operand):
            place = order.setdefault(x.value, len(order))
            return (place, x.value.size, x.dtype, x.shape, x.strides, x.offset)
        if isinstance(x, tuple):
            return tuple(map(seen, x))
        return _instructions(x) if isinstance(x, TypedProgram) else x

    lines = []
    for node in graph.nodes:
        previous = [None if v is None else order.setdefault(v, len(order)) for v in node.continues]
        lines.append(f"{node.kernel} {seen(node.args)!r} {previous}")
    lines.append(repr([seen(r) for r in graph.results]))
    return lines, list(order)


def _instructions(program: TypedProgram) -> tuple[object, ...]:
    """What a program does, with constants where they are used: two that are equal for one size,
    such as n and 2, are a single instruction there."""
    places: list[Any] = []
    lines: list[Any] = []
    for i, dtype in zip(program.instructions, program.dtypes, strict=True):
        if i.name == "constant":
            places.append((repr(i.detail), dtype))
        else:
            places.append(len(lines))
            lines.append((i.name, [places[a] for a in i.args], i.kind, i.detail, dtype))
    return program.inputs, program.outputs, *lines


def is_same_graph(a: Graph, b: Graph) -> bool:
    """The same calls on the same constants?"""
    ours, theirs = _described(eliminate_dead_code(a)), _described(eliminate_dead_code(b))
    if ours[0] != theirs[0]:
        return False
    constants = [
        (a.constants[v], b.constants.get(w), v.dtype)
        for v, w in zip(ours[1], theirs[1], strict=True)
        if v in a.constants
    ]
    return all(
        one is other
        or (other is not None and np.array_equal(_elements(one, d), _elements(other, d)))
        for one, other, d in constants
    )
