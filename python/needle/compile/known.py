"""The tensors from outside that a program uses, and whether its assumptions about them still hold.

A program assumes the layouts of their arrays, which of them share memory, and which require a
gradient. The arrays themselves may be different ones at every call.
"""

from __future__ import annotations

from .._native import hold_arrays
from ..ndarray.array import NDArray
from .state import data_of, grad_of, layout_of
from .trace import Trace


class Known:
    """Tensors from outside, in the order of the trace, with the arrays that they had in the last
    call."""

    def __init__(self, trace: Trace):
        self.cells = [cell for state in trace.states for cell in state.cells]
        self.arrays = [array for state in trace.states for array in state.arrays]
        self.layouts = [layout_of(array) for array in self.arrays]
        self.writes_in_place = any(state.is_mutated for state in trace.states)
        self.groups: list[range] = []  # per state: the positions of the cells that share its memory
        start = 0
        for state in trace.states:
            self.groups.append(range(start, start + len(state.cells)))
            start += len(state.cells)
            state.release()
        self.owners = [None if cell.is_grad else cell.owner for cell in self.cells]
        self.tensors = [owner for owner in self.owners if owner is not None]
        self.wanted = [tensor.requires_grad for tensor in self.tensors]
        self.changes = 0  # how often a tensor had another array than in the call before

    def hold(self) -> bool:
        """Do all tensors have arrays of the traced layouts, share memory as they did, and require
        gradients as they did?"""
        arrays, tensors = self.arrays, self.tensors
        if len(tensors) == len(arrays) and hold_arrays(tensors, arrays, self.wanted):
            return True  # the usual case: no array has changed
        if [tensor.requires_grad for tensor in tensors] != self.wanted:
            return False
        changed: dict[int, NDArray] = {}
        for i, owner in enumerate(self.owners):
            tensor = grad_of(self.cells[i].owner) if owner is None else owner
            array = None if tensor is None else data_of(tensor)
            if array is arrays[i]:
                continue
            if not isinstance(array, NDArray) or layout_of(array) != self.layouts[i]:
                return False
            changed[i] = array
        if not changed:
            return True
        if not self._share_alike([changed.get(i, array) for i, array in enumerate(arrays)]):
            return False
        for i, array in changed.items():
            arrays[i] = array
        self.changes += 1
        return True

    def _share_alike(self, arrays: list[NDArray]) -> bool:
        """Do the tensors that shared memory still share it? If memory is written in place, no other
        tensors may share it now."""
        memory = [{id(arrays[i]._handle) for i in group} for group in self.groups]
        apart = len(set().union(*memory)) == len(memory)
        return all(len(m) == 1 for m in memory) and (apart or not self.writes_in_place)

    def difference(self) -> str | None:
        """The first assumption that does not hold, in words."""
        if [tensor.requires_grad for tensor in self.tensors] != self.wanted:
            return "other tensors from outside require a gradient"
        for cell, before in zip(self.cells, self.layouts, strict=True):
            tensor = cell.tensor()
            if tensor is None or not isinstance(array := data_of(tensor), NDArray):
                return "a gradient from outside is gone"
            now = layout_of(array)
            if (now.shape, now.dtype) != (before.shape, before.dtype):
                kinds = [f"{layout.dtype}{layout.shape}" for layout in (now, before)]
                return f"a tensor from outside is {' instead of '.join(kinds)}"
            if now != before:
                return "a tensor from outside has another layout in memory"
        return None
