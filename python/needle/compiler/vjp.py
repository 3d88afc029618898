"""Gradients through the results of compiled functions: `ndl.grad(ndl.jit(f))`, `f(x).backward()`.

A compiled function keeps nothing of what lies between its arguments and its results. So the
gradient is a compiled function of its own, the *vjp*, which computes the function again, with the
same random numbers, and differentiates it, as `checkpoint` does. The vjp is pure: what the
function writes (running statistics) is written once, by the function. The results of the vjp are
results of a compiled function too, which gives the derivatives of higher order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import facts
from ..autograd import Tensor, TensorOp, TensorTuple, next_stamp
from ..autograd.grad_mode import enable_grad, is_grad_enabled
from ..autograd.graph import backward_pass
from ..ndarray import random, versions as mutation
from ..ops.common import fresh_leaf
from ..ops.tuples import TupleGetItem
from ..tracing import is_tracing
from ..tree import leaves, with_leaves
from .control.until import computed_again
from .errors import TraceError
from .trace.state import Cell
from .trace.tracer import DATA, EFFECT, MEMORY, RESULT, Trace

if TYPE_CHECKING:
    from ..types import Adjoint, Gradients, Value
    from .function import Call, Jitted
    from .run.program import CompiledProgram


def has_vjp(trace: Trace) -> bool:
    """May the function be computed again? Not if it writes gradients or arguments, as a whole
    training step does. It may give tensors from outside new data, or write into their memory, if
    the vjp does not read that (`check_states`)."""
    does_little = all(
        o.kind in (RESULT, EFFECT, MEMORY) or (o.kind == DATA and isinstance(o.target, Cell))
        for o in trace.outputs
    )
    reads_gradients = trace.grad_reads or trace.fixed_grads or trace.without_grad or trace.cleared
    return does_little and not reads_gradients and not trace.escaped


def make_pure(trace: Trace) -> None:
    """Let a traced function only give its results."""
    trace.outputs = [o for o in trace.outputs if o.kind in (RESULT, EFFECT)]
    trace.graph.results = [o.operand for o in trace.outputs]


def vjp_of(
    function: Callable[..., object], positions: Sequence[int], captured: Sequence[Value]
) -> Callable[..., list[Adjoint]]:
    """The adjoints of the arguments that require a gradient, and of what the function uses from
    outside, given those of the leaves of its result at these positions; None where none flows."""

    def vjp(
        args: tuple[object, ...], kwargs: dict[str, object], adjoints: Sequence[Value]
    ) -> list[Adjoint]:
        given = leaves((args, kwargs))
        wanted = {id(x): x for x in given if isinstance(x, Tensor) and x.requires_grad}
        with enable_grad(), computed_again():
            entered = {i: fresh_leaf(x) for i, x in wanted.items()}
            chosen = [entered.get(id(x), x) for x in given]
            new_args, new_kwargs = with_leaves((args, kwargs), chosen)
            out = leaves(function(*new_args, **new_kwargs))
        inputs = [*entered.values(), *captured]
        outputs = [out[i] for i in positions]
        return backward_pass(
            outputs, adjoints, inputs, create_graph=is_grad_enabled(), is_part=True
        )

    return vjp


class Moment:
    """What a call of a compiled function depends on besides tensors, so that it can be repeated:
    where its random numbers started, and the time."""

    def __init__(self, trace: Trace):
        self.time = next_stamp()
        self.random = random.snapshot() if trace.draws or trace.host else None
        self.generators = [(g, g.get_state()) for g, _ in trace.generators]
        drawn = [s for s in trace.sources if s is not np.random]
        self.generators += [(s, s.get_state()) for s in drawn]

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Draw the same random numbers again, then go on as before."""
        if self.random is None:
            yield
            return
        before = [(g, g.get_state()) for g, _ in self.generators]
        with random.replayed(self.random):
            for generator, state in self.generators:
                generator.set_state(state)
            try:
                yield
            finally:
                for generator, state in before:
                    generator.set_state(state)


class CompiledCall(TensorOp):
    """y = f(x, captured) by a compiled function; the gradient is the compiled vjp of f"""

    def __init__(self, program: CompiledProgram, vjp: Jitted, call: Call, moment: Moment):
        self.program, self.vjp, self.call, self.moment = program, vjp, call, moment

    def gradient(self, out_grad: object, node: Any) -> Gradients:
        if is_tracing():
            raise TraceError(
                "[jit] a compiled function cannot differentiate the results of another one that "
                "was called before it; call both inside of one compiled function."
            )
        trace = self.program.trace
        if not facts.hold(trace.facts.values()) or not trace.names.hold():
            raise TraceError(
                "[jit] the gradient of a compiled function is asked for after what the function "
                f"depends on has changed ({self.program.difference()}); call it again first."
            )
        args, kwargs = self._arguments(node.inputs)
        adjoints = out_grad.tuple() if isinstance(out_grad, TensorTuple) else (out_grad,)
        with self.moment.replayed():
            found = iter(self.vjp.run_after(self.moment.time, args, kwargs, adjoints))
        return tuple([next(found) if x.requires_grad else None for x in node.inputs])

    def _arguments(self, inputs: Sequence[Tensor]) -> Any:
        """What the function was called with, with the node's inputs as its tensors. NumPy's arrays
        may have changed, so they are those that the program was given."""
        rest = iter(inputs)
        now: dict[int, Any] = {}
        tree = (self.call.args, self.call.kwargs)
        for x, array in zip(self.call.originals, self.call.arrays, strict=True):
            if isinstance(x, np.ndarray):
                now[id(x)] = Tensor.make_const(array)
            elif isinstance(x, Tensor) and id(x) not in now:
                now[id(x)] = next(rest)
        return with_leaves(tree, [now.get(id(x), x) for x in leaves(tree)])


def check_states(program: CompiledProgram, time: int) -> None:
    """Raise if a tensor from outside that the program reads has changed since this time."""
    binding = program.binding
    for cell, slot in zip(binding.known.cells, binding.reads, strict=True):
        tensor = cell.tensor()
        if slot is not None and mutation.is_changed_since(tensor, time):
            raise TraceError(
                f"[jit] the result of a compiled function has no gradient: a tensor of shape "
                f"{tensor.shape} from outside, which the gradient needs, has changed since the "
                "function was called, or by it; compute the gradient inside of the function."
            )


def record(
    program: CompiledProgram, vjp: Jitted, call: Call, moment: Moment, result: object
) -> None:
    """Make the tensors in the result of a call nodes of the graph, on top of what they were
    computed from."""
    binding = program.binding
    found = [result] if binding.is_single else leaves(result)
    nodes = [found[i] for i in binding.recorded]
    given = {id(x): x for x in call.originals if isinstance(x, Tensor)}.values()
    node: Any = nodes[0]
    if len(nodes) > 1:
        node = TensorTuple.make_const(tuple([y.cached_data for y in nodes]), requires_grad=True)
    node.op = CompiledCall(program, vjp, call, moment)
    node.inputs, node._stamp = (*given, *binding.captured), next_stamp()
    if len(nodes) > 1:
        for i, y in enumerate(nodes):
            y.op, y.inputs, y._stamp = TupleGetItem(i), (node,), next_stamp()
