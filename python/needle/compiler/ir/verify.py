"""The rules that every graph keeps. Every pass is checked in the tests (NEEDLE_VERIFY=on)."""

from __future__ import annotations

from ... import config
from .effects import Effects
from .graph import FlatValue, Graph, GraphError, Node, Operand


def verified(graph: Graph) -> Graph:
    """A graph that a pass has made; checked if NEEDLE_VERIFY is on."""
    if config.VERIFY:
        verify(graph)
    return graph


def verify(graph: Graph) -> None:
    """Every value is written once and before it is read, and is continued at most once; its
    elements are read before they are overwritten; operands stay inside their values."""
    known, continued = set(graph.inputs), set[FlatValue]()
    effects = Effects(graph.nodes)
    for position, node in enumerate(graph.nodes):
        for value in node.reads():
            if value not in known:
                raise GraphError(f"{value} is read before it is written, in: {node}")
        for x in (*node.ins, *node.outs):
            _check_inside(x, node)
        for x in node.ins:
            _check_there(x, position, effects, node)
        for out in node.outs:
            if out.value in known:
                raise GraphError(f"{out.value} is written twice, in: {node}")
            known.add(out.value)
        _check_continues(node, continued)
    for result in graph.results:
        if result.value not in known:
            raise GraphError(f"the result {result} is never written")
        _check_there(result, len(graph.nodes), effects, "a result")


def _check_continues(node: Node, continued: set[FlatValue]) -> None:
    if node.continues and len(node.continues) != len(node.outs):
        raise GraphError(f"`continues` must have one entry per output, in: {node}")
    for out, previous in node.outs_and_previous():
        if previous is not None and previous.nbytes != out.value.nbytes:
            raise GraphError(f"{previous} has another size than what continues it, in: {node}")
        if previous in continued:
            raise GraphError(f"{previous} is continued twice, in: {node}")
        if previous is not None:
            continued.add(previous)


def _check_there(x: Operand, position: int, effects: Effects, reader: object) -> None:
    end = effects.overwritten_at(x)
    if end is not None and end < position:
        raise GraphError(f"{x} is read after call {end} has overwritten it, by: {reader}")


def _check_inside(x: Operand, node: Node) -> None:
    if 0 in x.shape:
        return
    reach = [(n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)]
    low = x.offset + sum(r for r in reach if r < 0)
    high = x.offset + sum(r for r in reach if r > 0)
    if low < 0 or high >= x.value.size:
        raise GraphError(f"{x} leaves its value of {x.value.size} elements, in: {node}")
