"""Tuples of tensors as values of the graph: making them, and taking them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..autograd import Tensor, TensorOp, TensorTuple, TensorTupleOp
from ..ndarray import functions as F
from .arithmetic import add
from .common import Scalar, check_tensor, zeros_like

if TYPE_CHECKING:
    from ..ndarray.array import NDArray
    from ..types import Arrays

__all__ = [
    "MakeTensorTuple", "make_tuple", "TupleGetItem", "tuple_get_item", "FusedAddScalars",
    "fused_add_scalars",
]  # fmt: skip


class MakeTensorTuple(TensorTupleOp):
    """y = (x0, x1, ...)"""

    linear = True

    def compute(self, *arrays: NDArray) -> Arrays:
        return arrays

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> tuple[Tensor, ...]:
        return out_grad.tuple()


def make_tuple(*args: Tensor) -> TensorTuple:
    """The tensors as one value."""
    return MakeTensorTuple()(*(check_tensor("make_tuple", x) for x in args))


class TupleGetItem(TensorOp):
    """y = x[index]"""

    linear = True

    def __init__(self, index: int):
        self.index = index

    def __call__(self, a: TensorTuple, fold_const: bool = True) -> Tensor:
        """The element itself when make_tuple built the tuple (and folding is wanted)."""
        if fold_const and isinstance(a.op, MakeTensorTuple):
            return a.inputs[self.index]
        return super().__call__(a)

    def compute(self, arrays: Arrays) -> NDArray:
        return arrays[self.index]

    def gradient(self, out_grad: Tensor, node: Tensor) -> PartialTuple:
        whole: Any = node.inputs[0]
        return PartialTuple.of({self.index: out_grad}, whole)


def tuple_get_item(value: TensorTuple, index: int) -> Tensor:
    """The tensor at a position of the tuple."""
    if not isinstance(value, TensorTuple):
        raise TypeError(f"[tuple_get_item] expected a TensorTuple, got {type(value).__name__}.")
    size = len(value)
    if not -size <= index < size:
        raise IndexError(f"[tuple_get_item] index {index} is out of range for {size} tensors.")
    return TupleGetItem(index % size)(value)


class PartialTuple(TensorTuple):
    """The adjoint of a tuple of which only some elements were used: the others are zero.

    Adding two of them costs no arithmetic on zeros, so taking n elements costs n sums, not n².
    """

    parts: dict[int, Tensor]
    whole: TensorTuple  # the tuple that this is an adjoint of

    @classmethod
    def of(cls, parts: dict[int, Tensor], whole: TensorTuple) -> PartialTuple:
        """The adjoint of `whole` with these elements."""
        value = cls.make_const(None)
        value.parts, value.whole = parts, whole
        return value

    def complete(self) -> TensorTuple:
        """With zeros where nothing was given."""
        return MakeTensorTuple()(*elements(self))

    def _shape_data(self) -> Any:
        return self.whole._shape_data()

    def realize_cached_data(self) -> Any:
        return self.complete().realize_cached_data()


def _zeros(value: TensorTuple, index: int) -> Tensor:
    """Zeros like an element that take no memory: one number, broadcast."""
    if value.cached_data is None:
        return zeros_like(tuple_get_item(value, index))
    x = value.cached_data[index]
    return Tensor.make_const(F.broadcast_to(F.full_like(x, 0, shape=()), x.shape))


def add_tuples(a: TensorTuple, b: TensorTuple) -> TensorTuple:
    """a + b, element by element."""
    if not isinstance(b, TensorTuple) or len(a) != len(b):
        got = len(b) if isinstance(b, TensorTuple) else type(b).__name__
        raise TypeError(f"[add] expected a TensorTuple of {len(a)} tensors, got {got}.")
    if isinstance(a, PartialTuple) and isinstance(b, PartialTuple):
        parts = dict(a.parts)
        for i, part in b.parts.items():
            parts[i] = add(parts[i], part) if i in parts else part
        return PartialTuple.of(parts, a.whole)
    return make_tuple(*(x + y for x, y in zip(a.tuple(), b.tuple(), strict=True)))


def elements(value: TensorTuple, which: slice = slice(None)) -> tuple[Tensor, ...]:
    """The elements, or some of them, as a Python tuple of tensors."""
    if isinstance(value.op, MakeTensorTuple):
        return tuple(value.inputs[which])
    if value.op is None and value.cached_data is not None and not value.requires_grad:
        return tuple([value._face.make_const(data) for data in value.cached_data[which]])
    indices = range(len(value))[which]
    if isinstance(value, PartialTuple):
        parts = value.parts
        return tuple([parts[i] if i in parts else _zeros(value.whole, i) for i in indices])
    return tuple([TupleGetItem(i)(value) for i in indices])


def get_item(value: TensorTuple, index: int | slice) -> Tensor | tuple[Tensor, ...]:
    """value[index]: a tensor, or a Python tuple of tensors for a slice."""
    if isinstance(index, slice):
        return elements(value, index)
    if isinstance(value, PartialTuple):
        return elements(value)[index]
    return tuple_get_item(value, index)


class FusedAddScalars(TensorTupleOp):
    """y = (x + c0, x + c1)"""

    def __init__(self, c0: Scalar, c1: Scalar):
        self.c0 = c0
        self.c1 = c1

    def compute(self, a: NDArray) -> Arrays:
        return F.binary("add", a, self.c0), F.binary("add", a, self.c1)

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Tensor:
        return out_grad[0] + out_grad[1]


def fused_add_scalars(x: Tensor, c0: Scalar, c1: Scalar) -> TensorTuple:
    """(x + c0, x + c1) as one value."""
    return FusedAddScalars(c0, c1)(check_tensor("fused_add_scalars", x))
