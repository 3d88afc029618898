"""Compiled inference functions as files: a program with its weights, or C source."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import config
from ...autograd import Tensor, TensorTuple
from ...backend import host
from ...dtype import dtype_of
from ...io import formats, safetensors
from ...ndarray.array import make_view
from ...system.writing import write_whole
from ...tree import map_leaves
from ..c.program import c_files
from ..function import Call, Jitted
from ..ir.graph import FlatValue, Graph, GraphError
from ..memory.plan import ARENA
from ..memory.planner import plan_memory
from ..passes.prepack import prepacked
from ..run.binding import as_result
from ..run.program import CompiledProgram, compile_calls
from ..trace.tracer import DATA, ESCAPED, GRADIENT, MEMORY, RESULT, WRITTEN, Output
from .stored import GraphWriter, NotStored, read_graph

KEY, VERSION = "needle.program", 1


def export(
    function: Callable[..., object],
    *example: object,
    path: str | os.PathLike[str] | None = None,
    **kw: object,
) -> Path:
    """Compile an inference function for an example of its arguments, and write it to a file, by
    default to NAME.needle in the current folder. Returns the file's path.

    The file has the program and the weights that it uses; `load_exported` runs it without the
    Python that it was made from. A path that ends in .c gets C source with the weights in it, and
    a header beside it: `cc -std=c11 -O2 model.c main.c -lm`. Names that promise another format,
    such as model.onnx, are refused.

    The function may not write state or draw random numbers (call `model.eval()` first).

        ndl.export(lambda x: model(x), example, path="model.needle")
        y = ndl.load_exported("model.needle")(x)
    """
    if config.BACKEND == "np":
        raise NotStored("[export] expected the native core, found NEEDLE_BACKEND=np; unset it.")
    compiled = function if isinstance(function, Jitted) else Jitted(function)
    path = _named_after(compiled) if path is None else Path(path)
    formats.refuse_suffix(
        path, formats.SUFFIXES | formats.PROGRAM_SUFFIXES, "export", ".needle, or in .c for C"
    )
    call = Call(example, kw, apart=True)
    program = compiled._find(call)
    _check(program)
    if path.suffix == ".c":
        _write_c(program, call, path)
        return path
    writer = GraphWriter(program.graph)
    memory = _memory(program)
    weights = {f"%{writer.values[v]}": memory[v] for v in memory if v in writer.values}
    document = {
        "version": VERSION,
        "program": writer.json,
        "takes": [writer.values.get(v) for v in program.trace.arguments],
        "arguments": _types(example, kw),
        "gives": [{"at": o.target, "tensor": o.face is not None} for o in program.trace.outputs],
        "result": _nest(program.trace.result),
    }
    safetensors.write_file(path, weights, {KEY: json.dumps(document)}, "export")
    return path


def _named_after(function: Jitted) -> Path:
    """The file of a function that is exported without a path."""
    if not function.__name__.isidentifier():
        raise ValueError(
            f"[export] {function.__name__} has no name to give to a file; say where to write it: "
            "path='model.needle'."
        )
    return Path(f"{function.__name__}.needle")


CHANGES = {
    DATA: "changes the data of a tensor",
    GRADIENT: "changes the gradient of a tensor",
    MEMORY: "writes into a tensor",
    WRITTEN: "writes into an argument",
    ESCAPED: "lets a tensor that it makes outlive it",
}


def _check(program: CompiledProgram) -> None:
    """Raise unless the program is pure inference: it has results, and no other effects."""
    trace = program.trace
    for output in trace.outputs:
        if output.kind != RESULT:
            raise NotStored(
                f"[export] the function {CHANGES[output.kind]}; export inference only: "
                "model.eval(), no backward(), no writing in place."
            )
    if trace.host or trace.draws:
        raise NotStored("[export] the function draws random numbers; call model.eval() first.")


def _memory(program: CompiledProgram) -> dict[FlatValue, Any]:
    """The weights: all memory that the program reads besides its arguments, by value."""
    found: dict[FlatValue, Any] = dict(program.graph.constants)
    known = program.binding.known
    for state, group in zip(program.trace.states, known.groups, strict=True):
        found[state.value] = known.array(group[0])._handle
    for value, weights in program.prepacked.items():
        found[value] = prepacked(weights, host(), found[weights.value])
    return {
        value: Tensor.make_const(make_view((value.size,), (1,), 0, value.dtype, host(), handle))
        for value, handle in found.items()
    }


def _types(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """The nesting of arguments, with types in the places of arrays."""

    def describe(leaf: object) -> Any:
        found = Call((leaf,), {}).types[0]
        if found is not None:
            return {"array": [list(found.shape), str(found.dtype)]}
        return _plain(leaf)

    return _nest((list(args), kwargs), describe)


def _plain(leaf: object) -> int | float | str | None:
    if leaf is None or isinstance(leaf, (bool, int, float, str)):
        return leaf
    raise NotStored(
        f"[export] values of type {type(leaf).__name__} cannot be stored; expected tensors, "
        "numbers, text and None in tuples, lists and dicts."
    )


def _nest(tree: object, leaf: Callable[[object], object] = _plain) -> Any:
    """Nested tuples, lists and dicts as JSON, with leaf(x) in place of each leaf x."""
    if isinstance(tree, TensorTuple):
        tree = tree.tuple()
    if isinstance(tree, dict):
        return {"dict": [[_plain(k), _nest(v, leaf)] for k, v in tree.items()]}
    if isinstance(tree, (tuple, list)):
        kind = "tuple" if isinstance(tree, tuple) else "list"
        return {kind: [_nest(item, leaf) for item in tree]}
    return leaf(tree)


def _unnest(json: object) -> Any:
    if isinstance(json, dict):
        ((kind, items),) = json.items()
        if kind == "dict":
            return {k: _unnest(v) for k, v in items}
        made = [_unnest(item) for item in items]
        return tuple(made) if kind == "tuple" else made
    return json


class Exported:
    """A program from a file; call it like the function that was exported."""

    def __init__(self, graph: Graph, weights: dict[FlatValue, Any], document: dict[str, Any]):
        takes: list[FlatValue | None] = document["takes"]
        self.arguments = document["arguments"]
        self.graph = graph
        self._plan = plan_memory(graph, [None] * len(graph.results))
        self._calls = compile_calls(self._plan)
        self._slots = [None if v is None else self._plan.slots.get(v) for v in takes]
        self._template: list[Any] = [None] * self._plan.num_slots
        for value, tensor in weights.items():
            if value in self._plan.slots:
                slot = self._plan.slots[value]
                self._template[slot] = tensor.realize_cached_data()._handle
        self._outputs = [
            Output(RESULT, int(o["at"]), r, host(), Tensor if o["tensor"] else None)
            for o, r in zip(document["gives"], self._plan.results, strict=True)
        ]
        self._result = _unnest(document["result"])

    def __repr__(self) -> str:
        return f"<exported program of {_words(self.arguments)}>"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        args, kwargs = _in_order((args, kwargs), self.arguments)
        given = _types(args, kwargs)
        if json.dumps(given) != json.dumps(self.arguments):  # as text: 1 is not True, nan is nan
            raise TypeError(
                f"[load_exported] expected arguments {_words(self.arguments)}, got {_words(given)}."
            )
        buffers = self._template.copy()
        buffers[ARENA] = self._plan.new_arena()
        for slot, array in zip(self._slots, Call(args, kwargs, apart=True).arrays, strict=True):
            if slot is not None:
                buffers[slot] = array._handle
        made: dict[int, Any] = {}
        for output, slot in zip(self._outputs, self._plan.result_slots, strict=True):
            x = output.operand
            buffers[slot] = host().mod.empty(x.value.size, x.dtype)
            made[output.target] = as_result(x.array(host(), buffers[slot]), output)
        self._calls.run(buffers)
        places = itertools.count()
        return map_leaves(lambda leaf: made.get(next(places), leaf), self._result)


def _in_order(tree: object, nest: object) -> Any:
    """Arguments with the items of dicts in the order of the file, if the keys are the same."""
    if not isinstance(nest, dict):
        return tree
    ((kind, items),) = nest.items()
    if kind == "dict" and isinstance(tree, dict):
        expected = dict(items)
        keys = expected if expected.keys() == tree.keys() else tree
        return {k: _in_order(tree[k], expected.get(k)) for k in keys}
    if kind in ("tuple", "list") and isinstance(tree, (tuple, list)) and len(items) == len(tree):
        made = [_in_order(item, own) for item, own in zip(tree, items, strict=True)]
        return tuple(made) if isinstance(tree, tuple) else made
    return tree


def _words(nest: object) -> str:
    """Argument types for the reader: float32[2, 3]."""
    if isinstance(nest, dict) and "array" in nest:
        shape, dtype = nest["array"]
        return f"{dtype}{shape}"
    if isinstance(nest, dict):
        ((kind, items),) = nest.items()
        if kind == "dict":
            return "{" + ", ".join(f"{k!r}: {_words(item)}" for k, item in items) + "}"
        return f"({', '.join(map(_words, items))})"
    return repr(nest)


def load_exported(path: str | os.PathLike[str]) -> Exported:
    """The function in a file that `export` wrote. The file is checked; nothing in it is code."""
    tensors, metadata = safetensors.read(path)
    try:
        document = json.loads(metadata[KEY])
        if document["version"] != VERSION:
            raise GraphError(f"its version is {document['version']!r}, expected {VERSION}")
        graph, given = read_graph(document["program"])
        weights = {given[int(name[1:])]: tensor for name, tensor in tensors.items()}
        for value, tensor in weights.items():
            if tensor.shape != (value.size,) or tensor.dtype != value.dtype:
                raise GraphError(f"the weight {value} does not have the program's size and dtype")
        document["takes"] = [None if n is None else given[n] for n in document["takes"]]
        missing = set(given) - set(weights) - set(document["takes"])
        if missing:
            raise GraphError(f"the weights {sorted(map(str, missing))} are missing")
        if _count_arrays(document["arguments"]) != len(document["takes"]):
            raise GraphError("the numbers of its inputs and of its array arguments differ")
        return Exported(graph, weights, document)
    except Exception as error:  # whatever a damaged file leads to
        missing_key = isinstance(error, KeyError)
        problem = f"{error} is not in it" if missing_key else str(error) or type(error).__name__
        raise ValueError(
            f"[load_exported] expected a file that ndl.export wrote, got {path}: {problem}."
        ) from None


def _count_arrays(nest: object) -> int:
    """The arrays among arguments; each must have a shape and a dtype."""
    if not isinstance(nest, dict):
        return 0
    ((kind, items),) = nest.items()
    if kind == "array":
        shape, dtype = items
        return int(math.prod(shape) >= 0 and dtype_of(dtype) is not None)
    return sum(_count_arrays(item[1] if kind == "dict" else item) for item in items)


def _write_c(program: CompiledProgram, call: Call, path: Path) -> None:
    graph = program.stages["fused" if "fused" in program.stages else "simplified"]
    memory = {v: t.realize_cached_data() for v, t in _memory(program).items()}
    source, header = c_files(path.stem, graph, program.trace.arguments, call.arrays, memory)
    write_whole(path.with_suffix(".h"), header, "export")
    write_whole(path, source, "export")
