"""The results of compiled functions as tensors. Those of functions that change something have no
gradient, and say so when asked; `pulling.py` has the gradients of others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..autograd import Tensor, TensorOp
from ..ndarray.array import NDArray
from .errors import TraceError
from .trace import Output


class Compiled(TensorOp):
    """A result of a compiled function that changes something: its gradient raises an error"""

    def gradient(self, out_grad: Any, node: Any) -> Any:
        raise TraceError(
            f"[jit] the result of shape {node.shape} of a compiled function that changes "
            "gradients, arguments or memory has no gradient; compute gradients inside of the "
            "function, with backward() or ndl.grad."
        )


COMPILED = Compiled()


def as_result(array: NDArray, output: Output) -> Any:
    """What the caller gets. Where eager mode would record a history, it is a node whose gradient
    explains why there is none."""
    if not output.is_tensor:
        return array
    result: Tensor = Tensor.make_const(array, output.requires_grad)
    if output.requires_grad:
        result.op = COMPILED
    return result


def sources_of(tensors: Iterable[Any]) -> tuple[Any, ...]:
    """The inputs of a result that was computed from these tensors. A result of another compiled
    function is replaced by its inputs: a chain of results would keep all of them alive."""
    found = [x.inputs if isinstance(x.op, Compiled) else (x,) for x in tensors]
    return tuple({id(x): x for group in found for x in group}.values())
