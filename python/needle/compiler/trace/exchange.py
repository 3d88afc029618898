"""Exchanges between ranks, as nodes of the graph.

An exchange runs as Python in the middle of the program, as a break does. All ranks must make theirs
in the same order, so each node also writes one byte that the one before it has written: the order
is a memory effect, which every pass keeps, and no exchange is left out or merged with another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dtype import uint8
from ...system.user_code import user_place
from ..errors import at_user_line
from ..ir.graph import CONSTANT, FlatValue, Node, whole
from .breaks import PYTHON

if TYPE_CHECKING:
    from ...tracing import Call
    from ...types import Arrays
    from .record import Recording


class Exchange:
    """A call between ranks, as a node runs it; its last output is the order."""

    def __init__(self, call: Call):
        self.call = call
        self.name = repr(call)

    def __repr__(self) -> str:
        return self.name

    def run(self, outs: Arrays, ins: Arrays) -> None:
        if self.call.keeps_inputs:  # the program's memory is used again
            ins = tuple(a.copy() for a in ins)
        self.call.run(outs[:-1], ins)


def record_exchange(recording: Recording, call: Call, outs: Arrays, ins: Arrays) -> None:
    """Add it to the graph."""
    if recording.is_in_body:
        raise at_user_line(
            f"[{call!r}] expected an exchange between ranks outside of scan, while_loop and cond, "
            "since a compiled loop has no order with other ranks; use a Python loop."
        )
    device = (*outs, *ins)[0].device
    sources = tuple(recording.in_c_order(a) for a in ins)
    continues: list[FlatValue | None] = []
    written = tuple(recording._written(a, False, continues) for a in outs)
    before = recording.exchanges
    if before is None:
        before = recording._outer_value(1, uint8, CONSTANT)
        recording.root.constants[before] = device.mod.kernels.empty(1, uint8)
    recording.exchanges = recording.graph.new_value(1, uint8)
    all_outs = (*written, whole(recording.exchanges))
    node = Node(
        PYTHON,
        (Exchange(call), all_outs, sources),
        all_outs,
        device,
        (*continues, before),
        user_place(),
    )
    recording.graph.nodes.append(node)
