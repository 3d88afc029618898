"""The memory around a program: where each slot finds it for a call, and who gets the results.

Results that replace state go into the state's own memory if nobody else can see it: then a call
allocates nothing and assigns nothing. Whether somebody can is told by reference counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import autograd
from .._native import (
    empty as empty_buffer,
    hold_arrays,
    note_replaced,
    take_gradients,
    take_homes,
)
from ..autograd import Tensor, TensorOp, TensorTuple
from ..dtype import int64
from ..ndarray import mutation
from ..ndarray.array import NDArray, make_view
from ..ndarray.select import has_overlap
from ..tree import leaves, with_leaves
from .errors import TraceError
from .graph import Operand, Value
from .memory import ARENA, Plan
from .panels import panels_of
from .state import Cell, data_of, grad_of, layout_of, set_data, set_grad
from .trace import DATA, ESCAPED, GRADIENT, MEMORY, RESULT, WRITTEN, Output, Trace


class Known:
    """Tensors from outside and the arrays that they had when last seen."""

    def __init__(self, trace: Trace):
        self.cells = [cell for state in trace.states for cell in state.cells]
        self.arrays = [array for state in trace.states for array in state.arrays]
        self.layouts = [layout_of(array) for array in self.arrays]
        self.writes_in_place = any(state.is_mutated for state in trace.states)
        self.groups: list[range] = []  # those that share memory
        start = 0
        for state in trace.states:
            self.groups.append(range(start, start + len(state.cells)))
            start += len(state.cells)
            state.release()
        self.owners = [None if cell.is_grad else cell.owner for cell in self.cells]
        self.tensors = [owner for owner in self.owners if owner is not None]
        self.wanted = [tensor.requires_grad for tensor in self.tensors]
        self.changes = 0  # how often one was found to have another array

    def hold(self) -> bool:
        """Has every tensor an array of the same layout, do they share memory as they did, and do
        the same ones require a gradient?"""
        arrays, tensors = self.arrays, self.tensors
        if len(tensors) == len(arrays) and hold_arrays(tensors, arrays, self.wanted):
            return True
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

    def difference(self) -> str | None:
        """The first reason for which they do not hold, in words."""
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
                return "a tensor from outside lies otherwise in memory"
        return None

    def _share_alike(self, arrays: list[NDArray]) -> bool:
        """Do those that shared memory share it still? Where memory is written in place, others must
        not have come to share it."""
        memory = [{id(arrays[i]._handle) for i in group} for group in self.groups]
        apart = len(set().union(*memory)) == len(memory)
        return all(len(m) == 1 for m in memory) and (apart or not self.writes_in_place)


class Binding:
    """Finds the memory of every slot for a call, and hands out what the call computed."""

    def __init__(
        self,
        plan: Plan,
        trace: Trace,
        constants: dict[Value, Any],
        panels: dict[Value, Operand],
    ):
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
        place = {state.value: i for state, (_, i) in zip(trace.states, self.states, strict=True)}
        self.panels = [
            (plan.slots[value], weights, place[weights.value]) for value, weights in panels.items()
        ]
        self.host = [(h, plan.slots.get(h.value)) for h in trace.host]
        counters = trace.counters
        self.counter_slot = None if counters is None else plan.slots.get(counters)
        self.writes_in_place = any(o.kind in (MEMORY, WRITTEN) for o in trace.outputs)
        self.can_clash = bool(self.writes_in_place or trace.without_grad or trace.changed)
        self.results = leaves(trace.result)
        self.is_single = not isinstance(trace.result, (dict, tuple, list, TensorTuple))
        wanted = zip(self.known.tensors, self.known.wanted, strict=True)
        self.sources = _roots([tensor for tensor, is_wanted in wanted if is_wanted])
        self.recorded = [
            o.target
            for o in trace.outputs
            if o.kind == RESULT and o.requires_grad and not o.is_freed
        ]
        states = (o for o in trace.outputs if o.kind == GRADIENT and isinstance(o.target, Cell))
        self.returned = [o for o in states if o.given_as]  # in memory that may be the former one's
        self.seen = -1  # changes of what is known that the template has
        self._sort_outputs()

    def _sort_outputs(self) -> None:
        """Outputs by the memory they may have: a state's, a former gradient's, or new."""
        places = {cell: i for i, cell in enumerate(self.known.cells)}
        self.homed: list[int] = []  # outputs
        self.homes: list[tuple[int, int, int]] = []  # of each: slot, known, references to memory
        self.gradients: list[int] = []  # outputs
        self.owners: list[tuple[int, Any]] = []  # of each: slot, whose gradient it is
        self.given: list[Any] = []  # and the gradient that it last got
        self.fresh: list[tuple[int, int]] = []  # output, slot
        for i, (output, slot) in enumerate(
            zip(self.trace.outputs, self.plan.result_slots, strict=True)
        ):
            if output.kind == DATA and output.home:
                known = places[output.target]
                is_read = self.states[self._group_of(known)][0] is not None
                self.homed.append(i)
                # The array has it, and if it is read, the template and the buffers of the call.
                self.homes.append((slot, known, 3 if is_read else 1))
            elif output.kind == GRADIENT and isinstance(output.target, Cell):
                self.gradients.append(i)
                self.owners.append((slot, output.target.owner))
                self.given.append(None)
            elif output.kind != MEMORY:
                self.fresh.append((i, slot))

    def _group_of(self, known: int) -> int:
        return next(i for i, group in enumerate(self.known.groups) if known in group)

    # Before a call --------------------------------------------------------------------------

    def check(self, originals: list[Any]) -> None:
        """Raise if an argument is a tensor that the function also finds otherwise, and changes."""
        if not self.can_clash:
            return
        trace = self.trace
        for i in trace.without_grad:
            if grad_of(originals[i]) is not None:
                raise TraceError(
                    "[jit] the function reads the gradient of an argument of shape "
                    f"{originals[i].shape}, which has one already; set it to None before the call, "
                    "or use the tensor from outside instead of passing it."
                )
        shared = [original for original in originals if id(original) in trace.changed]
        if self.writes_in_place:
            shared += self._sharing_memory(originals)
        if shared:
            raise TraceError(
                f"[jit] an argument of shape {shared[0].shape} is also known to the function as "
                "another argument or from outside, and changes there; pass a copy, or only one."
            )

    def _sharing_memory(self, originals: list[Any]) -> list[Any]:
        """The arguments with memory that is written in place, and which the function also sees
        as another argument or as state."""
        given = {id(x): x for x in originals if isinstance(x, (Tensor, NDArray))}.values()
        memory = [mutation.memory_id(_array_of(x)) for x in given]
        written = {
            mutation.memory_id(_array_of(originals[o.target]))
            for o in self.trace.outputs
            if o.kind == WRITTEN and isinstance(originals[o.target], (Tensor, NDArray))
        }
        states = [id(array._handle) for array in self.known.arrays] if written else []
        changing: set[int | None] = {
            id(data_of(o.target.cells[0].tensor())._handle) for o in self.trace.mutated
        }
        changing |= {m for m in written if [*memory, *states].count(m) > 1}
        return [x for x, m in zip(given, memory, strict=True) if m in changing]

    def buffers(self, arguments: list[NDArray]) -> list[Any]:
        """The memory of every slot but the results'."""
        if self.seen != self.known.changes:
            self._note_states()
        buffers = self.template.copy()
        for panel_slot, weights, i in self.panels:
            buffers[panel_slot] = panels_of(weights, self.known.arrays[i]._handle)
        buffers[ARENA] = empty_buffer(self.plan.arena_bytes, "uint8")
        for slot, array in zip(self.arguments, arguments, strict=True):
            if slot is not None:
                buffers[slot] = array._handle
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

    def _note_states(self) -> None:
        """The memory of state, which is the same from call to call as a rule."""
        self.seen = self.known.changes
        for slot, i in self.states:
            if slot is not None:
                self.template[slot] = self.known.arrays[i]._handle

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
        places = self.fresh
        if self.homes:
            taken = take_homes(self.homes, self.known.arrays, buffers)
            places = [(self.homed[k], self.homes[k][0]) for k in taken] + places
        if self.owners:
            taken = take_gradients(self.owners, self.given, buffers)
            places = [(self.gradients[k], self.owners[k][0]) for k in taken] + places
        for i, slot in places:
            buffers[slot] = self._new(i)
            made.append((i, buffers[slot]))
        # Before the program runs: it writes over data in place, also if it is interrupted.
        note_replaced(self.trace.assigned)
        return made

    def _new(self, i: int) -> Any:
        value = self.plan.results[i].value
        return self.trace.outputs[i].device.mod.empty(value.size, value.dtype)

    # After a call ---------------------------------------------------------------------------

    def deliver(self, made: list[tuple[int, Any]], originals: list[Any]) -> Any:
        """Put every result where it belongs; gives what the function returns."""
        trace = self.trace
        results = self.results.copy()
        for i, handle in made:
            output, x = trace.outputs[i], self.plan.results[i]
            array = make_view(x.shape, x.strides, x.offset, x.dtype, output.device, handle)
            self._give(i, output, array, results, originals)
        for output in self.returned:
            grad = grad_of(output.target.owner)
            for position in output.given_as:
                results[position] = grad
        for output in trace.mutated:
            for cell in output.target.cells:
                autograd.after_write(cell.tensor())
        for target in trace.cleared:
            tensor = originals[target] if isinstance(target, int) else target
            if isinstance(tensor, Tensor):
                set_grad(tensor, None)
        self._link(results, originals)
        return results[0] if self.is_single else with_leaves(trace.result, results)

    def _link(self, results: list[Any], originals: list[Any]) -> None:
        """Let results lead to what they were computed from: who asks for the gradient by that is
        told that there is none."""
        if not self.recorded:
            return
        given = [x for x in originals if isinstance(x, Tensor) and x.requires_grad]
        sources = _roots([*given, *self.sources]) if given else self.sources
        for i in self.recorded:
            results[i].inputs, results[i]._stamp = sources, autograd.next_stamp()

    def _give(
        self, i: int, output: Output, array: NDArray, results: list[Any], originals: list[Any]
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
            if isinstance(owner, Tensor):  # an array of NumPy's has none
                set_grad(owner, grad)
            if isinstance(target, Cell):  # as a result: see deliver
                self.given[self.gradients.index(i)] = grad
                return
            for position in output.given_as:
                results[position] = grad
        elif isinstance(target, Cell):
            set_data(target.tensor(), array)
        elif output.kind == WRITTEN:
            write_argument(originals[target], array)
        elif isinstance(originals[target], Tensor):
            set_data(originals[target], array)
            originals[target]._replaced = autograd.next_stamp()


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


def _roots(tensors: list[Any]) -> tuple[Any, ...]:
    """What the tensors were computed from by other compiled functions: no chain of results, which
    would keep all of them."""
    found = [x.inputs if isinstance(x.op, Compiled) else (x,) for x in tensors]
    return tuple({id(x): x for group in found for x in group}.values())


def write_argument(original: Any, array: NDArray) -> None:
    """Write into an argument's memory what the function wrote there."""
    if isinstance(original, np.ndarray):
        original[...] = array.numpy()
        return
    memory = _array_of(original)
    if has_overlap(memory):
        raise ValueError(
            f"[jit] the function writes into an argument that is a broadcast view {memory.shape}; "
            "copy it first (x = x.clone())."
        )
    memory.device.mod.copy(memory, array)
    if isinstance(original, Tensor):
        autograd.after_write(original)


def _array_of(x: Any) -> Any:
    return data_of(x) if isinstance(x, Tensor) else x
