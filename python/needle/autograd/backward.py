"""Reverse mode: gradients on the nodes that they belong to."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native, tracing
from ..facts import changed, fact
from ..ndarray import functions, versions as mutation
from ..ndarray.index import gather as select
from . import gc as cycles
from .graph import backward_pass, propagate
from .op import Op

if TYPE_CHECKING:
    from ..types import Gradients
    from .tensor import Tensor, Value

__all__ = [
    "after_backward", "compute_gradient_of_variables", "clear_gradients", "grad", "in_own_memory",
]  # fmt: skip


class _Pending(threading.local):
    """What is to be called at the end of the backward pass that this thread runs."""

    def __init__(self) -> None:
        self.calls: dict[object, Callable[[], None]] = {}


_pending = _Pending()


def after_backward(key: object, call: Callable[[], None]) -> None:
    """Call it once when the backward pass that runs now has stored all gradients."""
    _pending.calls.setdefault(key, call)


class Freed(Op):
    """What made a value that a backward pass has freed."""

    def gradient(self, out_grad: Tensor, node: Value) -> Gradients:
        raise ValueError(
            "[backward] the graph was freed by an earlier backward(create_graph=False); pass "
            "retain_graph=True there, or compute the result again."
        )


def compute_gradient_of_variables(
    output_tensor: Value,
    out_grad: Value,
    *,
    accumulate: bool = False,
    create_graph: bool = True,
    retain_graph: bool | None = None,
) -> None:
    """Reverse mode: set `.grad` on every node that output_tensor depends on.

    A leaf's gradient is a node of the graph, in memory of its own. What lies between keeps its
    gradient as plain data, else every value would be in a cycle with its own gradient; with
    `create_graph=False`, none, and the graph is freed unless `retain_graph` says otherwise. After
    `zero_grad`, gradients add up as PyTorch's do, without the history of earlier ones.
    """
    retain_graph = create_graph if retain_graph is None else retain_graph
    if create_graph:
        cycles.collect()
    taken = {mutation.memory_id(out_grad.cached_data)}

    def store(node: Value, grad: Any) -> None:
        if node.op is not None and node is not output_tensor:
            if not create_graph:
                return
            is_pending = grad.cached_data is None  # in lazy mode
            grad = grad if is_pending else grad.detach()
        elif not node.requires_grad and node is not output_tensor:
            return
        if accumulate and node.grad is not None:
            node.grad = node.grad + grad
        elif node.op is None and _adds_up(node) and node.grad is not None:
            node.grad = node.grad.detach() + grad
        else:
            node.grad = grad if node.op is not None else in_own_memory(grad, taken)

    freed = None if retain_graph else Freed()
    try:
        propagate([output_tensor], [out_grad], store, create_graph=create_graph, freed=freed)
        for call in [*_pending.calls.values()]:
            call()
    finally:
        _pending.calls.clear()


def _adds_up(leaf: Value) -> bool:
    """Has `zero_grad` been called for it? Whoever uses PyTorch's name expects its gradients."""
    if tracing.active() is None:
        return leaf._adds_up
    alive = weakref.ref(leaf)  # a program must not keep what its trace made
    return fact(leaf, "adds_up", lambda: getattr(alive(), "_adds_up", False))


def clear_gradients(leaves: Iterable[Tensor], set_to_none: bool, adds_up: bool = True) -> None:
    """Forget gradients, or make them zeros; and choose whether a backward pass adds to them."""
    for leaf in leaves:
        if leaf._adds_up != adds_up:
            leaf._adds_up = adds_up
            changed()
        if set_to_none or leaf.grad is None:
            leaf.grad = None
        else:
            zeros = functions.full(leaf.shape, 0, leaf.dtype, leaf.home)
            leaf.grad = leaf.grad.make_const(zeros)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """PyTorch's `autograd.grad`: the gradient of outputs by each input; `.grad` stays as it is.

    Outputs and inputs are tensors, or lists of them; every output counts with its grad_outputs, or
    with ones. The graph is kept, whatever retain_graph says. only_inputs, which was once of use in
    PyTorch, must be True. `needle.grad` takes a function.
    """
    if not only_inputs:
        raise ValueError("[grad] expected only_inputs=True; backward() sets .grad of all leaves.")
    results, wanted = _listed("outputs", outputs), _listed("inputs", inputs)
    seeds = [None] * len(results) if grad_outputs is None else _as_list(grad_outputs)
    shapes = [None if u is None else u.shape for u in seeds]
    if len(seeds) != len(results) or any(
        s is not None and s != y.shape for s, y in zip(shapes, results, strict=True)
    ):
        expected = [y.shape for y in results]
        raise ValueError(f"[grad] expected grad_outputs of shapes {expected}, got {shapes}.")
    pairs = [
        (y, y.make_const(functions.full(y.shape, 1, y.dtype, y.home)) if u is None else u)
        for y, u in zip(results, seeds, strict=True)
        if y.requires_grad
    ]
    ys, us = [y for y, _ in pairs], [u for _, u in pairs]
    # A walk ends at what it looks for, so inputs that may depend on each other get one each.
    walks = [wanted] if all(x.op is None for x in wanted) else [[x] for x in wanted]
    found: list[Any] = []
    for part in walks:
        found += backward_pass(ys, us, part, create_graph=create_graph)
    if None in found and not allow_unused:
        raise ValueError(
            f"[grad] expected outputs that depend on input {found.index(None)}, which gets no "
            "gradient; does it require one? allow_unused=True gives None."
        )
    taken = {mutation.memory_id(u.cached_data) for u in us}
    return tuple(None if g is None else in_own_memory(g, taken) for g in found)


def _as_list(given: object) -> list[Any]:
    return list(given) if isinstance(given, Sequence) else [given]


def _listed(name: str, given: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """One tensor, or several."""
    values = _as_list(given)
    for value in values:
        if not isinstance(value, _native.NodeBase):
            hint = "; needle.grad takes functions" if callable(value) else ""
            got = type(value).__name__
            raise TypeError(f"[grad] expected Tensors as {name}, got {got}{hint}.")
    return values


def in_own_memory(grad: Tensor, taken: set[int | None]) -> Tensor:
    """grad, or a copy: writing into one leaf's gradient (`w.grad *= 2`) must change no other.

    The gradient of a + b is one array for both, that of a sum repeats one element.
    """
    data = grad.cached_data
    memory = mutation.memory_id(data)
    if memory is None:
        return grad
    if memory in taken or select.has_overlap(data):
        return grad.clone()
    taken.add(memory)
    return grad
