"""Small calls that are independent of each other, side by side on different threads.

A small product gains little from two threads: they wait for each other, and move its operands from
cache to cache. The gradients of its two factors are products that are independent of each other:
each starts a *lane*, which runs on one thread, and continues with the small calls that depend on
it, until a call depends on both lanes, or until the next product. Dependencies are read from the
plan: no lane writes memory that another one reads or writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..control.loops import LOOP
from ..ir.graph import MATMUL_KERNELS, Node, Operand
from ..memory.plan import Bytes, Plan, meet
from ..trace.breaks import PYTHON
from ..view.show import flops

MOST_WORK = 1 << 21  # operations of a call; larger calls use all threads
MOST_ELEMENTS = 1 << 14  # of an operand
ALONE = frozenset({PYTHON, LOOP})


@dataclass
class Lane:
    """Calls that run one after the other."""

    numbers: list[int] = field(default_factory=list)
    reads: list[Bytes] = field(default_factory=list)
    writes: list[Bytes] = field(default_factory=list)
    products: int = 0
    work: int = 0

    def add(self, number: int, node: Node, reads: list[Bytes], writes: list[Bytes]) -> None:
        self.numbers.append(number)
        self.reads += reads
        self.writes += writes
        self.products += is_product(node)
        self.work += flops(node)

    def meets(self, reads: list[Bytes], writes: list[Bytes]) -> bool:
        """Would a call with these reads and writes depend on a call of the lane?"""
        return meet(self.writes, reads + writes) or meet(self.reads, writes)


def sections(plan: Plan) -> list[list[list[int]]]:
    """The sections of a plan that have several lanes: for each lane, the numbers of its calls."""
    found: list[list[Lane]] = [[]]
    for number, node in enumerate(plan.nodes):
        if not is_small(node):
            found.append([])
            continue
        reads, writes = _bytes(plan, node.ins), _bytes(plan, node.outs)
        met = [lane for lane in found[-1] if lane.meets(reads, writes)]
        if len(met) > 1 or (met and is_product(node)):
            found.append([])
            met = []
        if not met and (is_product(node) or not found[-1]):
            found[-1].append(Lane())
            met = found[-1][-1:]
        lane = met[0] if met else min(found[-1], key=lambda lane: lane.work)
        lane.add(number, node, reads, writes)
    return [
        [lane.numbers for lane in lanes]
        for lanes in found
        if sum(lane.products > 0 for lane in lanes) > 1
    ]


def is_small(node: Node) -> bool:
    """Does one thread run the call about as fast as all threads?"""
    sizes = (x.size for x in (*node.ins, *node.outs))
    return node.kernel not in ALONE and max(sizes) <= MOST_ELEMENTS and flops(node) <= MOST_WORK


def is_product(node: Node) -> bool:
    return node.kernel in MATMUL_KERNELS


def _bytes(plan: Plan, operands: tuple[Operand, ...]) -> list[Bytes]:
    """The memory of operands."""
    return [part for x in operands for part in plan.bytes_of(plan.roots[x.value])]
