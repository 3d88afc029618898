"""The memory around a program: where each slot finds it for a call, and who gets the results.

Results that replace state go into the state's own memory if nobody else can see it: then a call
allocates nothing and assigns nothing. Whether somebody can is told by reference counts.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import autograd
from .._native import empty as empty_buffer
from ..autograd import Tensor, TensorOp
from ..dtype import int64
from ..ndarray.array import NDArray, make_view
from ..tree import leaves, with_leaves
from .errors import TraceError
from .graph import Value
from .memory import ARENA, Plan
from .state import Cell, data_of, grad_of, layout_of, set_data, set_grad
from .trace import DATA, ESCAPED, GRADIENT, MEMORY, RESULT, Output, Trace

# References to what only a tensor holds, where they are counted below: its slot or attribute, our
# list, a name, the question itself.
ARRAY_REFERENCES = 4
HANDLE_REFERENCES = 3  # not in a list
GRADIENT_REFERENCES = 4


class Known:
    """Tensors from outside and the arrays that they had when last seen."""

    def __init__(self, trace: Trace):
        self.cells = [cell for state in trace.states for cell in state.cells]
        self.arrays = [array for state in trace.states for array in state.arrays]
        self.layouts = [layout_of(array) for array in self.arrays]
        self.groups: list[range] = []  # those that share memory
        start = 0
        for state in trace.states:
            self.groups.append(range(start, start + len(state.cells)))
            start += len(state.cells)
            state.release()
        self.owners = [None if cell.is_grad else cell.owner for cell in self.cells]
        self.tensors = [owner for owner in self.owners if owner is not None]
        self.wanted = [tensor.requires_grad for tensor in self.tensors]

    def hold(self) -> bool:
        """Has every tensor an array of the same layout, do they share memory as they did, and do
        the same ones require a gradient?"""
        if [tensor.requires_grad for tensor in self.tensors] != self.wanted:
            return False
        arrays = self.arrays
        changed = False
        for i, owner in enumerate(self.owners):
            tensor = grad_of(self.cells[i].owner) if owner is None else owner
            array = None if tensor is None else data_of(tensor)
            if array is arrays[i]:
                continue
            if not isinstance(array, NDArray) or layout_of(array) != self.layouts[i]:
                return False
            arrays[i] = array
            changed = True
        return not changed or all(len({id(arrays[i]._handle) for i in g}) == 1 for g in self.groups)


class Binding:
    """Finds the memory of every slot for a call, and hands out what the call computed."""

    def __init__(self, plan: Plan, trace: Trace, constants: dict[Value, Any]):
        self.plan = plan
        self.trace = trace
        self.known = Known(trace)
        self.template: list[Any] = [None] * plan.num_slots
        for value, handle in constants.items():
            if value in plan.slots:
                self.template[plan.slots[value]] = handle
        self.arguments = [plan.slots.get(v) for v in trace.arguments]
        firsts = zip(trace.states, self.known.groups, strict=True)
        self.states = [(plan.slots.get(state.value), group[0]) for state, group in firsts]
        self.host = [(h, plan.slots.get(h.value)) for h in trace.host]
        counters = trace.counters
        self.counter_slot = None if counters is None else plan.slots.get(counters)
        self.grads: dict[int, Any] = {}  # id of a tensor -> the gradient that we last gave it
        self._sort_outputs()

    def _sort_outputs(self) -> None:
        """Outputs by the memory they may have: a state's, a former gradient's, or new."""
        places = {cell: i for i, cell in enumerate(self.known.cells)}
        self.homed: list[tuple[int, int, int, int]] = []  # output, slot, known, references
        self.gradients: list[tuple[int, int, Any]] = []  # output, slot, owner
        self.fresh: list[tuple[int, int]] = []  # output, slot
        for i, (output, slot) in enumerate(
            zip(self.trace.outputs, self.plan.result_slots, strict=True)
        ):
            if output.kind == DATA and output.home:
                known = places[output.target]
                is_read = self.states[self._group_of(known)][0] is not None
                self.homed.append((i, slot, known, HANDLE_REFERENCES + is_read))
            elif output.kind == GRADIENT and isinstance(output.target, Cell):
                self.gradients.append((i, slot, output.target.owner))
            elif output.kind != MEMORY:
                self.fresh.append((i, slot))

    def _group_of(self, known: int) -> int:
        return next(i for i, group in enumerate(self.known.groups) if known in group)

    # Before a call --------------------------------------------------------------------------

    def buffers(self, arguments: list[NDArray]) -> list[Any]:
        """The memory of every slot but the results'."""
        buffers = self.template.copy()
        buffers[ARENA] = empty_buffer(self.plan.arena_bytes, "uint8")
        for slot, array in zip(self.arguments, arguments, strict=True):
            if slot is not None:
                buffers[slot] = array._handle
        arrays = self.known.arrays
        for slot, i in self.states:
            if slot is not None:
                buffers[slot] = arrays[i]._handle
        for host, slot in self.host:
            numbers = np.ascontiguousarray(host.draw(), host.value.dtype.storage)
            if slot is not None:
                buffers[slot] = host.device.mod.from_numpy(numbers, host.value.dtype)
        if self.trace.draws:
            counters = self._advance()
            if self.counter_slot is not None:
                device = self.trace.draws[0].device
                buffers[self.counter_slot] = device.mod.from_numpy(counters, int64)
        return buffers

    def _advance(self) -> np.ndarray[Any, Any]:
        """Seed and offset of every draw; the generators go on to where the function left them."""
        words = np.empty((len(self.trace.draws), 2), np.uint64)
        for i, draw in enumerate(self.trace.draws):
            position = draw.generator.position + draw.start
            words[i] = draw.generator.seed, -(-position // draw.words)
        for generator, distance in self.trace.advances:
            generator.position += distance
        return words.view(np.int64)

    def outputs(self, buffers: list[Any]) -> list[tuple[int, Any]]:
        """Give the results memory; those that got new memory, and that memory."""
        made: list[tuple[int, Any]] = []
        arrays = self.known.arrays
        for i, slot, known, references in self.homed:
            array = arrays[known]
            handle = array._handle
            alone = sys.getrefcount(array) == ARRAY_REFERENCES
            if alone and sys.getrefcount(handle) == references:
                buffers[slot] = handle
            else:
                made.append((i, self._new(i)))
                buffers[slot] = made[-1][1]
        for i, slot, owner in self.gradients:
            handle = self._own_gradient(owner)
            if handle is None:
                handle = self._new(i)
                made.append((i, handle))
            buffers[slot] = handle
        for i, slot in self.fresh:
            buffers[slot] = self._new(i)
            made.append((i, buffers[slot]))
        return made

    def _new(self, i: int) -> Any:
        value = self.plan.results[i].value
        return self.trace.outputs[i].device.mod.empty(value.size, value.dtype)

    def _own_gradient(self, owner: Any) -> Any:
        """The memory of the gradient that the last call made, if only `owner` has it."""
        grad = self.grads.get(id(owner))
        if grad is None or grad_of(owner) is not grad:
            return None
        array = data_of(grad)
        handle = array._handle
        alone = (
            sys.getrefcount(grad) == GRADIENT_REFERENCES
            and sys.getrefcount(array) == ARRAY_REFERENCES - 1
            and sys.getrefcount(handle) == HANDLE_REFERENCES
        )
        return handle if alone else None

    # After a call ---------------------------------------------------------------------------

    def deliver(self, made: list[tuple[int, Any]], originals: list[Any]) -> Any:
        """Put every result where it belongs; gives what the function returns."""
        trace = self.trace
        results = leaves(trace.result)
        for i, handle in made:
            output, x = trace.outputs[i], self.plan.results[i]
            array = make_view(x.shape, x.strides, x.offset, x.dtype, output.device, handle)
            self._give(output, array, results, originals)
        stamp = autograd.next_stamp()
        for tensor in trace.assigned:
            tensor._replaced = stamp
        for output in trace.mutated:
            for cell in output.target.cells:
                autograd.after_write(cell.tensor())
        for tensor in trace.cleared:
            set_grad(tensor, None)
        return with_leaves(trace.result, results)

    def _give(
        self, output: Output, array: NDArray, results: list[Any], originals: list[Any]
    ) -> None:
        target = output.target
        if output.kind == RESULT:
            results[target] = as_result(array, output)
        elif output.kind == ESCAPED:
            tensor = target()
            if tensor is not None:
                set_data(tensor, array)
        elif output.kind == GRADIENT:
            owner = target.owner if isinstance(target, Cell) else originals[target]
            grad = Tensor.make_const(array)
            set_grad(owner, grad)
            if isinstance(target, Cell):
                self.grads[id(owner)] = grad
        elif isinstance(target, Cell):
            set_data(target.tensor(), array)
        else:
            write_argument(originals[target], array)


class Compiled(TensorOp):
    """A result of a compiled function, whose gradient is asked for in vain"""

    def gradient(self, out_grad: Any, node: Any) -> Any:
        raise TraceError(
            f"[jit] the result of shape {node.shape} of a compiled function has no gradient; "
            "compute gradients inside of the function, with backward() or ndl.grad."
        )


def as_result(array: NDArray, output: Output) -> Any:
    """What the caller gets. Where eager mode would record a history, there is a node that says
    why there is none."""
    if not output.is_tensor:
        return array
    result: Tensor = Tensor.make_const(array, output.requires_grad)
    if output.requires_grad:
        result.op = Compiled()
    return result


def write_argument(original: Any, array: NDArray) -> None:
    """Give an argument the data that the function gave it."""
    if isinstance(original, Tensor):
        set_data(original, array)
        original._replaced = autograd.next_stamp()
    elif isinstance(original, NDArray):
        original.device.mod.copy(original, array)
    else:
        original[...] = array.numpy()
