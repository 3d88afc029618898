"""A plan: where every value lives, and the rule that it keeps.

Slot 0 is the arena; every value from outside that is used and every result has a slot of its own.
A result that replaces state may be computed in the state's memory (which is *donated*), if nothing
reads the old elements afterwards.

The rule is that every read finds its value, whatever else uses the same memory. `verify_plan`
follows what each piece of memory holds from call to call; the tests do so for every plan. The order
of reads and writes inside one piece is the graph's (`ir/effects.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ...backend import BackendDevice
from ...dtype import uint8
from ...ndarray.layout import effective_strides
from ..fusion.fusible import writes_at_the_end
from ..ir.graph import RUN_KERNELS, FlatValue, Graph, GraphError, Node, Operand
from ..ir.verify import verify

ARENA = 0
# Elementwise kernels, whose output may share memory with an input of the same layout.
IN_PLACE = frozenset({"unary", "binary", "where", "copy"})

Bytes = tuple[int, int, int]  # a slot, first byte, end


class Place(NamedTuple):
    """Bytes of a slot."""

    slot: int
    offset: int


class Donation(NamedTuple):
    """Memory from outside that is given to the result that replaces it."""

    value: FlatValue
    must: bool  # must the result be there, because other tensors share this memory?
    at_end: bool = False  # is it copied there at the end, because a call may fail before?


@dataclass
class Plan:
    """A graph with its copies made explicit, and a place for every value."""

    nodes: list[Node] = field(default_factory=list)
    places: dict[FlatValue, Place] = field(default_factory=dict)
    # The first value in the memory of each value: itself, unless it continues another one.
    roots: dict[FlatValue, FlatValue] = field(default_factory=dict)
    results: list[Operand] = field(default_factory=list)
    slots: dict[FlatValue, int] = field(default_factory=dict)  # of values from outside
    result_slots: list[int] = field(default_factory=list)
    donations: dict[FlatValue, FlatValue] = field(
        default_factory=dict
    )  # state that a root may replace
    arena_bytes: int = 0
    # For each root in the arena, the positions of the first and the last call that use it.
    lifetimes: dict[FlatValue, tuple[int, int]] = field(default_factory=dict)

    @cached_property
    def device(self) -> BackendDevice | None:
        """The device of all calls; None if there are several, or none."""
        devices = {node.device for node in self.nodes}
        return devices.pop() if len(devices) == 1 else None

    def new_arena(self) -> Any:
        """Memory for the values in the arena; None if their device has no sequences."""
        if self.device is None or self.device.offers.sequence is None:
            return None
        return self.device.mod.empty(self.arena_bytes, uint8)

    @property
    def num_slots(self) -> int:
        return 1 + max([*self.slots.values(), *self.result_slots], default=0)

    def bytes_of(self, root: FlatValue) -> list[Bytes]:
        """Where a root may be: at its place, and in the memory of the state that it replaces."""
        values = [v for v in (root, self.donations.get(root)) if v is not None and v in self.places]
        places = [(self.places[value], value.nbytes) for value in values]
        return [(slot, offset, offset + nbytes) for (slot, offset), nbytes in places]


def meet(some: list[Bytes], others: list[Bytes]) -> bool:
    """Have two lists of places bytes in common?"""
    return any(
        slot == other and max(begin, first) < min(end, last)
        for slot, begin, end in some
        for other, first, last in others
    )


def may_overwrite(
    node: Node, out: Operand, root: FlatValue, roots: dict[FlatValue, FlatValue]
) -> bool:
    """May an output of a call be in memory that the call reads?

    It may if the call is elementwise, or reads each row completely before it writes it, and both
    have the same layout. Of a call that is many, none but the one with the output may read it."""
    if any(roots[previous] is root for previous in node.previous):
        return False
    if node.kernel in RUN_KERNELS:
        typed = node.args[0]
        if not typed.is_elementwise and not writes_at_the_end(typed, node.outs.index(out)):
            return False
        if node.kernel == "run_each":
            others = [x for written, read in node.args[1] if out not in written for x in read]
            if any(roots[x.value] is root for x in others):
                return False
    elif node.kernel not in IN_PLACE:
        return False
    view = _layout(out)
    return all(_layout(x) == view for x in node.ins if roots[x.value] is root)


def _layout(x: Operand) -> tuple[object, ...]:
    return x.shape, effective_strides(x.shape, x.strides), x.offset, x.dtype


# The rule ----------------------------------------------------------------------------------------


def verify_plan(plan: Plan, graph: Graph) -> None:
    """Raise GraphError if a call or a result reads memory that holds another value by then."""
    verify(graph.with_nodes(plan.nodes, plan.results))
    memory = {root: plan.bytes_of(root) for root in {*plan.roots.values()}}
    in_slot: dict[int, set[FlatValue]] = {}
    for root, places in memory.items():
        for slot, _, _ in places:
            in_slot.setdefault(slot, set()).add(root)
    there = set(graph.inputs)  # the roots whose memory holds them at the moment
    for node in plan.nodes:
        outs = {plan.roots[out.value]: out for out in node.outs}
        ins = {plan.roots[value] for value in node.reads()}
        if not ins <= there:
            raise GraphError(f"the memory of {[*(ins - there)]} holds another value, in: {node}")
        for root, out in outs.items():
            near = {v for slot, _, _ in memory[root] for v in there & in_slot[slot]} - {root}
            lost = {v for v in near if meet(memory[v], memory[root])}
            for value in lost & ins:
                if not may_overwrite(node, out, value, plan.roots):
                    raise GraphError(f"{out} overwrites {value}, which the call reads: {node}")
            there = (there - lost) | {root}
        if not outs.keys() <= there:
            raise GraphError(f"two outputs are in one piece of memory, in: {node}")
    for result, slot in zip(plan.results, plan.result_slots, strict=True):
        root = plan.roots[result.value]
        if root not in there or plan.places[root].slot != slot:
            raise GraphError(f"the memory of the result {result} holds another value")
