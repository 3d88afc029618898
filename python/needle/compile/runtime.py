"""Compiled programs: the calls of a plan as one native sequence, and the memory around them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import autograd
from .._native import Sequence, empty as empty_buffer
from ..autograd import Tensor
from ..backend import cpu
from ..dtype import int64
from ..ndarray import random
from ..ndarray.array import NDArray, make_view
from ..tree import leaves, with_leaves
from .fuse import fuse
from .graph import Graph, Node, Operand, Value, map_operands
from .memory import ARENA, Home, Plan, plan_memory
from .passes import simplify
from .state import Cell, Layout, data_of, grad_of, layout_of, set_data, set_grad
from .trace import DATA, ESCAPED, GRADIENT, MEMORY, RESULT, Output, Trace

# References to an array that only its tensor holds: the slot, our list, a name, the question.
ARRAY_REFERENCES = 4
HANDLE_REFERENCES = 3  # the array, a name, the question


PASSES: dict[str, Callable[[Graph], Graph]] = {"simplified": simplify, "fused": fuse}
UNFUSED = {"simplified": simplify}


class Program:
    """A traced function, ready to run again."""

    def __init__(self, trace: Trace, fused: bool = True):
        self.trace = trace
        self.homes = [_home(output) for output in trace.outputs]
        self.stages = {"traced": trace.graph}
        for name, a_pass in (PASSES if fused else UNFUSED).items():
            graph = a_pass(next(reversed(self.stages.values())))
            self.stages[name] = graph
        self.graph = graph
        self.plan = plan_memory(self.graph, self.homes)
        for output, home in zip(trace.outputs, self.homes, strict=True):
            output.home = home is not None
        self._bind = _Binding(self.plan, trace, self.graph.constants)
        self._calls = compile_calls(self.plan)

    # Is it still right? ---------------------------------------------------------------------

    def holds(self) -> bool:
        """Is everything that the trace took for granted still so?"""
        trace = self.trace
        if trace.escaped or not self._bind.states_hold():
            return False
        for read, value in trace.facts.values():
            if read() != value:
                return False
        for tensor, had_grad in trace.grad_reads:
            if (grad_of(tensor) is not None) != had_grad:
                return False
        if trace.generators or trace.host:
            if trace.default_generator is not random.default_generator():
                return False
            for generator, position in trace.generators:
                if generator.position % 2 != position % 2:
                    return False
        return True

    # Running --------------------------------------------------------------------------------

    def run(self, arguments: list[NDArray], originals: list[Any]) -> Any:
        """Call the program with arrays of the traced types; `originals` are what was passed."""
        bind = self._bind
        buffers = bind.buffers(arguments)
        written = bind.outputs(buffers, originals)
        self._calls.run(buffers)
        del buffers
        return bind.deliver(written, originals)

    def profile(self, arguments: list[NDArray], originals: list[Any]) -> list[float]:
        """The same, and the seconds of each call."""
        buffers = self._bind.buffers(arguments)
        written = self._bind.outputs(buffers, originals)
        seconds: list[float] = self._calls.run_timed(buffers)
        self._bind.deliver(written, originals)
        return seconds


def _home(output: Output) -> Home | None:
    """The memory that an output replaces, if it has its size and layout."""
    if output.kind == MEMORY:
        return Home(output.target.value, must=True)
    state = output.state
    if output.kind != DATA or state is None or len(state.cells) != 1:
        return None
    real, new = layout_of(state.cells[0][1]), output.operand
    steps = tuple(0 if n == 1 else s for n, s in zip(new.shape, new.strides, strict=True))
    here = Layout(new.shape, steps, new.offset, new.value.size, new.dtype, output.device.name)
    return Home(state.value, must=False) if real == here and new.is_whole() else None


class _Known:
    """A tensor's array as it was last seen."""

    __slots__ = ("cell", "array", "layout", "slot")

    def __init__(self, cell: Cell, array: NDArray, slot: int | None):
        self.cell = cell
        self.array: NDArray | None = array
        self.layout = layout_of(array)
        self.slot = slot


class _Binding:
    """Finds the memory of every slot for a call, and hands out what the call computed."""

    def __init__(self, plan: Plan, trace: Trace, constants: dict[Value, Any]):
        self.plan = plan
        self.trace = trace
        self.template: list[Any] = [None] * plan.num_slots
        for value, handle in constants.items():
            if value in plan.slots:
                self.template[plan.slots[value]] = handle
        self.argument_slots = [plan.slots.get(v) for v in trace.arguments]
        self.groups = [
            [_Known(cell, array, plan.slots.get(state.value)) for cell, array in state.cells]
            for state in trace.states
        ]
        self.known = {(id(k.cell.owner), k.cell.is_grad): k for g in self.groups for k in g}
        self.host = [(h, plan.slots.get(h.value)) for h in trace.host]
        counters = trace.counters
        self.counter_slot = None if counters is None else plan.slots.get(counters)
        self.grads: dict[int, Any] = {}  # id of a tensor -> the gradient that we last gave it

    def states_hold(self) -> bool:
        """Does every tensor still have an array of the layout, and share memory as it did?"""
        for group in self.groups:
            handle = None
            for known in group:
                tensor = known.cell.tensor()
                array = None if tensor is None else data_of(tensor)
                if array is not known.array:
                    if not isinstance(array, NDArray) or layout_of(array) != known.layout:
                        return False
                    known.array = array
                assert array is not None
                if handle is not None and array._handle is not handle:
                    return False
                handle = array._handle
        return True

    def buffers(self, arguments: list[NDArray]) -> list[Any]:
        """The memory of every slot but the results'."""
        buffers = list(self.template)
        buffers[ARENA] = empty_buffer(self.plan.arena_bytes, "uint8")
        for slot, array in zip(self.argument_slots, arguments, strict=True):
            if slot is not None:
                buffers[slot] = array._handle
        for group in self.groups:
            known = group[0]
            if known.slot is not None and known.array is not None:
                buffers[known.slot] = known.array._handle
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

    def outputs(self, buffers: list[Any], originals: list[Any]) -> list[Any]:
        """Give the results memory: that of the state they replace, if only its tensor holds it."""
        made: list[Any] = []
        for output, slot in zip(self.trace.outputs, self.plan.result_slots, strict=True):
            if output.kind == MEMORY:
                made.append(None)
                continue
            found = self._own_memory(output)
            if found is None:
                operand = self.plan.results[len(made)]
                found = output.device.mod.empty(operand.value.size, operand.dtype)
                made.append(found)
            else:
                made.append(None)
            buffers[slot] = found
        return made

    def _own_memory(self, output: Output) -> Any:
        """Memory of a tensor that nobody else can see, so that writing it changes nothing else."""
        if output.kind == DATA and output.home:
            known = self.known[id(output.target.owner), output.target.is_grad]
            array = known.array
            handle = array._handle  # type: ignore[union-attr]
            if sys.getrefcount(array) == ARRAY_REFERENCES and (
                sys.getrefcount(handle) == HANDLE_REFERENCES + (known.slot is not None)
            ):
                return handle
        elif output.kind == GRADIENT and isinstance(output.target, Cell):
            return self._own_gradient(output.target.owner)
        return None

    def _own_gradient(self, owner: Any) -> Any:
        """The memory of the gradient that the last call made, if only `owner` has it."""
        grad = self.grads.get(id(owner))
        if grad is None or grad_of(owner) is not grad or sys.getrefcount(grad) != ARRAY_REFERENCES:
            return None
        array = data_of(grad)
        handle = array._handle
        alone = sys.getrefcount(array) == 3 and sys.getrefcount(handle) == HANDLE_REFERENCES
        return handle if alone else None

    def deliver(self, made: list[Any], originals: list[Any]) -> Any:
        """Put every result where it belongs; gives what the function returns."""
        trace = self.trace
        results = leaves(trace.result)
        stamp = autograd.next_stamp()
        for output, operand, handle in zip(trace.outputs, self.plan.results, made, strict=True):
            array = None
            if handle is not None:
                shape, strides, offset = operand.shape, operand.strides, operand.offset
                array = make_view(shape, strides, offset, operand.dtype, output.device, handle)
            DELIVER[output.kind](self, output, array, stamp, results, originals)
        for tensor in trace.cleared:
            set_grad(tensor, None)
        return with_leaves(trace.result, results)

    def _give_result(
        self, output: Output, array: Any, stamp: int, results: list[Any], originals: list[Any]
    ) -> None:
        results[output.target] = Tensor.make_const(array) if output.is_tensor else array

    def _give_data(
        self, output: Output, array: Any, stamp: int, results: list[Any], originals: list[Any]
    ) -> None:
        if isinstance(output.target, int):
            write_argument(originals[output.target], array, stamp)
            return
        tensor = output.target.tensor()
        if array is not None:
            set_data(tensor, array)
            known = self.known.get((id(output.target.owner), output.target.is_grad))
            if known is not None and layout_of(array) == known.layout:
                known.array = array
        tensor._replaced = stamp

    def _give_gradient(
        self, output: Output, array: Any, stamp: int, results: list[Any], originals: list[Any]
    ) -> None:
        if array is None:
            return
        grad = Tensor.make_const(array)
        if isinstance(output.target, int):
            set_grad(originals[output.target], grad)
        else:
            set_grad(output.target.owner, grad)
            self.grads[id(output.target.owner)] = grad

    def _give_memory(
        self, output: Output, array: Any, stamp: int, results: list[Any], originals: list[Any]
    ) -> None:
        for cell, _ in output.target.cells:
            autograd.after_write(cell.tensor())

    def _give_escaped(
        self, output: Output, array: Any, stamp: int, results: list[Any], originals: list[Any]
    ) -> None:
        tensor = output.target()
        if tensor is not None:
            set_data(tensor, array)


DELIVER: dict[str, Callable[..., None]] = {
    RESULT: _Binding._give_result,
    DATA: _Binding._give_data,
    GRADIENT: _Binding._give_gradient,
    MEMORY: _Binding._give_memory,
    ESCAPED: _Binding._give_escaped,
}


def write_argument(original: Any, array: NDArray, stamp: int) -> None:
    """Give an argument the data that the function gave it."""
    if isinstance(original, Tensor):
        set_data(original, array)
        original._replaced = stamp
    elif isinstance(original, NDArray):
        original.device.mod.copy(original, array)
    else:
        original[...] = array.numpy()


# Calls -------------------------------------------------------------------------------------------


def compile_calls(plan: Plan) -> Any:
    """A native sequence if every call is for the CPU, else a loop over the devices' kernels."""
    if all(node.device is cpu() for node in plan.nodes):
        return native_sequence(plan)
    return Interpreted(plan)


def native_sequence(plan: Plan) -> Sequence:
    sequence = Sequence()
    written = {plan.places[out.value].slot for node in plan.nodes for out in node.outs}
    for slot in range(plan.num_slots):
        sequence.placeholder(slot, 0, 0, "uint8", slot in written)
    stand_ins: dict[Value, Any] = {}

    def array(x: Operand) -> Any:
        handle = stand_ins.get(x.value)
        if handle is None:
            slot, offset = plan.places[x.value]
            dtype, is_written = x.dtype, slot in written
            handle = sequence.placeholder(slot, offset, x.value.size, dtype, is_written)
            stand_ins[x.value] = handle
        return make_view(x.shape, x.strides, x.offset, x.dtype, cpu(), handle)

    sequence.start()
    try:
        for node in plan.nodes:
            getattr(cpu().mod, node.kernel)(*map_operands(node.args, array))
    finally:
        sequence.stop()
    return sequence


class Interpreted:
    """The same interface as a Sequence, on any devices: memory of its own for each value."""

    def __init__(self, plan: Plan):
        self.plan = plan

    def run(self, buffers: list[Any]) -> None:
        memory: dict[Value, Any] = {}
        for node in self.plan.nodes:
            getattr(node.device.mod, node.kernel)(*self._arrays(node, buffers, memory))

    def run_timed(self, buffers: list[Any]) -> list[float]:
        self.run(buffers)
        return [0.0] * len(self.plan.nodes)

    def _arrays(self, node: Node, buffers: list[Any], memory: dict[Value, Any]) -> tuple[Any, ...]:
        plan = self.plan

        def array(x: Operand) -> Any:
            root = plan.roots[x.value]
            slot = plan.places[root].slot
            if slot != ARENA:
                handle = buffers[slot]
            elif root in memory:
                handle = memory[root]
            else:
                handle = memory[root] = node.device.mod.empty(root.size, root.dtype)
            return make_view(x.shape, x.strides, x.offset, x.dtype, node.device, handle)

        arguments: tuple[Any, ...] = map_operands(node.args, array)
        return arguments
