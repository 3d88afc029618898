"""One self-contained HTML page about compiled functions: graphs, memory, kernels by time."""

from __future__ import annotations

import json
import linecache
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..control.loops import LOOP
from ..ir.graph import INPUT, FlatValue, Graph, Node, Operand
from ..memory.plan import Plan
from .show import Kernel, kernel_of, peaks

KINDS = {
    "product": ("matmul", "conv", "attention", "recurrence", LOOP),
    "fused": ("run", "run_each"),
    "elementwise": ("unary", "binary", "where"),
    "reduce": ("reduce", "arg_reduce", "scan", "mix"),
    "layout": ("copy", "fill", "gather", "scatter"),
}

FRAME = """<!doctype html>
<html lang=en><head><meta charset=utf-8><title>needle explain</title><style>
{style}</style></head><body>
<header><h1>needle explain</h1><div class=functions></div></header>
<main>
<section><div class=facts></div></section>
<section><h2>Graph</h2><div class=stages></div>
<div class=split><div class=graph></div><div class=details></div></div></section>
<section><h2>Memory</h2><p>Values in the arena: calls from left to right, places from bottom to top.
Click one to see what makes it.</p><div class=memory></div></section>
<section><h2>Kernels by time</h2><p>Click one for its code. "Of peak" is of the speed of a
large product or of a copy through memory; what stays in the caches can be faster than that.</p>
<table class=kernels></table></section>
</main>
<script>const DATA = {data};
{script}</script></body></html>
"""


def page(functions: Sequence[tuple[str, object, list[Kernel]]]) -> str:
    """The page for functions: their names, programs and kernels (with seconds, if measured)."""
    folder = Path(__file__).parent
    data = [_function(name, program, kernels) for name, program, kernels in functions]
    return FRAME.format(
        style=(folder / "explain.css").read_text(),
        script=(folder / "explain.js").read_text(),
        data=json.dumps(data).replace("<", "\\u003c"),  # no text may end the script, or begin one
    )


def _function(name: str, program: Any, kernels: list[Kernel]) -> dict[str, Any]:
    plan: Plan = program.plan
    seconds = sum(k.seconds for k in kernels)
    stages = list(program.stages.items())
    facts = [
        ["calls traced", str(len(stages[0][1].nodes))],
        ["kernels that run", str(len(kernels))],
        ["MB for values in between", f"{plan.arena_bytes / 1e6:.2f}"],
    ]
    if seconds:
        facts.append(["ms a call", f"{1e3 * seconds:.3f}"])
    return {
        "name": name,
        "facts": facts,
        "stages": [{"name": stage, "nodes": _nodes(graph, plan)} for stage, graph in stages],
        "kernels": _kernels(plan, kernels, seconds),
        "memory": _memory(plan),
    }


# The graph ---------------------------------------------------------------------------------------


def _nodes(graph: Graph, plan: Plan) -> list[dict[str, Any]]:
    """The calls of a graph and its arguments, with the numbers of those that they read."""
    number: dict[FlatValue, int] = {}
    made: list[dict[str, Any]] = []
    used = {v for node in graph.nodes for v in node.reads()}
    for value in graph.inputs:
        if value.kind == INPUT and value in used:
            number[value] = len(made)
            made.append(_input(graph, value))
    kernel = _kernel_numbers(graph, plan)
    for node, its_kernel in zip(graph.nodes, kernel, strict=True):
        for out in node.outs:
            number[out.value] = len(made)
        ins = dict.fromkeys(number[v] for v in node.reads() if v in number)
        made.append(_node(node, [i for i in ins if i != len(made)], its_kernel))
    return made


def _input(graph: Graph, value: FlatValue) -> dict[str, Any]:
    title = graph.names.get(value, f"input {value}")
    return {
        "name": title, "kind": "input", "outs": [value.type_text], "ins": [], "reads": [],
        "source": "", "line": "", "text": f"{value}: {value.type_text}", "kernel": None,
        "values": [str(value)],
    }  # fmt: skip


def _node(node: Node, ins: list[int], kernel: int | None) -> dict[str, Any]:
    described = kernel_of(node)
    file, _, line = node.source.rpartition(":")
    return {
        "name": described.name,
        "kind": next((k for k, names in KINDS.items() if node.kernel.startswith(names)), "other"),
        "outs": [_typed(x) for x in node.outs],
        "ins": ins,
        "reads": [_typed(x) for x in node.ins],
        "source": node.source,
        "line": linecache.getline(file, int(line)).strip() if line.isdigit() else "",
        "text": described.text if node.kernel == LOOP else str(node),
        "kernel": kernel,
        "values": [str(x.value) for x in node.outs],
    }


def _typed(x: Operand) -> str:
    return f"{x.value}: {x.type_text}"


def _kernel_numbers(graph: Graph, plan: Plan) -> list[int | None]:
    """For each call, the kernel that does its work in the end: its own, or one that it was fused
    into, which is that of a call that reads it."""
    final = {o.value: k for k, node in enumerate(plan.nodes) for o in node.outs}
    found: dict[FlatValue, int] = {}
    numbers: list[int | None] = []
    for node in reversed(graph.nodes):
        values = [o.value for o in node.outs]
        own = [final[v] for v in values if v in final] or [found[v] for v in values if v in found]
        numbers.append(own[0] if own else None)
        if own:
            for value in node.reads():
                found.setdefault(value, own[0])
    return numbers[::-1]


# Kernels and memory ------------------------------------------------------------------------------


def _kernels(plan: Plan, kernels: list[Kernel], total: float) -> list[dict[str, object]]:
    most_flops, most_bytes = peaks(plan.nodes[0].device) if total and plan.nodes else (1.0, 1.0)
    made = []
    for k in kernels:
        seconds = max(k.seconds, 1e-9)
        made.append({
            "name": k.name, "text": k.text, "source": k.source, "ms": 1e3 * k.seconds,
            "inputs": k.inputs, "outputs": k.outputs, "bytes": k.bytes, "flops": k.flops,
            "share": k.seconds / total if total else 0.0,
            "peak": max(k.flops / seconds / most_flops, k.bytes / seconds / most_bytes),
        })  # fmt: skip
    return made


def _memory(plan: Plan) -> dict[str, Any]:
    """A box per value of the arena: from the call that makes it to its last use."""
    boxes = [
        {"value": str(value), "type": value.type_text, "bytes": value.nbytes,
         "offset": plan.places[value].offset, "start": start, "end": end}
        for value, (start, end) in plan.lifetimes.items()
    ]  # fmt: skip
    return {"calls": len(plan.nodes), "bytes": plan.arena_bytes, "boxes": boxes}
