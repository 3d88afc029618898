"""The one table of Tensor's operators and methods, and its installation.

`autograd.py` defines Tensor without arithmetic; here each name gets its function. Files that most
programs use little of are loaded when one of their METHODS is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..autograd import Tensor, TensorTuple
from ..system.public_names import TENSOR_METHODS
from . import arithmetic, compare, elementwise, reduce, tuples, unary
from .index import along_axis, indexing
from .index.inplace import IN_PLACE, OPERATORS
from .matmul import dot, matmul
from .shape import concat as joining, movement, pad as borders

if TYPE_CHECKING:
    from ..types import TensorLike

PACKAGE = __name__.partition(".")[0]
LATER = (
    "ops.cumulative", "compat.inplace_methods", "ops.index.sorting", "ops.network.softmax",
    "compat.torch_math", "compat.torch_names",
)  # fmt: skip


def swapped(function: Callable[..., Tensor]) -> Callable[[Tensor, TensorLike], Tensor]:
    """f(other, self) for the reflected operator."""

    def reflected(self: Tensor, other: TensorLike) -> Tensor:
        return function(other, self)

    return reflected


def values(x: Tensor) -> Tensor:
    """Not there, in one clear sentence: `x.max(1).values`."""
    raise AttributeError("a Tensor has no values: max, min, sort and median give them already.")


def indices(x: Tensor) -> Tensor:
    """Not there, in one clear sentence: `x.max(1).indices`."""
    raise AttributeError(
        "a Tensor has no indices: max, min, sort and median give values only; argmax(axis), "
        "argmin(axis) and argsort(axis) give the positions."
    )


METHODS: dict[str, Callable[..., Any]] = {
    **{f"__{name}__": function for name, function in OPERATORS.items()},
    **{f"__r{name}__": swapped(function) for name, function in OPERATORS.items()},
    **IN_PLACE,
    "__matmul__": matmul, "__rmatmul__": swapped(matmul), "matmul": matmul, "dot": dot,
    "__neg__": arithmetic.negate, "__pos__": arithmetic.positive, "__abs__": unary.abs,
    "__invert__": compare.invert, **compare.EQUALITY,
    "__lt__": compare.less, "__le__": compare.less_equal, "eq": compare.equal,
    "__gt__": compare.greater, "__ge__": compare.greater_equal, "ne": compare.not_equal,
    "__getitem__": indexing.getitem, "__setitem__": indexing.setitem,
    "__iter__": indexing.iterate, "__contains__": reduce.contains,
    "astype": elementwise.astype, "clip": compare.clip, "sum": reduce.summation,
    "unsqueeze": movement.expand_dims,
}  # fmt: skip

PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "T": movement.reverse_axes,
    "mT": movement.transpose,
    "values": values,
    "indices": indices,
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
    reduce.mean, reduce.var, reduce.std, reduce.max, reduce.min, reduce.amax, reduce.amin,
    reduce.prod, reduce.any, reduce.all, reduce.argmax, reduce.argmin, reduce.norm,
    movement.reshape, movement.flatten, movement.squeeze, movement.expand_dims,
    movement.broadcast_to, movement.transpose, movement.swapaxes, movement.permute, movement.flip,
    movement.diagonal, movement.tril, movement.triu, movement.clone, movement.to,
    borders.pad, borders.crop, joining.split, joining.array_split, joining.chunk, joining.tile,
    joining.repeat, joining.roll,
    indexing.take, indexing.masked_fill, indexing.nonzero,
    along_axis.take_along_axis, along_axis.gather, along_axis.scatter_add, along_axis.index_add,
    along_axis.scatter,
):  # fmt: skip
    METHODS[function.__name__] = function


def methods_of(file: str) -> dict[str, Callable[..., object]]:
    """The METHODS of a file that is loaded later."""
    found: dict[str, Callable[..., object]] = import_module(f"{PACKAGE}.{file}").METHODS
    return found


class Later:
    """Stands for a method until it is first asked for: then those of its file are installed."""

    def __init__(self, file: str, name: str):
        self.file, self.name = file, name

    def __get__(self, instance: object, owner: type) -> object:
        methods = methods_of(self.file)
        for name, method in methods.items():
            if isinstance(vars(Tensor)[name], Later):  # not the user's own
                setattr(Tensor, name, method)
        return methods[self.name].__get__(instance, owner)


def install() -> None:
    """Give Tensor and TensorTuple their operators."""
    for name, method in METHODS.items():
        setattr(Tensor, name, method)
    for file, names in TENSOR_METHODS.items():
        for name in names.split():
            setattr(Tensor, name, Later(file, name))
    for name, getter in PROPERTIES.items():
        setattr(Tensor, name, property(getter))
    for name, method in TUPLE_METHODS.items():
        setattr(TensorTuple, name, method)
