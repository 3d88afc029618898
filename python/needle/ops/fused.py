"""Operators whose formula is a tile program: one kernel to compute, a composite to differentiate.

The formula is written once. `F.run` computes it on arrays; `run_composite` does the same with
operators on tensors, so that it has a gradient like any function of the user's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from ..autograd import Op, Tensor, TensorOp, TensorTupleOp
from ..autograd.grad_mode import enable_grad, is_grad_enabled
from ..autograd.graph import backward_pass
from ..ndarray import functions as F
from ..tile.ir import Instruction, Program
from .common import fresh_leaf

if TYPE_CHECKING:
    from ..types import Gradients, NDArray


class _ByDefinition(Op):
    """An operator whose gradient is that of `definition`, the same in operators."""

    def definition(self, *inputs: Any) -> Tensor | tuple[Tensor, ...]:
        """The composite that this operator equals: a tensor, or a tuple of them."""
        raise TypeError(f"[{type(self).__name__}] has no definition.")

    def gradient(self, out_grad: Any, node: Any) -> Gradients:
        with enable_grad():
            leaves = [fresh_leaf(x) for x in node.inputs]
            outputs: Any = self.definition(*leaves)
        one = isinstance(outputs, Tensor)
        found = backward_pass(
            [outputs] if one else outputs,
            [out_grad] if one else out_grad.tuple(),
            leaves,
            create_graph=is_grad_enabled(),
        )
        return tuple(found)


class FusedOp(_ByDefinition, TensorOp):
    """With one result: that of the program `formula`, whose rows are made of `axes`."""

    formula: Program
    axes: tuple[int, ...] = ()

    def compute(self, *arrays: Any) -> NDArray:
        return F.run(self.formula, *arrays, axes=self.axes)

    def definition(self, *inputs: Any) -> Tensor | tuple[Tensor, ...]:
        return run_composite(self.formula, *inputs, axes=self.axes)


class FusedTupleOp(_ByDefinition, TensorTupleOp):
    """With several results."""


# A program in operators --------------------------------------------------------------------------


def run_composite(program: Program, *tensors: Tensor, axes: tuple[int, ...] = ()) -> Tensor:
    """What `F.run` computes, as operators on tensors."""
    values: list[Tensor] = []
    results: dict[int, Tensor] = {}
    ndim = max((x.ndim for x in tensors), default=0)
    for i in program.instructions:
        if i.name == "load":
            values.append(tensors[i.detail])
        elif i.name == "store":
            results[i.detail] = values[i.args[0]]
        else:
            args = [values[a] for a in i.args]
            values.append(_evaluate(i, args, tensors, axes, ndim))
    found = tuple(results[place] for place in sorted(results))
    return found[0] if len(found) == 1 else found  # type: ignore[return-value]


run_composites: Callable[..., tuple[Tensor, ...]] = run_composite  # type: ignore[assignment]


def _evaluate(
    i: Instruction,
    args: list[Tensor],
    tensors: tuple[Tensor, ...],
    axes: tuple[int, ...],
    ndim: int,
) -> Any:
    if i.name == "constant":  # a number has the type of what it meets
        return i.detail[0] if isinstance(i.detail, tuple) else i.detail
    if i.name == "row_size":
        return math.prod(max(_size(x, axis, ndim) for x in tensors) for axis in axes)
    if i.name == "cast":
        return args[0].astype(i.detail)
    if i.name in ("row_sum", "row_max", "row_min", "row_prod"):
        return _operator(i.name.removeprefix("row_"))(args[0], axes, keepdims=True)
    if i.name == "column_sum":
        others = tuple(axis for axis in range(ndim) if axis not in axes)
        return args[0].sum(others, keepdims=True)
    if i.name == "add_at":
        return _add_at(args[0], args[1], args[2], axes[0])
    return _operator(i.name)(*args)


def _size(x: Tensor, axis: int, ndim: int) -> int:
    """The size of x along an axis of the broadcast shape."""
    place = axis - (ndim - x.ndim)
    return x.shape[place] if place >= 0 else 1


def _add_at(x: Tensor, index: Tensor, amount: Tensor, axis: int) -> Tensor:
    """x with `amount` added at a position of each row, if it is in the row."""
    less, where = _operator("less"), _operator("where")
    is_inside = _operator("logical_and")(less(-1, index), less(index, x.shape[axis]))
    place, part = where(is_inside, index, 0), where(is_inside, amount, 0)
    return _operator("scatter_add")(x, axis, place.astype("int64"), part)


@cache
def _operator(name: str) -> Callable[..., Tensor]:
    """The operator that an instruction is: of the same name, but for these."""
    from .. import ops  # the operators themselves are fused, and import this file

    others: dict[str, Callable[..., Tensor]] = {
        "negative": ops.negate,
        "as_number": lambda x: x,
        "cast_like": lambda x, other: x.astype(other.dtype),
        "computed_like": lambda x, other: x.astype(other.dtype),
    }
    return others.get(name) or getattr(ops, name)
