"""Sums over ranks that move while other kernels run.

A sum is cut into a start and an end. Everything that a start needs comes first, in the order of the
starts, and an end comes just before its first reader. So the gradients of a network's last layers
are on their way while those of the first ones are computed. The order of exchanges is a function of
the graph, which all ranks have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..ir.effects import Effects
from ..ir.graph import FlatValue, Graph, Node
from ..ir.verify import verified
from ..trace.breaks import PYTHON
from ..trace.exchange import Exchange

if TYPE_CHECKING:
    from ...types import Arrays


class Flight:
    """A call between its start and its end."""

    def __init__(self, exchange: Exchange):
        self.call, self.name = exchange.call, exchange.name
        self.end: Callable[[], None] | None = None


class Start:
    """Lets the bytes of a call move."""

    def __init__(self, flight: Flight):
        self.flight = flight

    def __repr__(self) -> str:
        return f"start of {self.flight.name}"

    def run(self, outs: Arrays, ins: Arrays) -> None:
        if self.flight.end is not None:
            raise RuntimeError(
                f"[{self.flight.name}] an earlier call of this function has failed while the ranks "
                "were exchanging; start them again."
            )
        self.flight.end = self.flight.call.start(ins, outs[:-1])


class End:
    """Waits for them."""

    def __init__(self, flight: Flight):
        self.flight = flight

    def __repr__(self) -> str:
        return f"end of {self.flight.name}"

    def run(self, outs: Arrays, ins: Arrays) -> None:
        assert self.flight.end is not None
        self.flight.end()
        self.flight.end = None


def overlap(graph: Graph) -> Graph:
    """The same calls in another order, and sums over ranks in two parts."""
    if not any(map(_can_wait, graph.nodes)):
        return graph
    nodes: list[Node] = []
    by: dict[FlatValue, FlatValue] = {}
    for node in graph.nodes:
        node = node.mapped(lambda x: x._replace(value=by.get(x.value, x.value)))
        node = replace(node, continues=tuple(v and by.get(v, v) for v in node.continues))
        if not _can_wait(node):
            nodes.append(node)
            continue
        start, end = _in_two(graph, node)
        nodes += [start, end]
        by.update({a.value: b.value for a, b in zip(start.outs[:-1], end.outs, strict=True)})
    results = [r._replace(value=by.get(r.value, r.value)) for r in graph.results]
    return verified(graph.with_nodes(_in_order(nodes), results))


def _can_wait(node: Node) -> bool:
    what = node.args[0] if node.kernel == PYTHON else None
    return isinstance(what, Exchange) and what.call.can_wait


def _in_two(graph: Graph, node: Node) -> tuple[Node, Node]:
    """The start, which is given the memory of the results, and the end, which fills it."""
    exchange, outs, ins = node.args
    flight = Flight(exchange)
    start = replace(node, args=(Start(flight), outs, ins))
    filled = tuple(x._replace(value=graph.new_value(x.value.size, x.dtype)) for x in outs[:-1])
    former = tuple(x.value for x in outs[:-1])
    end = replace(node, args=(End(flight), filled, ins), outs=filled, continues=former)
    return start, end


def _in_order(nodes: list[Node]) -> list[Node]:
    """First what the starts need, one start after the other; ends as late as they can be."""
    needs = _needs(nodes)
    starts = [i for i, node in enumerate(nodes) if isinstance(node.args[0], Start)]
    done: set[int] = set()
    found: list[Node] = []

    def add(last: int) -> None:
        """A call, after all that it needs."""
        stack = [last]
        while stack:
            i = stack[-1]
            missing = sorted(needs[i] - done, reverse=True)
            if missing:
                stack += missing
                continue
            stack.pop()
            if i not in done:
                done.add(i)
                found.append(nodes[i])

    for i in starts:
        add(i)
    for i, node in enumerate(nodes):
        if not isinstance(node.args[0], End):
            add(i)
    for i in range(len(nodes)):
        add(i)
    return found


def _needs(nodes: list[Node]) -> list[set[int]]:
    """The positions of the calls that must come before each call."""
    made = {out.value: i for i, node in enumerate(nodes) for out in node.outs}
    readers = Effects(nodes).readers_before(nodes)
    return [
        {made[v] for v in node.reads() if v in made} | readers.get(i, set())
        for i, node in enumerate(nodes)
    ]
