"""Reductions over all elements, split so that more of a graph can be fused.

A long reduction is split into two: over rows, and over the results of the rows. Unsplit, only a
kernel of its own would keep all threads busy, and it would read its elements from memory. Split, it
can be part of the program that computes the elements: Σ (a - b)² never stores a square.

A program with several such results is split into one program per result if they read different
inputs, so that a result that needs less is ready earlier: the number of class ids that count is
known before any loss is, so the gradient of a mean cross entropy can be fused with the losses.
"""

from __future__ import annotations

from dataclasses import replace

from ...backend.protocol import REDUCE
from ...tile.program import Builder, TypedProgram
from ..fusion.fusible import FEW_ROWS, SHORT, as_fusible, spliced
from ..ir.graph import FlatValue, Graph, Node, Operand, whole

LEAST, MOST = 256, 1 << 14  # elements of a new row: enough to fill a tile, enough rows to share


def split_reductions(graph: Graph) -> Graph:
    """The same results up to the order of sums."""
    made: dict[FlatValue, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.extend(_in_two(graph, node, made) or _by_result(node) or [node])
        made.update({out.value: node for out in node.outs})
    return graph.with_nodes(nodes)


def _in_two(graph: Graph, node: Node, made: dict[FlatValue, Node]) -> list[Node] | None:
    """Two calls in the place of a reduction of all elements that a program could compute."""
    if node.kernel != "reduce" or node.continues:
        return None
    name, out, a = node.args
    maker = made.get(a.value)
    is_all = out.size == 1 and a.size > SHORT and a.is_whole()
    if not is_all or maker is None or not _is_elementwise(maker) or REDUCE[name] == "truth":
        return None
    if not out.dtype.is_floating or out.dtype is not a.dtype:
        return None
    length = _row_length(a)
    if length is None:
        return None
    rows = a.size // length
    partial = whole(graph.new_value(rows, out.dtype), (rows, 1))
    flat = Operand(a.value, (rows, length), (length, 1), a.offset)
    rest = whole(partial.value, (1,) * (len(out.shape) - 1) + (rows,))
    return [
        node.instead("reduce", (name, partial, flat), (partial,)),
        node.instead("reduce", (name, out, rest)),
    ]


def _is_elementwise(node: Node) -> bool:
    if as_fusible(node) is None or node.kernel == "reduce":
        return False
    return node.kernel != "run" or bool(node.args[0].is_elementwise)


def _row_length(a: Operand) -> int | None:
    """The length of the longest row that divides the elements evenly; None if they are not
    contiguous in memory, or if all such rows are too short."""
    most = min(MOST, a.size // FEW_ROWS)
    best = reach = 1
    for step, n in sorted((s, n) for s, n in zip(a.strides, a.shape, strict=True) if n != 1):
        if step != reach:
            return None
        divisors = [d for d in range(2, min(n, most // reach) + 1) if n % d == 0]
        best = max([best, *(reach * d for d in divisors)])
        reach *= n
    return best if best >= LEAST else None


def _by_result(node: Node) -> list[Node] | None:
    """One program per result of a program that reduces all elements, if some do not read all of its
    inputs."""
    if node.kernel != "run" or node.continues or any(out.size > 1 for out in node.outs):
        return None
    typed, outs, ins, inner = node.args
    if any(x.shape != ins[0].shape for x in ins) or ins[0].size == 1:
        return None
    parts = [_part(typed, place) for place in range(len(outs))]
    if all(len(reads) == len(ins) for _, reads in parts):
        return None
    return [
        replace(node, args=(part, (out,), tuple(ins[k] for k in reads), inner), outs=(out,))
        for out, (part, reads) in zip(outs, parts, strict=True)
    ]


def _part(typed: TypedProgram, place: int) -> tuple[TypedProgram, list[int]]:
    """The program of one output, and the inputs that it reads."""
    needed = _needed(typed, place)
    order = {number: new for new, number in enumerate(needed)}
    reads = needed[: sum(number < len(typed.inputs) for number in needed)]
    some = [typed.instructions[number] for number in needed]
    instructions = tuple(
        replace(i, args=tuple(order[a] for a in i.args), detail=n if i.name == "load" else i.detail)
        for n, i in enumerate(some)
    )
    dtypes = tuple(typed.dtypes[n] for n in needed)
    builder = Builder()
    inputs = [builder.input(typed.input_kinds[k]) for k in reads]
    (result,) = spliced(builder, replace(typed, instructions=instructions, dtypes=dtypes), inputs)
    names = [typed.program.arguments[k] for k in reads]
    program = builder.finish(typed.program.name, names, result)
    return program.for_dtypes(tuple(typed.inputs[k] for k in reads), (typed.outputs[place],)), reads


def _needed(typed: TypedProgram, place: int) -> list[int]:
    """The numbers of the instructions that an output needs; loads are the first ones."""
    needed: set[int] = set()
    for number, i in reversed(list(enumerate(typed.instructions))):
        if number in needed or (i.name == "store" and i.detail == place):
            needed |= {number, *i.args}
    return sorted(needed)
