"""Small calls that are independent of each other, side by side on different threads.

A small product gains little from two threads: they wait for each other, and move its operands from
cache to cache. The gradients of its two factors are products that are independent of each other:
each starts a *section*, which runs on one thread, and continues with the small calls that depend on
it, until a call depends on both sections, or until the next product. Dependencies are read from the
plan: no section writes memory that another one reads or writes.
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
class Section:
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
        """Would a call with these reads and writes depend on a call of the section?"""
        return meet(self.writes, reads + writes) or meet(self.reads, writes)


def concurrent_sections(plan: Plan) -> list[list[list[int]]]:
    """Sections of a plan that run side by side: for each of them, the numbers of its calls."""
    found: list[list[Section]] = [[]]
    for number, node in enumerate(plan.nodes):
        if not is_small(node):
            found.append([])
            continue
        reads, writes = _bytes(plan, node.ins), _bytes(plan, node.outs)
        met = [section for section in found[-1] if section.meets(reads, writes)]
        if len(met) > 1 or (met and is_product(node)):
            found.append([])
            met = []
        if not met and (is_product(node) or not found[-1]):
            found[-1].append(Section())
            met = found[-1][-1:]
        section = met[0] if met else min(found[-1], key=lambda section: section.work)
        section.add(number, node, reads, writes)
    return [
        [section.numbers for section in together]
        for together in found
        if sum(section.products > 0 for section in together) > 1
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
