"""Tensors that become another value: what assignment (`x[i] = v`) does to a tensor with a history.

The object x stays the same, but it now stands for SetItem(former x, v). Whoever used x before still
has the object x among its inputs and must go on to mean the former value. Nodes are numbered as
they are made, so such a use is easy to tell: an input with a higher number than its user. Walks
through the graph put the former value back in its place (`restore_inputs`).
"""

from __future__ import annotations

from typing import Any

IDENTITY = ("op", "inputs", "cached_data", "requires_grad", "_stamp", "_abstract")
happened = False  # until a tensor is rebound, walks need not look


def become(x: Any, op: Any, *others: Any) -> None:
    """Turn the tensor x into op(x as it was, *others), also for those who hold x from now on."""
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


def _forget(x: Any, users: Any, since: int) -> None:
    """Put the former x into what the new x was made from, so that no reference cycle remains."""
    pending, seen = list(users), {id(x)}
    while pending:
        node = pending.pop()
        if node._stamp > since and id(node) not in seen:
            seen.add(id(node))
            restore_inputs(node)
            pending.extend(node.inputs)


def restore_inputs(node: Any) -> None:
    """Let the node's inputs be the values that it was made from."""
    if any(source._stamp > node._stamp for source in node.inputs):
        node.inputs = tuple(_as_used(source, node) for source in node.inputs)


def _as_used(source: Any, node: Any) -> Any:
    while source._stamp > node._stamp:
        if not source.inputs:
            raise ValueError(
                f"[backward] {type(node.op).__name__} used a tensor of shape {source.shape} that "
                "was assigned to and then cut from its history; assign to a copy (x = x.clone())."
            )
        source = source.inputs[0]
    return source
