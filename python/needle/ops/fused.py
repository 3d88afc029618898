"""Operators that one tile program computes, beside the composite of operators that they equal."""

from __future__ import annotations

from typing import Any

from ..autograd import Op, Tensor, TensorOp, TensorTupleOp
from ..dtype import dtype_of
from ..graph import enable_grad, is_grad_enabled, propagate
from .movement import Reshape


class _ByDefinition(Op):
    """An operator whose gradient is that of `definition`, the same in operators."""

    def definition(self, *inputs: Any) -> Any:
        """The composite that this operator equals: a tensor, or a tuple of them."""
        raise TypeError(f"[{type(self).__name__}] has no definition.")

    def gradient(self, out_grad: Any, node: Any) -> Any:
        with enable_grad():
            stand_ins = [_stand_in(x) for x in node.inputs]
            outputs: Any = self.definition(*stand_ins)
        one = isinstance(outputs, Tensor)
        found: dict[int, Any] = {}

        def store(value: Any, adjoint: Any) -> None:
            found[id(value)] = adjoint

        propagate(
            [outputs] if one else list(outputs),
            [out_grad] if one else list(out_grad.tuple()),
            store,
            create_graph=is_grad_enabled(),
            targets=[x for x in stand_ins if x.requires_grad],
        )
        return tuple(found.get(id(x)) for x in stand_ins)


class FusedOp(_ByDefinition, TensorOp):
    """With one result."""


class FusedTupleOp(_ByDefinition, TensorTupleOp):
    """With several results."""


def _stand_in(x: Tensor) -> Tensor:
    """A node of its own with x's data and history: inputs may be one and the same tensor."""
    if not dtype_of(x.dtype).is_floating:
        return x
    node = Reshape(x.shape)(x)
    node.requires_grad = True
    return node
