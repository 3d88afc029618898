"""Walking graphs: the order of dependencies, and reverse mode along it.

Nothing here knows what a value holds; `autograd.py` says what values and operators are.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native, tracing
from ..facts import fact
from ..ndarray import versions as mutation
from . import rebind as rebinding
from .grad_mode import GradMode

if TYPE_CHECKING:
    from ..types import Adjoint
    from .op import Op
    from .tensor import Value

__all__ = ["observers", "HookHandle", "Observer", "find_topo_sort"]


# Hooks ------------------------------------------------------------------------------------------


class HookHandle:
    """What registering a hook gives: called, or by its `remove()`, it takes the hook away."""

    def __init__(self, remove: Callable[[], None]):
        self.remove = remove

    def __call__(self) -> None:
        self.remove()


# Observers --------------------------------------------------------------------------------------


class Observer:
    """Sees every operator at work (anomaly detection, profiling)."""

    def recorded(self, value: Value) -> None:
        """A lazy value was made; it will be computed later."""

    def computed(self, op: Op, inputs: Sequence[Value], result: Value) -> None:
        """op(*inputs) was computed."""

    def differentiating(self, node: Value) -> None:
        """node.op.gradient is about to run."""

    def differentiated(self, node: Value, gradients: Sequence[Value | None] | None) -> None:
        """node.op.gradient gave the adjoints of node.inputs; None if it raised."""


observers: list[Observer] = []


# Walks ------------------------------------------------------------------------------------------


def find_topo_sort(
    node_list: Sequence[Value], until: Callable[[Value], bool] | None = None
) -> list[Value]:
    """Every node that node_list depends on, inputs before users: post-order depth-first.

    The walk does not go beyond nodes for which `until` holds. Iterative, since graphs may be deep.
    """
    order: list[Value] = []
    seen: set[int] = set()
    for root in node_list:
        if id(root) in seen:
            continue
        seen.add(id(root))
        stack: list[tuple[Value, Iterator[Value]]] = [(root, _inputs_of(root, until))]
        while stack:
            node, inputs = stack[-1]
            for child in inputs:
                if id(child) not in seen:
                    seen.add(id(child))
                    stack.append((child, _inputs_of(child, until)))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


def _inputs_of(node: Value, until: Callable[[Value], bool] | None) -> Iterator[Value]:
    if until is not None and until(node):
        return iter(())
    if rebinding.happened:
        rebinding.restore_inputs(node)
    return iter(node.inputs)


def find_paths(outputs: Sequence[Value], targets: Sequence[Value]) -> list[Value]:
    """The nodes on the paths from targets to outputs, both ends included, in topological order.

    A node made before every target cannot depend on one: the walk ends there.
    """
    ends = {id(t) for t in targets}
    first = min((t._stamp for t in targets), default=0)
    leads: set[int] = set()
    paths: list[Value] = []
    for node in find_topo_sort(
        outputs, until=lambda n: id(n) in ends or n._stamp < first or not n.requires_grad
    ):
        if id(node) in ends or any(id(x) in leads for x in node.inputs):
            leads.add(id(node))
            paths.append(node)
    return paths


def propagate(
    outputs: Sequence[Value],
    out_grads: Sequence[Value],
    store: Callable[[Value, Value], None],
    *,
    create_graph: bool,
    targets: Sequence[Value] | None = None,
    freed: Op | None = None,
    run_hooks: Callable[[Value, Value], Value] | None = None,
) -> None:
    """Walk the graph backwards from outputs and give every node's adjoint to `store`.

    adjoint(x) = sum over users y of x:  adjoint(y) * dy/dx

    Nodes are numbered as they are made, so the users of a node have higher numbers: of the nodes
    with an adjoint, the adjoint of the one with the highest number is complete.

    With `targets`, only the paths to them are walked, and none beyond a target. With `freed`, the
    graph is freed on the way: each node that was used loses its inputs and gets this operator, so
    that data that nobody else holds is freed before the next gradient is computed. `run_hooks`
    takes the place of running each node's hooks.
    """
    reached = None if targets is None else {id(n) for n in find_paths(outputs, targets)}
    ends = {id(t) for t in targets or ()}
    with GradMode(create_graph):
        _native.walk_back(
            outputs,
            out_grads,
            store if tracing.active() is None else _noting_hooks(store),
            _differentiate,
            run_hooks or _run_hooks,
            reached,
            ends,
            freed,
        )


def backward_pass(
    outputs: Sequence[Value],
    out_grads: Sequence[Value],
    inputs: Sequence[Value],
    *,
    create_graph: bool,
    is_part: bool = False,
) -> list[Adjoint]:
    """The adjoints of inputs, given those of outputs; None where nothing flows.

    With `is_part` it is a part of another walk, which has the hooks of the inputs run."""
    found: dict[int, Any] = {}
    wanted = {id(x) for x in inputs}

    def hooks_between(node: Value, adjoint: Value) -> Value:
        return adjoint if id(node) in wanted else _run_hooks(node, adjoint)

    def store(node: Value, adjoint: Value) -> None:
        if id(node) in wanted:
            found[id(node)] = adjoint

    targets = [x for x in inputs if x.requires_grad]
    run_hooks = hooks_between if is_part else None
    propagate(
        outputs,
        out_grads,
        store,
        create_graph=create_graph,
        targets=targets,
        run_hooks=run_hooks,
    )
    return [found.get(id(x)) for x in inputs]


def _form(value: object) -> str:
    """A gradient's type, dtype and shape, which a hook must keep."""
    if not isinstance(value, _native.NodeBase) or not hasattr(value, "shape"):
        return type(value).__name__
    return f"a Tensor of dtype {value.dtype} and shape {value.shape}"


def _noting_hooks(store: Callable[[Value, Value], None]) -> Callable[[Value, Value], None]:
    """While a function is traced, which hooks a leaf has is a fact."""

    def noting_store(node: Value, adjoint: Value) -> None:
        if node.op is None:
            alive, traced = weakref.ref(node), _hooks_of(node)  # do not keep what the trace made
            fact(node, "hooks", lambda: traced if alive() is None else _hooks_of(alive()))
        store(node, adjoint)

    return noting_store


def _hooks_of(node: Value | None) -> tuple[Callable[[Value], Value | None], ...]:
    return () if node is None else tuple((node._hooks or {}).values())


def _run_hooks(node: Value, adjoint: Value) -> Value:
    for hook in _hooks_of(node):
        replaced = hook(adjoint)
        if replaced is None:
            continue
        expected, got = (_form(g) for g in (adjoint, replaced))
        if got != expected:
            raise ValueError(f"[hook] expected None or a gradient, {expected}, got {got}.")
        adjoint = replaced
    return adjoint


def _differentiate(node: Value, adjoint: Value) -> Sequence[Value | None]:
    assert node.op is not None
    if rebinding.happened:
        rebinding.restore_inputs(node)
    mutation.check_unchanged(node)
    if not observers:
        return node.op.gradient_as_tuple(adjoint, node)
    watching = tuple(observers)
    for observer in watching:
        observer.differentiating(node)
    found: Sequence[Value | None] | None = None
    try:
        found = node.op.gradient_as_tuple(adjoint, node)
    finally:
        for observer in watching:
            observer.differentiated(node, found)
    return found
