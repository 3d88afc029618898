"""Reverse mode: gradients on the nodes that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import cycles
from .graph import propagate
from .ndarray import mutation, select
from .op import Op

if TYPE_CHECKING:
    from .autograd import Value


class Freed(Op):
    """What made a value that a backward pass has freed."""

    def gradient(self, out_grad: Any, node: Any) -> Any:
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
    `create_graph=False`, none, and the graph is freed unless `retain_graph` says otherwise.
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
        else:
            node.grad = grad if node.op is not None else in_own_memory(grad, taken)

    freed = None if retain_graph else Freed()
    propagate([output_tensor], [out_grad], store, create_graph=create_graph, freed=freed)


def in_own_memory(grad: Any, taken: set[int | None]) -> Any:
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
