"""When each instruction of a program with rows is computed: its *phase*, a pass over the row.

A row reduction ends with its pass, so what uses it is computed in a later one. This is found once,
when a program is made, and is part of its code: the interpreter, the built-in loops and generated C
read it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ir import Instruction


def phases_of(instructions: Sequence[Instruction]) -> tuple[int, ...]:
    """For each instruction, the first pass in which all of its arguments are known."""
    found: list[int] = []
    for i in instructions:
        known = (found[a] + instructions[a].is_row_reduction for a in i.args)
        found.append(max(known, default=0))
    return tuple(found)
