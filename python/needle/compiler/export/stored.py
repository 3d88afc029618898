"""Graphs as JSON: values by number, calls by the names of kernels, tile programs by instructions.

Nothing in it is code. Reading checks every call: kernels must be those of the contract, operands
must stay inside their values, and values must be written before they are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...backend import host
from ...dtype import DType, dtype_of, uint8
from ...tile.ir import Instruction, Program, TypedProgram, encode, is_store
from ..control.loops import LOOP, Loop
from ..ir.graph import (
    COMPUTED,
    CONSTANT,
    RUN_C,
    FlatValue,
    Graph,
    GraphError,
    Node,
    Operand,
    whole,
)
from ..ir.verify import verify
from ..memory.planner import plan_memory
from ..trace.breaks import PYTHON
from ..trace.record import kernel_names

Json = Any
ALLOWED = (kernel_names() | {"run_each", LOOP}) - {RUN_C}  # which would be code

REMEDIES = {
    RUN_C: "a file holds no code: export to a .c file",
    PYTHON: "a file holds no code: let the operator's compute use functions of arrays",
}


class NotStored(TypeError):
    """A graph that cannot be written; the message names the call."""


# Writing -----------------------------------------------------------------------------------------


class GraphWriter:
    """Writes a graph as JSON. `values` has the number of each value, those from outside first."""

    def __init__(self, graph: Graph, given: Sequence[FlatValue] | None = None):
        if given is None:
            reads = {v for node in graph.nodes for v in node.reads()}
            used = reads | {r.value for r in graph.results}
            given = [value for value in graph.inputs if value in used]
        self.values = {value: number for number, value in enumerate(given)}
        self._programs: dict[TypedProgram, int] = {}
        nodes = [self._node(node) for node in graph.nodes]
        self.json: Json = {
            "values": [[v.size, str(v.dtype)] for v in self.values],
            "given": len(given),
            "programs": [_program_json(p) for p in self._programs],
            "calls": nodes,
            "results": [self._operand(r) for r in graph.results],
        }

    def _node(self, node: Node) -> Json:
        if node.device is not host():
            raise NotStored(f"[export] {node.kernel} runs on {node.device}; expected {host()}.")
        if node.kernel not in ALLOWED or _is_random(node):
            place = f", at {node.source}" if node.source else ""
            fix = REMEDIES.get(node.kernel, "inference only: model.eval(), and no random numbers")
            raise NotStored(f"[export] {node.kernel} cannot be stored{place}; {fix}.")
        for out in node.outs:
            self.values.setdefault(out.value, len(self.values))
        places = {id(out): k for k, out in enumerate(node.outs)}

        def argument(a: object) -> Json:
            if isinstance(a, Operand):
                return {"out": places[id(a)]} if id(a) in places else self._operand(a)
            if isinstance(a, TypedProgram):
                return {"program": self._programs.setdefault(a, len(self._programs))}
            if isinstance(a, Loop):
                return {"loop": _loop_json(a)}
            if isinstance(a, tuple):
                return [argument(item) for item in a]
            return _plain(a, node)

        return {
            "kernel": node.kernel,
            "outs": [self._operand(out) for out in node.outs],
            "args": [argument(a) for a in node.args],
            "onto": [None if v is None else self.values[v] for v in node.continues],
        }

    def _operand(self, x: Operand) -> Json:
        return {"of": self.values[x.value], "shape": x.shape, "strides": x.strides, "at": x.offset}


def _is_random(node: Node) -> bool:
    """Does a call draw numbers, by itself or in its program?"""
    return node.kernel.startswith("random") or any(p.is_random for p in node.programs)


def _plain(a: object, node: Node) -> Json:
    if isinstance(a, DType):
        return {"dtype": str(a)}
    if isinstance(a, float) and not math.isfinite(a):
        return {"float": str(a)}
    if a is None or type(a) in (bool, int, float, str):
        return a
    raise NotStored(f"[export] {node.kernel} has an argument of type {type(a).__name__}.")


def _loop_json(loop: Loop) -> Json:
    """The inputs of a body are the carried values, the elements of xs, and the fixed values."""
    return {
        "body": GraphWriter(loop.body, (*loop.carried, *loop.xs, *loop.fixed)).json,
        "given": [len(loop.carried), len(loop.xs), len(loop.fixed)],
        "steps": loop.steps,
        "reverse": loop.reverse,
        "while": loop.is_while,
    }


def _program_json(typed: TypedProgram) -> Json:
    def detail(d: object) -> Json:
        if isinstance(d, DType):
            return {"dtype": str(d)}
        return {"float": str(d)} if isinstance(d, float) and not math.isfinite(d) else d

    return {
        "name": typed.program.name,
        "arguments": typed.program.arguments,
        "inputs": [[str(d), k] for d, k in zip(typed.inputs, typed.input_kinds, strict=True)],
        "outputs": typed.output_kinds,
        "code": [
            [i.name, i.args, i.kind, str(dtype), detail(i.detail)]
            for i, dtype in zip(typed.instructions, typed.dtypes, strict=True)
        ],
    }


# Reading -----------------------------------------------------------------------------------------


def read_graph(json: Json) -> tuple[Graph, list[FlatValue]]:
    """A graph from JSON, and the values that must be given. Raises GraphError for a damaged one."""
    try:
        graph, given = _read(json)
        verify(graph)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise GraphError(f"it is damaged ({type(error).__name__}: {error})") from None
    return graph, given


def _read(json: Json) -> tuple[Graph, list[FlatValue]]:
    graph = Graph()
    values = []
    for number, (size, dtype) in enumerate(json["values"]):
        kind = CONSTANT if number < json["given"] else COMPUTED
        values.append(graph.new_value(_whole(size), dtype_of(dtype), kind))
    programs = [_read_program(p) for p in json["programs"]]

    def operand(x: Json) -> Operand:
        shape, strides = tuple(map(_whole, x["shape"])), tuple(map(int, x["strides"]))
        if len(shape) != len(strides):
            raise ValueError("a shape and strides of different lengths")
        return Operand(values[_whole(x["of"])], shape, strides, _whole(x["at"]))

    for call in json["calls"]:
        outs = tuple(map(operand, call["outs"]))
        args = tuple(_argument(a, outs, programs, operand) for a in call["args"])
        previous = tuple(None if v is None else values[_whole(v)] for v in call["onto"])
        if call["kernel"] not in ALLOWED:
            raise ValueError(f"there is no kernel {call['kernel']!r}")
        if call["kernel"] == LOOP:  # the last operand is the body's memory, as planned now
            arena = whole(graph.new_value(max(args[0].plan.arena_bytes, 1), uint8))
            outs, args = (*outs[:-1], arena), (*args[:-1], arena)
        graph.nodes.append(Node(call["kernel"], args, outs, host(), previous))
    graph.results = [operand(r) for r in json["results"]]
    return graph, values[: json["given"]]


def _whole(n: Json) -> int:
    if type(n) is not int or n < 0:
        raise ValueError(f"expected a whole number, got {n!r}")
    return n


def _argument(a: Json, outs: tuple[Operand, ...], programs: list[Any], operand: Any) -> Any:
    if isinstance(a, list):
        return tuple(_argument(item, outs, programs, operand) for item in a)
    if not isinstance(a, dict):
        return a
    if "out" in a:
        return outs[_whole(a["out"])]
    if "program" in a:
        return programs[_whole(a["program"])]
    if "loop" in a:
        return _read_loop(a["loop"])
    return _read_plain(a) if "of" not in a else operand(a)


def _read_loop(json: Json) -> Loop:
    body, given = _read(json["body"])
    verify(body)
    carried, xs, fixed = map(_whole, json["given"])
    if carried + xs + fixed != len(given) or json["steps"] == 0:
        raise ValueError("a loop without steps, or with inputs that are not those of its body")
    return Loop(
        body,
        carried=tuple(given[:carried]),
        xs=tuple(given[carried : carried + xs]),
        fixed=tuple(given[carried + xs :]),
        steps=_whole(json["steps"]),
        reverse=bool(json["reverse"]),
        is_while=bool(json.get("while", False)),
        plan=plan_memory(body, [None] * len(body.results)),
    )


def _read_plain(a: Json) -> DType | float:
    return dtype_of(a["dtype"]) if "dtype" in a else float(a["float"])


def _read_program(json: Json) -> TypedProgram:
    """A tile program. Its code is encoded again, and checked when a device decodes it."""
    instructions, dtypes = [], []
    for name, args, kind, dtype, detail in json["code"]:
        found = _read_plain(detail) if isinstance(detail, dict) else detail
        instructions.append(Instruction(str(name), tuple(map(_whole, args)), str(kind), found))
        dtypes.append(dtype_of(dtype))
    inputs = tuple(dtype_of(d) for d, _ in json["inputs"])
    kinds = tuple(str(k) for _, k in json["inputs"])
    arguments = tuple(map(str, json["arguments"]))
    program = Program(str(json["name"]), arguments, (), kinds, tuple(map(str, json["outputs"])))
    return assembled(program, instructions, dtypes, inputs)


def assembled(
    program: Program,
    instructions: Sequence[Instruction],
    dtypes: Sequence[DType],
    inputs: tuple[DType, ...],
) -> TypedProgram:
    """A typed program of these instructions."""
    stores = [d for i, d in zip(instructions, dtypes, strict=True) if is_store(i)]
    code = encode(instructions, dtypes, inputs, program.inputs, stores)
    return TypedProgram(program, tuple(instructions), tuple(dtypes), inputs, tuple(stores), code)
