"""Operators that one tile program computes, beside the composite of operators that they equal."""

from __future__ import annotations

from typing import Any

from ..autograd import Op, Tensor, TensorOp, TensorTupleOp
from ..autograd.grad_mode import enable_grad, is_grad_enabled
from ..autograd.graph import pull_back
from .common import stand_in


class _ByDefinition(Op):
    """An operator whose gradient is that of `definition`, the same in operators."""

    def definition(self, *inputs: Any) -> Any:
        """The composite that this operator equals: a tensor, or a tuple of them."""
        raise TypeError(f"[{type(self).__name__}] has no definition.")

    def gradient(self, out_grad: Any, node: Any) -> Any:
        with enable_grad():
            stand_ins = [stand_in(x) for x in node.inputs]
            outputs: Any = self.definition(*stand_ins)
        one = isinstance(outputs, Tensor)
        found = pull_back(
            [outputs] if one else outputs,
            [out_grad] if one else out_grad.tuple(),
            stand_ins,
            create_graph=is_grad_enabled(),
        )
        return tuple(found)


class FusedOp(_ByDefinition, TensorOp):
    """With one result."""


class FusedTupleOp(_ByDefinition, TensorTupleOp):
    """With several results."""
