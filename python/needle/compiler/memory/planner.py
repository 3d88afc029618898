"""Planning memory: one arena, whose bytes are reused by liveness, or memory from outside."""

from __future__ import annotations

import bisect
import math
from dataclasses import replace

from ... import config
from ...backend import BackendDevice, default_device
from ..ir.effects import memory_roots
from ..ir.graph import COMPUTED, FlatValue, Graph, Node, Operand, whole
from .plan import ARENA, Donation, Place, Plan, may_overwrite, verify_plan

ALIGNMENT = 64


def plan_memory(graph: Graph, donations: list[Donation | None]) -> Plan:
    """Give every value its place. `donations` has an entry per result."""
    nodes = _with_owned_updates(graph, donations)
    roots = memory_roots(nodes, graph.inputs)
    nodes, results = _with_result_copies(graph, nodes, roots, donations)
    roots = memory_roots(nodes, graph.inputs)
    plan = Plan(nodes, roots=roots, results=results)
    _assign_slots(plan, graph, donations)
    _assign_arena(plan)
    if config.VERIFY:
        verify_plan(plan, graph)
    return plan


# Copies ------------------------------------------------------------------------------------------


def copy_of(graph: Graph, source: Operand, device: BackendDevice, line: str = "") -> Node:
    """A call that copies an operand into a new value, with the same layout if it is whole."""
    if source.is_whole():
        value = graph.new_value(source.value.size, source.dtype)
        out = source._replace(value=value)
    else:
        value = graph.new_value(math.prod(source.shape), source.dtype)
        out = whole(value, source.shape)
    return Node("copy", (out, source), (out,), device, source=line)


def _with_owned_updates(graph: Graph, donations: list[Donation | None]) -> list[Node]:
    """Let calls continue a copy of a value that belongs to somebody outside, unless it is state
    that the program changes in place."""
    final = _ends_of_chains(graph.nodes)
    in_place = {
        donation.value
        for donation, result in zip(donations, graph.results, strict=True)
        if donation is not None and donation.must and final.get(donation.value) is result.value
    }
    nodes: list[Node] = []
    for node in graph.nodes:
        continues: list[FlatValue | None] = []
        for previous in node.continues:
            if previous is not None and previous.kind != COMPUTED and previous not in in_place:
                nodes.append(copy_of(graph, whole(previous), node.device, node.source))
                previous = nodes[-1].outs[0].value
            continues.append(previous)
        nodes.append(replace(node, continues=tuple(continues)) if continues else node)
    return nodes


def _ends_of_chains(nodes: list[Node]) -> dict[FlatValue, FlatValue]:
    """Of each value that others continue, one after another: the last one in its memory."""
    ends: dict[FlatValue, FlatValue] = {}
    starts: dict[FlatValue, FlatValue] = {}
    for node in nodes:
        for out, previous in node.outs_and_previous():
            if previous is not None:
                start = starts.pop(previous, previous)
                starts[out.value] = start
                ends[start] = out.value
    return ends


def _with_result_copies(
    graph: Graph,
    nodes: list[Node],
    roots: dict[FlatValue, FlatValue],
    donations: list[Donation | None],
) -> tuple[list[Node], list[Operand]]:
    """Results that cannot be computed where they belong are copied there at the end.

    Copies to new memory come first, then copies that replace state, so that none reads what another
    one has written.
    """
    first = {roots[o.value]: i for i, n in reversed([*enumerate(nodes)]) for o in n.outs}
    last = {roots[value]: i for i, node in enumerate(nodes) for value in node.reads()}
    last |= {roots[r.value]: len(nodes) for r in graph.results}  # which are read at the end
    taken: set[FlatValue] = set()  # roots that are in the memory of a result

    def is_in_place(result: Operand, donation: Donation | None) -> bool:
        """Can the result be computed where it belongs?"""
        root = roots[result.value]
        if donation is not None and root is donation.value:  # it was written in place
            return donation.must
        if root.kind != COMPUTED or root in taken or not result.is_whole():
            return False
        if donation is not None and donation.at_end:
            return False
        start = first[root]
        if donation is None or last.get(donation.value, -1) < start:
            return True
        node, end = nodes[start], last[donation.value]
        outs = [o for o in node.outs if o.value is result.value]
        return end == start and any(may_overwrite(node, o, donation.value, roots) for o in outs)

    results = list(graph.results)
    early: list[Node] = []
    late: list[Node] = []
    for i, (result, donation) in enumerate(zip(graph.results, donations, strict=True)):
        root = roots[result.value]
        if is_in_place(result, donation):
            taken.add(root)
            continue
        device = nodes[first[root]].device if root in first else _any_device(nodes)
        source = result
        if donation is not None and root.kind != COMPUTED:
            early.append(copy_of(graph, source, device))
            source = early[-1].outs[0]
        made = copy_of(graph, source, device)
        (early if donation is None else late).append(made)
        results[i] = made.outs[0]
    return nodes + early + late, results


def _any_device(nodes: list[Node]) -> BackendDevice:
    return nodes[0].device if nodes else default_device()


# Slots and the arena -----------------------------------------------------------------------------


def _assign_slots(plan: Plan, graph: Graph, donations: list[Donation | None]) -> None:
    used = {v for node in plan.nodes for v in node.reads()}
    used |= {donation.value for donation in donations if donation is not None and donation.must}
    slots = plan.slots
    for value in graph.inputs:
        if value in used:
            slots[value] = len(slots) + 1
            plan.places[value] = Place(slots[value], 0)
    number = len(slots)
    for result, donation in zip(plan.results, donations, strict=True):
        if donation is not None and donation.must:
            plan.result_slots.append(slots[donation.value])
        else:
            number += 1
            plan.result_slots.append(number)
            if donation is not None:
                plan.donations[plan.roots[result.value]] = donation.value
        plan.places.setdefault(plan.roots[result.value], Place(plan.result_slots[-1], 0))


def _assign_arena(plan: Plan) -> None:
    """Walk through the calls: a value takes memory where it is made, and frees it after its last
    use."""
    ends: dict[FlatValue, int] = {}
    for i, node in enumerate(plan.nodes):
        for value in (*node.reads(), *(o.value for o in node.outs)):
            ends[plan.roots[value]] = i
    dying: dict[int, list[FlatValue]] = {}
    for root, end in ends.items():
        dying.setdefault(end, []).append(root)
    arena = Arena()
    for i, node in enumerate(plan.nodes):
        for out in node.outs:
            root = plan.roots[out.value]
            if root in plan.places:
                continue
            reused = _dies_here(plan, node, out, i, ends)
            if reused is not None:
                plan.places[root] = plan.places[reused]
                dying[i].remove(reused)
            else:
                plan.places[root] = Place(ARENA, arena.take(root.nbytes))
            plan.lifetimes[root] = (i, ends[root])
        for root in dying.get(i, ()):
            if root in plan.lifetimes:
                arena.give(plan.places[root].offset, root.nbytes)
    plan.arena_bytes = arena.size
    for value, root in plan.roots.items():
        if root in plan.places:
            plan.places[value] = plan.places[root]


def _dies_here(
    plan: Plan, node: Node, out: Operand, i: int, ends: dict[FlatValue, int]
) -> FlatValue | None:
    """An input in the arena that this call uses last, and that the output may overwrite."""
    if not out.is_whole():
        return None
    taken = [plan.places.get(plan.roots[o.value]) for o in node.outs]
    for x in node.ins:
        root = plan.roots[x.value]
        if (
            root in plan.lifetimes
            and ends[root] == i
            and root.nbytes == out.value.nbytes
            and plan.places[root] not in taken
            and may_overwrite(node, out, root, plan.roots)
        ):
            return root
    return None


class Arena:
    """Allocates offsets in one piece of memory: the best fitting hole, else space at the end."""

    def __init__(self) -> None:
        self.size = 0
        self._holes: list[tuple[int, int]] = []  # (offset, bytes), by offset, never adjacent

    def take(self, nbytes: int) -> int:
        needed = _rounded(nbytes)
        fitting = [(size, i) for i, (_, size) in enumerate(self._holes) if size >= needed]
        if fitting:
            size, i = min(fitting)
            offset, _ = self._holes.pop(i)
            if size > needed:
                self._holes.insert(i, (offset + needed, size - needed))
            return offset
        if self._holes and sum(self._holes[-1]) == self.size:
            offset, _ = self._holes.pop()
        else:
            offset = self.size
        self.size = offset + needed
        return offset

    def give(self, offset: int, nbytes: int) -> None:
        size = _rounded(nbytes)
        if size == 0:
            return
        i = bisect.bisect(self._holes, (offset, 0))
        if i < len(self._holes) and self._holes[i][0] == offset + size:
            size += self._holes.pop(i)[1]
        if i > 0 and sum(self._holes[i - 1]) == offset:
            start, before = self._holes.pop(i - 1)
            self._holes.insert(i - 1, (start, before + size))
        else:
            self._holes.insert(i, (offset, size))


def _rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
