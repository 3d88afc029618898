"""Compiled programs: a trace goes through the passes, gets its memory, and becomes native calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import facts
from ...ndarray import random
from ...ndarray.array import NDArray
from ...ndarray.layout import effective_strides
from ..c.tiers import Built, Recorded, Tiered
from ..control import loops
from ..errors import name_call
from ..fusion.epilogues import epilogues
from ..fusion.fuse import fuse
from ..fusion.horizontal import together
from ..fusion.prologues import prologues
from ..ir.graph import FlatValue, Graph, Node, Operand, map_operands
from ..ir.verify import verified
from ..memory.plan import ARENA, Donation, Plan
from ..memory.planner import plan_memory
from ..passes.overlap import overlap
from ..passes.prepack import prepack
from ..passes.simplify import simplify
from ..trace import breaks
from ..trace.state import Layout, data_of, grad_of, layout_of
from ..trace.tracer import GRADIENT, MEMORY, Output, Trace
from ..view.show import Kernel, kernel_of
from ..vjp import has_vjp
from .binding import Binding
from .concurrency import concurrent_sections
from .failing import may_fail, written_early

PASSES: dict[str, Callable[[Graph], Graph]] = {
    "simplified": simplify,
    "fused": fuse,
    "epilogues": epilogues,
    "prologues": prologues,
    "together": together,
    "overlapped": overlap,
}
UNFUSED = {"simplified": simplify}


class CompiledProgram:
    """A traced function, ready to run again."""

    def __init__(self, trace: Trace, fused: bool = True):
        self.trace = trace
        self.used = 0  # the time of its last use, for cache.py
        self._facts_seen = -1  # `facts.changes` when its facts last held
        self._names = trace.names if trace.names else None
        self._told = [fact for fact in trace.facts.values() if fact.is_told]
        self.stages = {"traced": verified(trace.graph)}
        self.prepacked: dict[FlatValue, Operand] = {}
        for name, a_pass in (PASSES if fused else UNFUSED).items():
            graph = loops.with_bodies(a_pass)(next(reversed(self.stages.values())))
            self.stages[name] = graph
            if name == "fused":
                graph, self.prepacked = prepack(graph, _fixed_state(trace))
                self.stages["prepacked"] = verified(graph)
        self.graph = loops.planned(graph)
        early = written_early(self.graph)
        self.donations: list[Donation | None] = []
        for output, result in zip(trace.outputs, self.graph.results, strict=True):
            output.is_early = result.value in early
            self.donations.append(_donation(output))
            output.has_home = self.donations[-1] is not None
        self.plan = plan_memory(self.graph, self.donations)
        constants, fails = self.graph.constants, may_fail(self.graph)
        self.binding = Binding(self.plan, trace, constants, self.prepacked, fails)
        self.has_gradient = bool(self.binding.recorded) and has_vjp(trace)
        self.vjp: Any = None  # the compiled function that computes it, once it is needed
        self.calls = compile_calls(self.plan)

    # Is it still right? ---------------------------------------------------------------------

    def holds(self) -> bool:
        """Does everything that the trace assumed still hold?"""
        trace = self.trace
        if trace.escaped or not self.binding.known.hold():
            return False
        if self._names is not None and not self._names.hold():
            return False
        if facts.changes != self._facts_seen:
            seen = facts.changes
            if not facts.hold(self._told):
                return False
            self._facts_seen = seen
        for tensor, had_grad in trace.grad_reads:
            if (grad_of(tensor) is not None) != had_grad:
                return False
        for tensor, grad in trace.fixed_grads:
            if grad_of(tensor) is not grad:
                return False
        if trace.generators or trace.host:
            if trace.default_generator is not random.default_generator():
                return False
            for generator, position in trace.generators:
                if generator.position % 2 != position % 2:
                    return False
        return True

    def difference(self) -> str:
        """The first assumption that does not hold any more, in words."""
        if self.trace.escaped:
            return "a tensor that it made is still used outside"
        found = self.binding.known.difference() or facts.difference(self._told)
        found = found or self.trace.names.difference()
        return found or "tensors from outside, their gradients or random generators have changed"

    def kernels(self) -> list[Kernel]:
        """The calls, described; those that run as C with their source."""
        built = getattr(self.calls, "built", {})
        kernels = [kernel_of(node) for node in self.plan.nodes]
        for node, kernel in zip(self.plan.nodes, kernels, strict=True):
            if id(node) in built:
                kernel.text = built[id(node)].source
        return kernels

    # Running --------------------------------------------------------------------------------

    def run(
        self, arguments: list[NDArray], originals: list[object], seconds: list[float] | None = None
    ) -> Any:
        """Call the program with arrays of the traced types; `originals` are what was passed, and
        `seconds`, if given, gets the time of each kernel."""
        binding, undos = self.binding, self.trace.undos
        try:
            binding.check(originals)
            buffers = binding.buffers(arguments)
        except BaseException:
            facts.undo(undos)
            raise
        try:
            made = binding.outputs(buffers)
            if seconds is None:
                self.calls.run(buffers)
            else:
                seconds += self.calls.run_timed(buffers)
        except BaseException as error:
            # A run that failed has drawn nothing, and its trace has changed nothing in Python.
            binding.rewind()
            facts.undo(undos)
            path = getattr(error, "calls", None)  # of the call in the program that has raised it
            named = error if path is None else name_call(error, self.calls.node_at(path))
            if named is not error:
                raise named from None
            raise
        undos.clear()
        return binding.deliver(made, originals)


def _fixed_state(trace: Trace) -> dict[FlatValue, Any]:
    """The memory of state that the program only reads."""
    changed = {output.state for output in trace.outputs}
    fixed = [state for state in trace.states if state not in changed and not state.is_mutated]
    return {state.value: data_of(state.cells[0].tensor())._handle for state in fixed}


def _donation(output: Output) -> Donation | None:
    """The memory that an output replaces, if both have the same size and layout."""
    if output.kind == MEMORY:
        return Donation(output.target.value, must=True)
    state = output.state
    if state is None or state.is_mutated or len(state.cells) != 1:
        return None
    if output.kind == GRADIENT and state.cells[0] != output.target:
        return None  # the previous gradient is also something else
    real, new = layout_of(state.arrays[0]), output.operand
    strides = effective_strides(new.shape, new.strides)
    here = Layout(new.shape, strides, new.offset, new.value.size, new.dtype, output.device.name)
    fits = real == here and new.is_whole()
    return Donation(state.value, must=False, at_end=output.is_early) if fits else None


# Calls -------------------------------------------------------------------------------------------


def compile_calls(plan: Plan) -> Tiered | Interpreted:
    """A sequence of the device that all calls are on, if it has them, else a loop over kernels."""
    if plan.device is not None and plan.device.offers.sequence is not None:
        return Tiered(plan, recorded)
    return Interpreted(plan)


def recorded(plan: Plan, built: dict[int, Built]) -> Recorded:
    """The calls of a plan as a sequence; `built` has the nodes that run as C, by id."""
    device = plan.device
    assert device is not None and device.offers.sequence is not None
    made = Recorded(device.offers.sequence())
    sequence = made.sequence
    written = {plan.places[out.value].slot for node in plan.nodes for out in node.outs}
    for slot in range(plan.num_slots):
        sequence.placeholder(slot, 0, 0, "uint8", slot in written)
    stand_ins: dict[FlatValue, Any] = {}

    def array(x: Operand) -> NDArray:
        handle = stand_ins.get(x.value)
        if handle is None:
            slot, offset = plan.places[x.value]
            handle = sequence.placeholder(slot, offset, x.value.size, x.dtype, slot in written)
            stand_ins[x.value] = handle
        return x.array(device, handle)

    made.bodies = {
        id(node): recorded(loop.plan, {})
        for node in plan.nodes
        if (loop := loops.loop_of(node)) is not None
    }
    sequence.start()
    try:
        for node in plan.nodes:
            if id(node) in built:
                built[id(node)].launch(device.mod, array)
            elif id(node) in made.bodies:
                loops.launch(node, made.bodies[id(node)].sequence, array)
            elif node.kernel == breaks.PYTHON:
                breaks.launch(node, array)
            else:
                getattr(device.mod, node.kernel)(*map_operands(node.args, array))
            made.nodes += [node] * (len(sequence) - len(made.nodes))
    finally:
        sequence.stop()
    if device.offers.concurrency and made.nodes == plan.nodes:
        for sections in concurrent_sections(plan):
            sequence.side_by_side(sections)
    return made


class Interpreted:
    """The interface of `Tiered` for devices without sequences, and for several devices: calls one
    by one, and every value in memory of its own."""

    def __init__(self, plan: Plan):
        self.plan = plan

    def run(self, buffers: list[object]) -> None:
        memory: dict[FlatValue, Any] = {}
        for i, node in enumerate(self.plan.nodes):
            try:
                self._call(node, self._arrays(node, buffers, memory))
            except Exception as error:
                vars(error)["calls"] = (i, *getattr(error, "calls", ()))
                raise

    def _call(self, node: Node, arguments: tuple[Any, ...]) -> None:
        if node.kernel == loops.LOOP:
            loops.interpret(node, lambda p, b: Interpreted(p).run(b), arguments)
        elif node.kernel == breaks.PYTHON:
            arguments[0].run(*arguments[1:])
        else:
            getattr(node.device.mod, node.kernel)(*arguments)

    def node_at(self, path: tuple[int, ...]) -> Node:
        node = self.plan.nodes[path[0]]
        loop = loops.loop_of(node)
        return node if loop is None or len(path) == 1 else Interpreted(loop.plan).node_at(path[1:])

    def run_timed(self, buffers: list[object]) -> list[float]:
        self.run(buffers)
        return [0.0] * len(self.plan.nodes)

    def _arrays(
        self, node: Node, buffers: list[object], memory: dict[FlatValue, object]
    ) -> tuple[Any, ...]:
        plan = self.plan

        def array(x: Operand) -> NDArray:
            root = plan.roots[x.value]
            slot = plan.places[root].slot
            if slot != ARENA:
                handle = buffers[slot]
            elif root in memory:
                handle = memory[root]
            else:
                handle = memory[root] = node.device.mod.empty(root.size, root.dtype)
            return x.array(node.device, handle)

        arguments: tuple[Any, ...] = map_operands(node.args, array)
        return arguments
