"""Calls of the same program on different memory as one call, such as all small parameter updates.

Small kernels take longer to start than to run. `run_each` makes many calls of one elementwise
program as a single parallel loop.
"""

from __future__ import annotations

from ..ir.effects import Effects
from ..ir.graph import Graph, Node

SMALL = 1 << 17  # elements; a larger call keeps all threads busy by itself


def together(graph: Graph) -> Graph:
    """Small calls of one elementwise program whose results no other call reads become one call, at
    the position of the last one."""
    read = {value for node in graph.nodes for value in node.reads()}
    effects = Effects(graph.nodes)
    batches: list[list[Node]] = []
    open_batches: dict[object, list[Node]] = {}  # by program and device
    for position, node in enumerate(graph.nodes):
        if not _is_small(node) or any(out.value in read for out in node.outs):
            continue
        key = (node.args[0], node.device.name)
        batch = open_batches.get(key)
        if batch is None or not all(effects.may_wait(previous, position) for previous in batch):
            batch = open_batches[key] = []
            batches.append(batch)
        batch.append(node)
    last = {id(batch[-1]): batch for batch in batches}
    waiting = {id(node) for batch in batches for node in batch[:-1]}
    nodes = [
        _one_call(last[id(node)]) if id(node) in last else node
        for node in graph.nodes
        if id(node) not in waiting
    ]
    return graph.with_nodes(nodes)


def _is_small(node: Node) -> bool:
    """Is it an elementwise program over few elements?"""
    if node.kernel != "run" or node.continues or max(o.size for o in node.outs) > SMALL:
        return False
    return bool(node.args[0].is_elementwise)


def _one_call(batch: list[Node]) -> Node:
    last = batch[-1]
    if len(batch) == 1:
        return last
    calls = tuple((node.args[1], node.args[2]) for node in batch)
    outs = tuple(out for node in batch for out in node.outs)
    return last.instead("run_each", (last.args[0], calls), outs)
