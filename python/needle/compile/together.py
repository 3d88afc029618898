"""Equal programs on different memory as one call: the updates of all small parameters, for one.

Small kernels cost more to start than to run. `run_each` makes many calls of one elementwise program
as a single parallel loop.
"""

from __future__ import annotations

from .graph import Graph, Node

SMALL = 1 << 17  # elements; larger ones keep all threads busy alone, and need not wait


def together(graph: Graph) -> Graph:
    """Small calls of one elementwise program whose results only the caller needs become one call,
    where the last of them stands."""
    read = {value for node in graph.nodes for value in node.reads()}
    batches: dict[object, list[Node]] = {}
    for node in graph.nodes:
        if _is_small(node) and not any(out.value in read for out in node.outs):
            batches.setdefault((node.args[0], node.device.name), []).append(node)
    last = {id(batch[-1]): batch for batch in batches.values()}
    waiting = {id(node) for batch in batches.values() for node in batch[:-1]}
    nodes = [
        _one_call(last[id(node)]) if id(node) in last else node
        for node in graph.nodes
        if id(node) not in waiting
    ]
    return graph.with_nodes(nodes)


def _is_small(node: Node) -> bool:
    """Is it a program that goes element by element, over few of them?"""
    if node.kernel != "run" or node.continues or max(o.size for o in node.outs) > SMALL:
        return False
    return bool(node.args[0].is_elementwise)


def _one_call(batch: list[Node]) -> Node:
    last = batch[-1]
    if len(batch) == 1:
        return last
    calls = tuple((node.args[1], node.args[2]) for node in batch)
    outs = tuple(out for node in batch for out in node.outs)
    return Node("run_each", (last.args[0], calls), outs, last.device, source=last.source)
