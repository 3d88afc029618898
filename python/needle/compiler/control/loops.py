"""Loops in graphs: one call whose body, a graph of its own, runs once per step.

The inputs of the body are *carried* values (results of the step before, initial values in the first
step), an element of each `x`, and *fixed* values from outside. Its results are the carried values
for the next step and an element of each `y`. A carried value alternates between two places in
memory, its *ring*.

A loop may be a `while`: its first carried value, a bool, says before each step whether to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ...dtype import uint8
from ...ndarray.array import NDArray, make_view
from ..ir.graph import CONSTANT, FlatValue, Graph, Node, Operand, whole
from ..ir.verify import verified
from ..memory.plan import ARENA, Plan
from ..memory.planner import plan_memory

LOOP = "loop"
UNBOUNDED = (1 << 40) + 1  # steps of a `while`: odd, so that the first place of a ring is the last
FIXED, READS, WRITES = 0, 1, 2  # how a slot finds its memory; as in a device's run_loop

Pass = Callable[[Graph], Graph]


@dataclass(eq=False)
class Loop:
    """The body of a loop, and what each of its inputs is. Its results: carried values, then ys."""

    body: Graph
    carried: tuple[FlatValue, ...]
    xs: tuple[FlatValue, ...]
    fixed: tuple[FlatValue, ...]
    steps: int
    reverse: bool
    is_while: bool = False  # ends before a step whose first carried value is False
    plan: Plan = field(default_factory=Plan)

    def __repr__(self) -> str:
        count = "while: steps" if self.is_while else f"{self.steps} steps"
        return f"{count} of {len(self.body.nodes)} calls"


def loop_of(node: Node) -> Loop | None:
    """The loop that a call is, or None."""
    return node.args[0] if node.kernel == LOOP else None


def with_bodies(a_pass: Pass) -> Pass:
    """A pass that is applied to the bodies of loops too."""

    def everywhere(graph: Graph) -> Graph:
        graph = verified(a_pass(graph))
        return graph.with_nodes([_mapped_body(node, everywhere) for node in graph.nodes])

    return everywhere


def _mapped_body(node: Node, a_pass: Pass) -> Node:
    loop = loop_of(node)
    if loop is None:
        return node
    return node.instead(LOOP, (replace(loop, body=a_pass(loop.body)), *node.args[1:]))


def planned(graph: Graph) -> Graph:
    """Give every loop a plan of its body's memory, and operands for the constants and the arena
    that the body needs."""
    nodes = [node if loop_of(node) is None else _planned(graph, node) for node in graph.nodes]
    return graph.with_nodes(nodes)


def _planned(graph: Graph, node: Node) -> Node:
    loop, fixed, inits, xs, rings, ys = node.args
    body = planned(loop.body)
    plan = plan_memory(body, [None] * len(body.results))
    constants = [v for v in plan.slots if v.kind == CONSTANT and v not in loop.fixed]
    for value in constants:
        if value not in graph.inputs:
            graph.inputs.append(value)
        graph.constants[value] = body.constants[value]
    arena = whole(graph.new_value(max(plan.arena_bytes, 1), uint8))
    made = replace(loop, body=body, fixed=(*loop.fixed, *constants), plan=plan)
    args = (made, (*fixed, *map(whole, constants)), inits, xs, rings, ys, arena)
    return node.instead(LOOP, args, (*node.outs, arena))


# Running -----------------------------------------------------------------------------------------


def launch(node: Node, sequence: object, array: Callable[[Operand], object]) -> None:
    """Make the call on a device with sequences; `array` gives the array of an operand."""
    loop, fixed, inits, xs, rings, ys, arena = node.args
    outs, ins = (*rings, *ys, arena), (*fixed, *inits, *xs)
    number = {id(x): k for k, x in enumerate((*outs, *ins))}
    places: list[Any] = [None] * loop.plan.num_slots
    places[ARENA] = (-1, number[id(arena)], 0, FIXED)

    def put(slot: int | None, first: int, x: Operand, nbytes: int, ring: int) -> None:
        if slot is not None:
            places[slot] = (first, number[id(x)], nbytes, ring)

    slots = loop.plan.slots
    for value, x in zip(loop.fixed, fixed, strict=True):
        put(slots.get(value), -1, x, 0, FIXED)
    for value, init, ring in zip(loop.carried, inits, rings, strict=True):
        put(slots.get(value), number[id(init)], ring, value.nbytes, READS)
    for value, x in zip(loop.xs, xs, strict=True):
        put(slots.get(value), -1, x, value.nbytes, FIXED)
    results = zip(loop.plan.results, loop.plan.result_slots, (*rings, *ys), strict=True)
    for k, (result, slot, out) in enumerate(results):
        put(slot, -1, out, result.value.nbytes, WRITES if k < len(rings) else FIXED)
    arrays = tuple(map(array, outs)), tuple(map(array, ins))
    rings_of_while = tuple(
        (number[id(init)], number[id(ring)], value.nbytes)
        for value, init, ring in zip(loop.carried, inits, rings, strict=True)
        if loop.is_while
    )
    node.device.mod.run_loop(
        sequence, loop.steps, loop.reverse, tuple(places), rings_of_while, *arrays
    )


def interpret(
    node: Node, run: Callable[[Plan, list[Any]], None], arguments: tuple[Any, ...]
) -> None:
    """Make the call on any device: the inputs and results of a step are copied to new memory and
    back."""
    loop, fixed, inits, xs, rings, ys, _ = arguments
    plan, mod = loop.plan, node.device.mod

    def part(a: NDArray, k: int, value: FlatValue) -> NDArray:
        return make_view(
            (value.size,), (1,), a.offset + k * value.size, a.dtype, a.device, a._handle
        )

    def fresh(value: FlatValue) -> NDArray:
        handle = mod.empty(value.size, value.dtype)
        return make_view((value.size,), (1,), 0, value.dtype, node.device, handle)

    def carried(step: int) -> list[NDArray]:
        """The carried values before a step."""
        return [
            part(ring, (step + 1) % 2, v) if step else part(init, 0, v)
            for v, init, ring in zip(loop.carried, inits, rings, strict=True)
        ]

    for step in range(loop.steps):
        if loop.is_while and not mod.to_numpy(carried(step)[0]).item():
            for v, ring, a in zip(loop.carried, rings, carried(step), strict=True):
                mod.copy(part(ring, 0, v), a)
            break
        element = loop.steps - 1 - step if loop.reverse else step
        buffers: list[Any] = [mod.empty(1, uint8)] * plan.num_slots
        given = [(v, part(a, 0, v)) for v, a in zip(loop.fixed, fixed, strict=True)]
        given += [(v, part(a, element, v)) for v, a in zip(loop.xs, xs, strict=True)]
        given += zip(loop.carried, carried(step), strict=True)
        for value, a in given:
            if value in plan.slots:
                own = fresh(value)
                mod.copy(own, a)
                buffers[plan.slots[value]] = own._handle
        made = [fresh(r.value) for r in plan.results]
        for slot, own in zip(plan.result_slots, made, strict=True):
            buffers[slot] = own._handle
        run(plan, buffers)
        for k, (own, out) in enumerate(zip(made, (*rings, *ys), strict=True)):
            at = step % 2 if k < len(rings) else element
            mod.copy(part(out, at, plan.results[k].value), own)


def body_text(node: Node) -> str:
    """The body's calls, indented."""
    loop = loop_of(node)
    assert loop is not None
    return "\n".join("  " + line for line in str(loop.body).splitlines())


def captured(body: Graph, own: set[FlatValue]) -> list[FlatValue]:
    """The values that a body reads, but neither computes nor has as inputs."""
    made = {out.value for node in body.nodes for out in node.outs} | own
    read = [value for node in body.nodes for value in node.reads()]
    read += [result.value for result in body.results]
    return list(dict.fromkeys(value for value in read if value not in made))
