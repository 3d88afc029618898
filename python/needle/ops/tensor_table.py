"""The one table of Tensor's operators and methods, and its installation.

`autograd.py` defines Tensor without arithmetic; here each name gets its function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd import Tensor, TensorTuple
from . import (
    arithmetic,
    compare,
    cumulative as running,
    elementwise,
    reduce,
    torch_math,
    torch_names,
    tuples,
    unary,
)
from .index import indexing, inplace_methods as assigning, sorting as order
from .index.inplace import IN_PLACE, OPERATORS
from .matmul import dot, matmul
from .network.softmax import logsoftmax, logsumexp, softmax
from .shape import concat as joining, movement


def swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """f(other, self) for the reflected operator."""

    def reflected(self: Any, other: Any) -> Any:
        return function(other, self)

    return reflected


METHODS: dict[str, Callable[..., Any]] = {
    **{f"__{name}__": function for name, function in OPERATORS.items()},
    **{f"__r{name}__": swapped(function) for name, function in OPERATORS.items()},
    **IN_PLACE,
    "__matmul__": matmul, "__rmatmul__": swapped(matmul), "matmul": matmul, "dot": dot,
    "__neg__": arithmetic.negate, "__pos__": arithmetic.positive, "__abs__": unary.abs,
    "__invert__": compare.invert,
    "__lt__": compare.less, "__le__": compare.less_equal, "eq": compare.equal,
    "__gt__": compare.greater, "__ge__": compare.greater_equal, "ne": compare.not_equal,
    "__getitem__": indexing.getitem, "__setitem__": indexing.setitem,
    "__iter__": indexing.iterate, "__contains__": torch_names.contains,
    "astype": elementwise.astype, "clip": compare.clip, "sum": reduce.summation,
    "unsqueeze": movement.expand_dims,
}  # fmt: skip

PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "T": movement.reverse_axes,
    "mT": movement.transpose,
    "values": torch_names.values,
    "indices": torch_names.indices,
}

TUPLE_METHODS: dict[str, Callable[..., Any]] = {
    "__getitem__": tuples.get_item,
    "tuple": tuples.elements,
    "__add__": tuples.add_tuples,
}

# Functions of one tensor are methods under their own name.
for function in (
    *(getattr(unary, name) for name in unary.__all__ if name.islower()),  # not the classes
    compare.logical_not, compare.isnan, compare.isinf, compare.isfinite, compare.maximum,
    compare.minimum,
    arithmetic.atan2,
    # reduce.py, running.py, softmax.py
    reduce.mean, reduce.var, reduce.std, reduce.max, reduce.min, reduce.prod, reduce.any,
    reduce.all, reduce.argmax, reduce.argmin, running.cumsum, running.cumprod, reduce.norm,
    logsumexp, logsoftmax, softmax,
    # movement.py, joining.py
    movement.reshape, movement.flatten, movement.squeeze, movement.expand_dims,
    movement.broadcast_to, movement.transpose, movement.swapaxes, movement.permute, movement.flip,
    movement.diagonal, movement.tril, movement.triu, movement.clone, movement.to,
    joining.pad, joining.crop, joining.split, joining.array_split, joining.chunk, joining.tile,
    joining.repeat, joining.roll,
    # indexing.py, order.py
    indexing.take, indexing.take_along_axis, indexing.gather, indexing.scatter_add,
    indexing.index_add, indexing.scatter, indexing.masked_fill, indexing.nonzero,
    torch_math.reciprocal, torch_math.clamp_min, torch_math.clamp_max, torch_math.lerp,
    torch_math.addcmul, torch_math.addcdiv, torch_math.addmm, torch_math.bincount,
    order.sort, order.argsort, order.topk, order.median, order.unique,
):  # fmt: skip
    METHODS[function.__name__] = function
METHODS.update(assigning.METHODS)
METHODS.update(torch_names.METHODS)


def install() -> None:
    """Give Tensor and TensorTuple their operators."""
    for name, method in METHODS.items():
        setattr(Tensor, name, method)
    for name, getter in PROPERTIES.items():
        setattr(Tensor, name, property(getter))
    for name, method in TUPLE_METHODS.items():
        setattr(TensorTuple, name, method)
