"""`scan` in a traced function as one loop of the graph; its gradient is another loop.

The body is traced once. The backward loop runs the steps in reverse: each computes the step again
from the carried values before it, which forward keeps, and adds to the adjoints of what the body
uses from outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import tracing
from ...autograd import Tensor, TensorTuple, TensorTupleOp, next_stamp
from ...autograd.grad_mode import enable_grad, is_grad_enabled
from ...autograd.graph import backward_pass
from ...ndarray.array import compact_view, make_view
from ...ndarray.layout import compact_strides
from ...ops.common import fresh_leaf, zeros_like
from ...system.user_code import user_place
from ...transforms.checkpoint import used_from_outside
from ...tree import leaves, map_leaves, with_leaves
from ..ir.graph import CONSTANT, INPUT, FlatValue, Graph, Node, Operand, whole
from ..trace.record import Handle, Recording
from .bodies import NotCompact, body_of
from .loops import LOOP, Loop, captured

if TYPE_CHECKING:
    from ...types import Gradients

Step = Callable[[Any, Any], tuple[Any, Any]]


class Scan(TensorTupleOp):
    """carried, ys = all steps of a loop; the inputs are initial values, xs, and what it captures"""

    def __init__(self, body: Body, kept: list[int]):
        self.body = body
        self.kept = kept  # the positions of the outputs that have a gradient

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Gradients:
        return self.body.vjp(self.kept, out_grad.tuple(), node)


def compact_scan(f: Step, init: object, xs: object, steps: int, reverse: bool) -> tuple[Any, Any]:
    """scan as one call of the graph; raises NotCompact if it cannot be one."""
    if any(not isinstance(x, Tensor) for x in leaves(init)):
        raise NotCompact("a carried value is no tensor")
    return Body(f, init, xs, steps, reverse).run()


class Body:
    """The step function of a scan: traced as a graph for forward, called again in backward."""

    keeps_befores = True

    def __init__(self, f: Step, init: Any, xs: Any, steps: int, reverse: bool):
        self.f, self.steps, self.reverse = f, steps, reverse
        self.init, self.xs = init, xs  # nested
        self.inits: list[Tensor] = leaves(init)
        self.given = _tensors(xs)
        self.outside: list[FlatValue] = []  # the values that the body uses from outside
        self.befores: list[Any] = []  # the carried values before every step, stacked: for backward
        self.moving: list[int] = []  # the positions of the carried values that have a gradient
        self.along: list[int] = []  # the same of the elements of xs

    # Forward --------------------------------------------------------------------------------

    def run(self) -> tuple[Any, Any]:
        """Trace one step, and record all steps as one call; returns the last carry and the ys."""
        recording: Any = tracing.active()
        wants = is_grad_enabled()
        self.moving = [k for k, x in enumerate(self.inits) if wants and x.requires_grad]
        self.along = [k for k, x in enumerate(self.given) if wants and x.requires_grad]
        while True:
            with body_of(recording) as body:
                start = next_stamp()
                carry, elements = self._placeholders(body)
                given = [_value_of(x) for x in (*carry, *elements)]
                out, y = self.call(carry, elements)
                new, results = leaves(out), _tensors(y)
                self._check(new)
                if given != [_value_of(x) for x in (*carry, *elements)]:
                    raise NotCompact("the body writes into what it is given")
                outputs = [t for t in (*new, *results) if t.requires_grad]
                outside = used_from_outside(outputs, [*carry, *elements], start)
                needs = [*self.inits, *self.given, *outside]
                is_recorded = wants and any(x.requires_grad for x in needs)
                befores = carry if is_recorded and self.keeps_befores else []
                body.results = [
                    recording.in_c_order(t.realize_cached_data())
                    for t in (*new, *results, *befores)
                ]
            moving = [k for k, t in enumerate(new) if k in self.moving or t.requires_grad]
            if not wants or moving == self.moving:
                break
            self.moving = moving  # the next step is given what has a gradient: traced again
        loop = self._loop(body, carry, elements)
        made = self._record(recording, loop, [*new, *results, *befores])
        if is_recorded:
            made = self._node(made, [*new, *results, *befores], needs)
        count = len(new)
        self.befores = made[count + len(results) :]
        stacked = iter(made[count:])
        ys = map_leaves(lambda leaf: next(stacked) if isinstance(leaf, Tensor) else None, y)
        return with_leaves(out, made[:count]), ys

    def _placeholders(self, body: Graph) -> tuple[list[Tensor], list[Tensor]]:
        """Tensors that stand for the carried values and the elements of xs in the body."""
        carry = [_placeholder(body, x, x.shape, k in self.moving) for k, x in enumerate(self.inits)]
        elements = [
            _placeholder(body, x, x.shape[1:], k in self.along) for k, x in enumerate(self.given)
        ]
        return carry, elements

    def call(self, carry: Sequence[Tensor], elements: Sequence[Tensor]) -> tuple[Any, Any]:
        """One step, on the leaves of the carry and the tensors among those of x."""
        rest = iter(elements)
        chosen = [next(rest) if isinstance(x, Tensor) else x for x in leaves(self.xs)]
        return self.f(with_leaves(self.init, carry), with_leaves(self.xs, chosen))

    def _check(self, new: list[Any]) -> None:
        if not all(isinstance(x, Tensor) for x in new):
            raise NotCompact("a carried value is no tensor")
        types = [[(x.shape, x.dtype, x.device) for x in side] for side in (self.inits, new)]
        if types[0] != types[1]:
            raise NotCompact("carried values change their type")

    def _loop(self, body: Graph, carry: list[Tensor], elements: list[Tensor]) -> Loop:
        """The traced body as a loop: values from outside become inputs of the body."""
        carried, xs = ([_value_of(x) for x in side] for side in (carry, elements))
        outside = captured(body, {*carried, *xs})
        self.outside = [value for value in outside if value.kind != CONSTANT]
        body.inputs += [value for value in outside if value.kind == CONSTANT]
        fixed = []
        by: dict[FlatValue, FlatValue] = {}
        for value in self.outside:
            by[value] = body.new_value(value.size, value.dtype, INPUT)
            fixed.append(by[value])

        def inside(x: Operand) -> Operand:
            return x._replace(value=by[x.value]) if x.value in by else x

        nodes = [node.mapped(inside) for node in body.nodes]
        results = [inside(r) for r in body.results]
        body = body.with_nodes(nodes, results)
        given = tuple(carried), tuple(xs), tuple(fixed)
        return Loop(body, *given, self.steps, self.reverse, not self.keeps_befores)

    def _record(self, recording: Recording, loop: Loop, results: list[Tensor]) -> list[Tensor]:
        """Add the call to the graph; returns the last carried values, and all elements of the other
        results."""
        graph, count = recording.graph, len(self.inits)
        device = self.inits[0].device if self.inits else self.given[0].device
        inits = tuple(recording.in_c_order(x.realize_cached_data()) for x in self.inits)
        xs = tuple(recording.in_c_order(x.realize_cached_data()) for x in self.given)
        sizes = [(2 if k < count else self.steps) for k in range(len(results))]
        outs = tuple(
            whole(graph.new_value(n * r.value.size, r.dtype), (n, *r.shape))
            for n, r in zip(sizes, loop.body.results, strict=True)
        )
        args = (loop, tuple(map(whole, self.outside)), inits, xs, outs[:count], outs[count:])
        graph.nodes.append(Node(LOOP, args, outs, device, source=user_place()))
        made = []
        for k, out in enumerate(outs):
            handle = Handle(out.value.size, out.dtype, out.value)
            shape = out.shape[1:] if k < count else out.shape
            # A carried value alternates between two places: where the last step has written it.
            place = (self.steps - 1) % 2 * (out.value.size // 2) if k < count else 0
            strides = compact_strides(shape)
            made.append(make_view(shape, strides, place, out.dtype, device, handle))
        return [Tensor.make_const(a) for a in made]

    def _node(self, made: list[Any], traced: list[Tensor], needs: list[Any]) -> list[Any]:
        """The results that have a gradient, as outputs of a Scan node."""
        kept = [k for k, t in enumerate(traced) if t.requires_grad]
        data = tuple(made[k].realize_cached_data() for k in kept)
        node: Any = TensorTuple.make_const(data, requires_grad=True)
        node.op, node.inputs = Scan(self, kept), tuple(needs)
        for k, output in zip(kept, node.tuple(), strict=True):
            made[k] = output
        return made

    # Backward -------------------------------------------------------------------------------

    def vjp(self, kept: list[int], given: Sequence[Tensor], node: TensorTuple) -> Gradients:
        """The adjoints of all inputs, given those of the outputs at the positions `kept`."""
        carried_count = len(self.inits)
        first_outside = carried_count + len(self.given)  # of the inputs
        outside = list(node.inputs[first_outside:])
        adjoints = dict(zip(kept, given, strict=True))
        of_last = {k: g for k, g in adjoints.items() if k < carried_count}
        of_each = {k: g for k, g in adjoints.items() if k >= carried_count}  # stacked over steps
        moving, along = self.moving, self.along
        seeds = [of_last[k] if k in of_last else zeros_like(self.inits[k]) for k in moving]

        def back(carry: Any, x: Any) -> tuple[Any, Any]:
            """One step of the backward loop: from the adjoints of a step's results to those of its
            inputs."""
            adjoint, sums = carry
            before, element, coming = x
            with enable_grad():
                carried = [fresh_leaf(b) if k in moving else b for k, b in enumerate(before)]
                elements = [fresh_leaf(e) if k in along else e for k, e in enumerate(element)]
                new, y = self.call(carried, elements)
            outputs = [*leaves(new), *_tensors(y), *carried]
            cotangents = dict(zip(moving, adjoint, strict=True)) | dict(
                zip(of_each, coming, strict=True)
            )
            pairs = [(outputs[k], g) for k, g in cotangents.items() if outputs[k].requires_grad]
            wanted = [*(carried[k] for k in moving), *(elements[k] for k in along), *outside]
            found = backward_pass(
                [o for o, _ in pairs],
                [g for _, g in pairs],
                wanted,
                create_graph=is_grad_enabled(),
                is_part=True,
            )
            full = [zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]
            d_carried, rest = full[: len(moving)], full[len(moving) :]
            d_elements, d_outside = rest[: len(along)], rest[len(along) :]
            return (d_carried, [s + g for s, g in zip(sums, d_outside, strict=True)]), d_elements

        init = (seeds, [zeros_like(x) for x in outside])
        xs = (list(self.befores), list(self.given), list(of_each.values()))
        (d_init, d_outside), d_xs = compact_scan(back, init, xs, self.steps, not self.reverse)
        found = dict(zip(moving, d_init, strict=True))
        found |= {carried_count + k: g for k, g in zip(along, d_xs, strict=True)}
        found |= {first_outside + k: g for k, g in enumerate(d_outside)}
        return tuple(found.get(k) for k in range(len(node.inputs)))


def _tensors(y: object) -> list[Tensor]:
    """The tensors among the leaves of xs, which are sliced, or of y, which are stacked."""
    return [leaf for leaf in leaves(y) if isinstance(leaf, Tensor)]


def _placeholder(body: Graph, like: Tensor, shape: tuple[int, ...], has_gradient: bool) -> Tensor:
    """A tensor that stands for an input of the body."""
    array = like.realize_cached_data()
    size = math.prod(shape)
    handle = Handle(size, array.dtype, body.new_value(size, array.dtype, INPUT))
    made = compact_view(shape, array.dtype, array.device, handle)
    return Tensor.make_const(made, has_gradient)


def _value_of(x: Tensor) -> FlatValue:
    value: FlatValue = x.realize_cached_data()._handle.value
    return value
