"""The memory around a program: what is in each slot during a call, and who gets the results.

A plan (`memory.py`) names memory by slots. For each call of the program, in this order,

- `check` refuses arguments that the program also reaches in another way, and changes there,
- `buffers` gives slots that are read their memory: constants, arguments, random numbers, and the
  arena,
- `outputs` does so for tensors from outside and for results, just before the program runs,
- `deliver` hands the results out, after it ran.

A result that replaces a tensor's data or gradient is computed in the old one's memory if nobody
else refers to that memory, which reference counts tell. Then a call allocates and assigns nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import autograd
from ...autograd import Tensor, TensorOp, TensorTuple
from ...backend.fast_paths import note_replaced, take_gradients, take_memory
from ...dtype import int64
from ...ndarray.array import NDArray
from ...ndarray.index.gather import has_overlap
from ...ndarray.versions import meets_any
from ...tree import leaves, with_leaves
from ..errors import TraceError
from ..guards.tensors import Known
from ..ir.graph import FlatValue, Operand
from ..memory.plan import ARENA, Plan
from ..passes.prepack import prepacked
from ..trace.state import Cell, data_of, grad_of, set_data, set_grad
from ..trace.tracer import EFFECT, ESCAPED, GRADIENT, MEMORY, RESULT, WRITTEN, Output, Trace

if TYPE_CHECKING:
    from ...tracing import Rewindable
    from ...types import Gradients, NumpyArray, Value


class Binding:
    """Finds the memory of every slot for a call, and hands out the results."""

    def __init__(
        self,
        plan: Plan,
        trace: Trace,
        constants: dict[FlatValue, object],
        prepacked_weights: dict[FlatValue, Operand],
        may_fail: bool,
    ):
        self.plan = plan
        self.trace = trace
        self.may_fail = may_fail
        self.known = Known(trace)
        self.written = [o.target for o in trace.outputs if o.kind == WRITTEN]  # arguments
        self.writes_in_place = bool(self.written or trace.mutated)
        self.can_clash = bool(self.writes_in_place or trace.without_grad or trace.changed)
        self._find_read_slots(constants, prepacked_weights)
        self._find_result_slots()
        self._prepare_delivery()

    # Arguments that are also something else ---------------------------------------------------

    def check(self, originals: list[Any]) -> None:
        """Raise if an argument is also known to the function in another way, and changes there."""
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
        for i in self.written:
            check_writable(originals[i])
        shared = [original for original in originals if id(original) in trace.changed]
        if self.writes_in_place:
            shared += self._sharing_memory(originals)
        if shared:
            raise TraceError(
                f"[jit] an argument of shape {shared[0].shape} is also known to the function as "
                "another argument or from outside, and changes there; pass a copy, or only one."
            )

    def _sharing_memory(self, originals: list[object]) -> list[object]:
        """The arguments with memory that is written in place, and which the function also sees
        as another argument or as state."""
        given = {id(x): _memory_of(x) for x in originals}
        changing = [data_of(o.target.cells[0].tensor())._handle for o in self.trace.mutated]
        found = [x for x in originals if meets_any(given[id(x)], changing)]
        for i in self.written:
            own = given.pop(id(originals[i]), None)
            states = map(self.known.memory, range(len(self.known.cells)))
            if own is not None and meets_any(own, (*given.values(), *states)):
                found.append(originals[i])
        return found

    # Memory that is read ----------------------------------------------------------------------

    def _find_read_slots(
        self, constants: dict[FlatValue, object], prepacked_weights: dict[FlatValue, Operand]
    ) -> None:
        """The slot of each input (None: it is not read), and what is the same in all calls."""
        slots, trace, known = self.plan.slots, self.trace, self.known
        # The buffers of a call start as a copy of this list, which has the constants.
        self.template: list[Any] = [None] * self.plan.num_slots
        for value, handle in constants.items():
            if value in slots:
                self.template[slots[value]] = handle
        firsts = {s.value: group[0] for s, group in zip(trace.states, known.groups, strict=True)}
        # For each tensor that the program knows: the slot that reads its memory, or None.
        self.reads: list[int | None] = [None] * len(known.cells)
        for value, i in firsts.items():
            self.reads[i] = slots.get(value)
        self.prepacked_slots = [
            (slots[value], weights, firsts[weights.value])
            for value, weights in prepacked_weights.items()
        ]
        self.argument_slots = [slots.get(value) for value in trace.arguments]
        self.host_slots = [(host, slots.get(host.value)) for host in trace.host]
        self.host_states: list[tuple[Rewindable, Any]] = []  # before the last call
        self.counter_slot = None if trace.counters is None else slots.get(trace.counters)

    def _prepacked(self, weights: Operand, i: int) -> object:
        """The memory of the panels of weights that are in a tensor that the program knows."""
        array = self.known.array(i)
        return prepacked(weights, array.device, array._handle)

    def buffers(self, arguments: list[NDArray]) -> list[object]:
        """The memory of every slot but those of state and results."""
        buffers = self.template.copy()
        for to, weights, i in self.prepacked_slots:
            buffers[to] = self._prepacked(weights, i)
        buffers[ARENA] = self.plan.new_arena()
        for slot, array in zip(self.argument_slots, arguments, strict=True):
            if slot is not None:
                buffers[slot] = array._handle
        if self.host_slots and self.may_fail:  # it takes 30 us
            self.host_states = [(s, s.get_state()) for s in self.trace.sources]
        for host, slot in self.host_slots:
            numbers = np.ascontiguousarray(host.draw(), host.value.dtype.storage)
            if slot is not None:
                buffers[slot] = host.device.mod.from_numpy(numbers, host.value.dtype)
        if self.trace.draws:
            counters = self._advance()
            if self.counter_slot is not None:
                device = self.trace.draws[0].device
                buffers[self.counter_slot] = device.mod.from_numpy(counters, int64)
        return buffers

    def _advance(self) -> NumpyArray:
        """The seed and offset of every draw; moves the generators to where the function leaves
        them."""
        words: list[int] = []
        for draw in self.trace.draws:
            position = draw.generator.position + draw.start
            words += draw.generator.seed, -(-position // draw.words)
        for generator, distance in self.trace.advances:
            generator.position += distance
        return np.array(words, np.uint64).view(np.int64)

    def rewind(self) -> None:
        """Move the generators back to where they were before the call."""
        for generator, distance in self.trace.advances:
            generator.position -= distance
        for source, state in self.host_states:
            source.set_state(state)

    # Memory of results ------------------------------------------------------------------------

    def _find_result_slots(self) -> None:
        """Sort the outputs by the memory that they may use: that of what they replace, or new."""
        # For each tensor that the program knows: the output that replaces it, and its slot.
        self.donated_outputs = [-1] * len(self.known.cells)
        self.donations: list[Any] = [None] * len(self.known.cells)
        places = {cell: k for k, cell in enumerate(self.known.cells)}
        # Outputs that replace a gradient that it does not know. Each has a slot, the tensor whose
        # gradient it is, and its layout.
        self.gradient_outputs: list[int] = []
        self.gradient_donations: list[tuple[Any, ...]] = []
        self.new_outputs: list[tuple[int, int]] = []  # all others, with their slots
        outputs = zip(self.trace.outputs, self.plan.result_slots, self.plan.results, strict=True)
        for i, (output, slot, x) in enumerate(outputs):
            if output.has_home and output.kind != MEMORY:
                self.donated_outputs[places[output.target]] = i
                self.donations[places[output.target]] = slot
            elif output.is_gradient_of_state and not output.is_early:
                layout = (x.shape, x.strides, x.offset, x.dtype, output.device, x.value.size)
                self.gradient_outputs.append(i)
                self.gradient_donations.append((slot, output.target.owner, *layout))
            elif output.kind != MEMORY:  # its slot is the state's own
                self.new_outputs.append((i, slot))

    def outputs(self, buffers: list[object]) -> list[tuple[int, object]]:
        """Give state and results memory; returns the outputs that got new memory, with it."""
        new = self.new_outputs
        if empty := take_memory(self.known.places, self.reads, self.donations, buffers):
            new = [(self.donated_outputs[k], self.donations[k]) for k in empty] + new
        if empty := take_gradients(self.gradient_donations, buffers):
            new = [(self.gradient_outputs[k], self.gradient_donations[k][0]) for k in empty] + new
        made: list[tuple[int, object]] = []
        for i, slot in new:
            value = self.plan.results[i].value
            buffers[slot] = self.trace.outputs[i].device.mod.empty(value.size, value.dtype)
            made.append((i, buffers[slot]))
        # Before the program runs, since it may be interrupted after it has overwritten data.
        note_replaced(self.trace.assigned)
        return made

    # Who gets the results ---------------------------------------------------------------------

    def _prepare_delivery(self) -> None:
        trace, known = self.trace, self.known
        self.leaves = leaves(trace.result)  # with None in the places of arrays
        self.is_single = not isinstance(trace.result, (dict, tuple, list, TensorTuple))
        self.returned_gradients = [
            output for output in trace.outputs if output.is_gradient_of_state and output.given_as
        ]
        cells = zip(known.cells, known.wanted, strict=True)
        self.captured = [cell.owner for cell, is_wanted in cells if is_wanted]
        self.sources = sources_of(self.captured)
        self.recorded = [
            o.target
            for o in trace.outputs
            if o.kind == RESULT and o.requires_grad and not o.is_freed
        ]

    def deliver(self, made: list[tuple[int, object]], originals: list[object]) -> object:
        """Put every result where it belongs; gives what the function returns."""
        trace = self.trace
        results = self.leaves.copy()
        for i, handle in made:
            output = trace.outputs[i]
            array = self.plan.results[i].array(output.device, handle)
            self._give(output, array, results, originals)
        for output in self.returned_gradients:
            grad = grad_of(output.target.owner)
            for position in output.given_as:
                results[position] = grad
        for output in trace.mutated:
            for cell in output.target.cells:
                autograd.note_write(cell.tensor())
        for target in trace.cleared:
            tensor = originals[target] if isinstance(target, int) else target
            if isinstance(tensor, Tensor):
                set_grad(tensor, None)
        self._link(results, originals)
        return results[0] if self.is_single else with_leaves(trace.result, results)

    def _give(
        self, output: Output, array: NDArray, results: list[object], originals: list[object]
    ) -> None:
        """Put an output that got new memory where its kind says."""
        target = output.target
        if output.kind == RESULT:
            results[target] = as_result(array, output)
        elif output.kind == EFFECT:
            return
        elif output.kind == ESCAPED:
            tensor = target()
            if tensor is not None:
                set_data(tensor, array)
        elif output.kind == GRADIENT:
            owner = target.owner if isinstance(target, Cell) else originals[target]
            grad = (owner._face if isinstance(owner, Tensor) else Tensor).make_const(array)
            if isinstance(owner, Tensor):  # a NumPy array has no gradient
                set_grad(owner, grad)
            if not isinstance(target, Cell):  # else `deliver` returns it
                for position in output.given_as:
                    results[position] = grad
        elif isinstance(target, Cell):
            set_data(target.tensor(), array)
        elif output.kind == WRITTEN:
            write_argument(originals[target], array)
        elif isinstance(originals[target], Tensor):
            set_data(originals[target], array)
            originals[target]._replaced = autograd.next_stamp()

    def _link(self, results: list[object], originals: list[object]) -> None:
        """Make the results nodes on top of what they were computed from, so that asking for a
        gradient through them raises an error that explains why there is none."""
        if not self.recorded:
            return
        given = [x for x in originals if isinstance(x, Tensor) and x.requires_grad]
        sources = sources_of([*given, *self.sources]) if given else self.sources
        for i in self.recorded:
            results[i].inputs, results[i]._stamp = sources, autograd.next_stamp()


def check_writable(original: object) -> None:
    """Raise if the function cannot write into an argument."""
    if isinstance(original, np.ndarray):
        if not original.flags.writeable:
            raise ValueError(
                "[jit] the function writes into an argument that is a read-only NumPy array of "
                f"shape {original.shape}; copy it first (x = x.copy())."
            )
    elif has_overlap(memory := _array_of(original)):
        raise ValueError(
            f"[jit] the function writes into an argument that is a broadcast view {memory.shape}; "
            "copy it first (x = x.clone())."
        )


def write_argument(original: object, array: NDArray) -> None:
    """Write into an argument's memory what the function wrote there."""
    if isinstance(original, np.ndarray):
        original[...] = array.numpy()
        return
    memory = _array_of(original)
    memory.device.mod.copy(memory, array)
    if isinstance(original, Tensor):
        autograd.note_write(original)


def _array_of(x: object) -> Any:
    return data_of(x) if isinstance(x, Tensor) else x


def _memory_of(x: object) -> object:
    """The memory of an argument: a NumPy array stands for its own."""
    return x if isinstance(x, np.ndarray) else _array_of(x)._handle


# Results as tensors ------------------------------------------------------------------------------


class Compiled(TensorOp):
    """A result of a compiled function that changes something: its gradient raises an error. The
    gradients of others are in compiler/vjp.py."""

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        raise TraceError(
            f"[jit] the result of shape {node.shape} of a compiled function that changes "
            "gradients, arguments or memory has no gradient; compute gradients inside of the "
            "function, with backward() or ndl.grad."
        )


COMPILED = Compiled()


def as_result(array: NDArray, output: Output) -> NDArray | Tensor:
    """What the caller gets. Where eager mode would record a history, it is a node whose gradient
    explains why there is none."""
    if output.face is None:
        return array
    result = output.face.make_const(array, output.requires_grad)
    if output.requires_grad:
        result.op = COMPILED
    return result


def sources_of(tensors: Iterable[Value]) -> tuple[Value, ...]:
    """The inputs of a result that was computed from these tensors. A result of another compiled
    function is replaced by its inputs: a chain of results would keep all of them alive."""
    found = [x.inputs if isinstance(x.op, Compiled) else (x,) for x in tensors]
    return tuple({id(x): x for group in found for x in group}.values())
