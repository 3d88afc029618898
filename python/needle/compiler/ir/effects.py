"""Memory effects: which calls overwrite elements that others read.

A value that continues another one overwrites some elements of the memory that both are in. So a
call that reads the previous value must run before the call that overwrites what it reads (a write
after a read). The other orders follow from the values themselves: a call that reads a value runs
after the call that writes it (a read after a write), and a value that continues another one comes
after it (a write after a write).

Every pass that moves or joins calls asks `Effects`, and `verify` checks the order that it made.
Reads and writes of different elements of one memory, such as its rows, stay independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from .graph import FlatValue, Node, Operand


class Effects:
    """The overwriting calls of a program. Positions are those of its calls."""

    def __init__(self, nodes: Sequence[Node]):
        # The memory of each value that continues another one or is continued: a list of the writes
        # that continue, in order, shared by all values there. And how many of them it has seen.
        self._writes: dict[FlatValue, list[tuple[int, Operand]]] = {}
        self._seen: dict[FlatValue, int] = {}
        for position, node in enumerate(nodes):
            for out, previous in node.outs_and_previous():
                if previous is not None:
                    writes = self._writes.setdefault(previous, [])
                    writes.append((position, out))
                    self._writes[out.value] = writes
                    self._seen[out.value] = len(writes)

    def overwritten_at(self, x: Operand) -> int | None:
        """The position of the first call that overwrites elements that x shows; None if they last
        to the end."""
        writes = self._writes.get(x.value, ())
        start = self._seen.get(x.value, 0)
        return next((i for i, out in writes[start:] if overlaps(x, out)), None)

    def may_wait(self, node: Node, until: int) -> bool:
        """May a call read its inputs as late as the call at a position?"""
        ends = map(self.overwritten_at, node.ins)
        return all(end is None or end > until for end in ends)

    def readers_before(self, nodes: Iterable[Node]) -> dict[int, set[int]]:
        """For each overwriting call, the positions of the calls that must have read before it."""
        found: dict[int, set[int]] = {}
        for position, node in enumerate(nodes if self._writes else ()):
            for end in map(self.overwritten_at, node.ins):
                if end is not None and end != position:
                    found.setdefault(end, set()).add(position)
        return found


def memory_roots(nodes: Iterable[Node], inputs: Iterable[FlatValue]) -> dict[FlatValue, FlatValue]:
    """The first value in the memory of each value: itself, unless it continues another one."""
    roots = {value: value for value in inputs}
    for node in nodes:
        for out, previous in node.outs_and_previous():
            roots[out.value] = out.value if previous is None else roots[previous]
    return roots


def overlaps(a: Operand, b: Operand) -> bool:
    """May two views of one memory have an element in common? False is certain.

    Places are compared modulo some m: axes that step by multiples of m stay at one place, and the
    others reach over an interval. If the intervals are apart, so are the views. With m as long as a
    row these are intervals of columns, with m = 2 the odd and the even elements, and with an m
    beyond the memory the intervals are of memory itself.
    """
    if a.size == 0 or b.size == 0:
        return False
    if a.dtype.itemsize != b.dtype.itemsize:
        return True
    steps = {abs(s) for x in (a, b) for n, s in zip(x.shape, x.strides, strict=True) if n > 1 and s}
    moduli = {*steps, math.gcd(*steps), max(a.value.size, b.value.size, 1)}
    return not any(_are_apart(_interval(a, m), _interval(b, m), m) for m in moduli if m)


def _interval(x: Operand, modulus: int) -> tuple[int, int]:
    """The first and the last place of a view, modulo m: the last is behind m if it wraps around."""
    axes = zip(x.shape, x.strides, strict=True)
    reaches = [(n - 1) * s for n, s in axes if s % modulus]
    first = (x.offset + sum(r for r in reaches if r < 0)) % modulus
    return first, first + sum(map(abs, reaches))


def _are_apart(a: tuple[int, int], b: tuple[int, int], modulus: int) -> bool:
    fit = a[1] < modulus and b[1] < modulus
    return fit and (a[1] < b[0] or b[1] < a[0])
