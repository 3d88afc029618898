"""Long reductions of computed elements, cut in two: rows first, then what the rows gave.

A reduction of few long rows keeps all threads busy only as a kernel of its own, which reads its
elements from memory. Cut into many rows, it can be a part of the program that computes them:
Σ (a - b)² never stores a square.
"""

from __future__ import annotations

from .graph import Graph, Node, Operand, Value, whole
from .pieces import FEW_ROWS, ROW_REDUCTIONS, SHORT, goes_by_element, piece_of

LEAST, MOST = 256, 1 << 14  # elements of a new row: work for a tile or more, for several threads


def split_reductions(graph: Graph) -> Graph:
    """The same results up to the order of sums."""
    made: dict[Value, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.extend(_in_two(graph, node, made) or [node])
        made.update({out.value: node for out in node.outs})
    return graph.with_nodes(nodes)


def _in_two(graph: Graph, node: Node, made: dict[Value, Node]) -> list[Node] | None:
    """Two calls in the place of a reduction of all elements that a program could compute."""
    if node.kernel != "reduce" or node.continues:
        return None
    name, out, a = node.args
    maker = made.get(a.value)
    is_all = out.size == 1 and a.size > SHORT and a.is_whole()
    if not is_all or maker is None or not _goes_by_element(maker) or name not in ROW_REDUCTIONS:
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
        Node("reduce", (name, partial, flat), (partial,), node.device, source=node.source),
        Node("reduce", (name, out, rest), (out,), node.device, source=node.source),
    ]


def _goes_by_element(node: Node) -> bool:
    if piece_of(node) is None or node.kernel == "reduce":
        return False
    return node.kernel != "run" or goes_by_element(node.args[0])


def _row_length(a: Operand) -> int | None:
    """As many elements as make a row: they lie next to each other, and divide all."""
    most = min(MOST, a.size // FEW_ROWS)
    best = reach = 1
    for step, n in sorted((s, n) for s, n in zip(a.strides, a.shape, strict=True) if n != 1):
        if step != reach:
            return None
        divisors = [d for d in range(2, min(n, most // reach) + 1) if n % d == 0]
        best = max([best, *(reach * d for d in divisors)])
        reach *= n
    return best if best >= LEAST else None
