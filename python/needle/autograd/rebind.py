"""Tensors that become another value: what assignment (`x[i] = v`) does to a tensor with a history.

The object x stays the same, but it is now the node SetItem(old x, v). Nodes that used x before
still have the object x among their inputs, but were computed from the old value. Nodes are numbered
as they are made, so such a use can be recognised: the input has a higher number than its user.
Walks through the graph then replace it by the old value (`restore_inputs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..autograd.op import Op
    from ..autograd.tensor import Value
    from ..types import Tensor

# requires_grad first: setting it may cut what is not tracked from its history.
IDENTITY = ("requires_grad", "op", "inputs", "cached_data", "_stamp", "_abstract")
happened = False  # until a tensor is rebound, walks need not look


def become(x: Tensor, op: Op, *others: Tensor) -> None:
    """Turn the tensor x into op(x as it was, *others), for everybody who uses it from now on."""
    global happened
    former = type(x).make_const(None)
    for name in (*IDENTITY, "_replaced", "grad"):
        setattr(former, name, getattr(x, name))
    former._hooks, result = x._hooks, op(former, *others)
    for name in IDENTITY:
        setattr(x, name, getattr(result, name))
    x._hooks = x.grad = None
    happened = True
    _forget(x, others, since=former._stamp)


def _forget(x: Tensor, users: Sequence[Tensor], since: int) -> None:
    """Put the old x into the graph that the new x was made from, so that there is no reference
    cycle."""
    pending, seen = list(users), {id(x)}
    while pending:
        node = pending.pop()
        if node._stamp > since and id(node) not in seen:
            seen.add(id(node))
            restore_inputs(node)
            pending.extend(node.inputs)


def restore_inputs(node: Value) -> None:
    """Replace inputs that were rebound after the node was made by the values that it used."""
    if any(source._stamp > node._stamp for source in node.inputs):
        node.inputs = tuple(_as_used(source, node) for source in node.inputs)


def _as_used(source: Tensor, node: Value) -> Tensor:
    while source._stamp > node._stamp:
        if not source.inputs:
            raise ValueError(
                f"[backward] {type(node.op).__name__} used a tensor of shape {source.shape} that "
                "was assigned to and then cut from its history; assign to a copy (x = x.clone())."
            )
        source = source.inputs[0]
    return source
