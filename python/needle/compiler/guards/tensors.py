"""The tensors from outside that a program uses, and whether its assumptions about them still hold.

A program assumes the layouts of their arrays, which of them share memory, and which require a
gradient. The arrays themselves may be different ones at every call. They are known by weak
references: a program that held them would keep other programs from updating them in place.
"""

from __future__ import annotations

import weakref
from typing import Any

from ...backend.fast_paths import changed_places
from ...ndarray.array import NDArray
from ...ndarray.versions import meets_any
from ..trace.state import data_of, layout_of
from ..trace.tracer import Trace


class Known:
    """Tensors from outside, in the order of the trace, with the arrays that they had in the last
    call."""

    def __init__(self, trace: Trace):
        arrays = [array for state in trace.states for array in state.arrays]
        self.cells = [cell for state in trace.states for cell in state.cells]
        # For the native core: a tensor stands for itself, a Cell for the gradient in it.
        self.places = [cell if cell.is_grad else cell.owner for cell in self.cells]
        self.references = [weakref.ref(array) for array in arrays]
        self.layouts = [layout_of(array) for array in arrays]
        # Does each tensor require a gradient? None: it is a gradient, of which nothing is assumed.
        self.wanted = [None if cell.is_grad else cell.owner.requires_grad for cell in self.cells]
        # The states that are written in place.
        self.mutated = [k for k, state in enumerate(trace.states) if state.is_mutated]
        self.groups: list[range] = []  # per state: the positions of the cells that share its memory
        start = 0
        for state in trace.states:
            self.groups.append(range(start, start + len(state.cells)))
            start += len(state.cells)
            state.release()
        self.changes = 0  # how often a tensor had another array than in the call before

    def array(self, i: int) -> Any:
        """The array that a tensor has now."""
        tensor = self.cells[i].tensor()
        return None if tensor is None else data_of(tensor)

    def memory(self, i: int) -> Any:
        """The memory of the array that a tensor has now."""
        return self.array(i)._handle

    def hold(self) -> bool:
        """Do all tensors have arrays of the traced layouts, share memory as they did, and require
        gradients as they did?"""
        changed = changed_places(self.places, self.references, self.wanted)
        return not changed or self._take(changed)

    def _take(self, changed: list[int]) -> bool:
        """Do these tensors, which have changed, still fit? If so, their arrays are known now."""
        arrays = [self.array(i) for i in changed]
        for i, array in zip(changed, arrays, strict=True):
            if not isinstance(array, NDArray) or layout_of(array) != self.layouts[i]:
                return False
            if self.wanted[i] not in (None, self.cells[i].owner.requires_grad):
                return False
        if not self._share_alike():
            return False
        for i, array in zip(changed, arrays, strict=True):
            self.references[i] = weakref.ref(array)
        self.changes += 1
        return True

    def _share_alike(self) -> bool:
        """Do the tensors that shared memory still share it? If memory is written in place, no other
        tensors may share it now."""
        groups = self.groups
        if not self.mutated:
            groups = [group for group in groups if len(group) > 1]
        memory = [[self.memory(i) for i in group] for group in groups]
        if any(m is not group[0] for group in memory for m in group):
            return False
        firsts = [group[0] for group in memory]
        return not any(meets_any(firsts[k], firsts[:k] + firsts[k + 1 :]) for k in self.mutated)

    def difference(self) -> str | None:
        """The first assumption that does not hold, in words."""
        for cell, wanted in zip(self.cells, self.wanted, strict=True):
            if wanted not in (None, cell.owner.requires_grad):
                return "other tensors from outside require a gradient"
        for i, before in enumerate(self.layouts):
            array = self.array(i)
            if not isinstance(array, NDArray):
                return "a gradient from outside is gone"
            now = layout_of(array)
            if (now.shape, now.dtype) != (before.shape, before.dtype):
                kinds = [f"{layout.dtype}{layout.shape}" for layout in (now, before)]
                return f"a tensor from outside is {' instead of '.join(kinds)}"
            if now != before:
                return "a tensor from outside has another layout in memory"
        return None
