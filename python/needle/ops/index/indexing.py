"""Reading and writing parts of a tensor by NumPy's index expressions.

An index expression is split in two: its arrays become inputs of the operator (without a gradient),
the rest (ints, slices, `...`, `None`) is the operator's parameter, with ARRAY where an array goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, cast, overload

import numpy as np

from ...autograd import Tensor, TensorOp, is_grad_enabled, write_in_place
from ...autograd.rebind import become
from ...dtype import dtype_of
from ...ndarray import functions as F, versions as mutation
from ...ndarray.array import NDArray
from ...ndarray.index import gather as select
from ...ndarray.index.errors import FAR, NOT_WHOLE
from ...ndarray.layout import Shape
from ...tile.program import Program, Symbol, equal as is_equal, program, where as choose
from ..arithmetic import remainder
from ..common import (
    Alias,
    FlatOp,
    Scalar,
    check_tensor,
    constant,
    either,
    flat_or_along,
    no_out,
    one_of,
    reporting_as,
)
from ..compare import check_mask, clip, equal, where
from ..elementwise import astype

if TYPE_CHECKING:
    from ...types import Gradients, Index, IndexEntry, NumpyArray, TensorLike

__all__ = [
    "GetItem", "IntoZeros", "take", "SetItem", "WrittenLast", "AddAt", "masked_fill", "NonZero",
    "nonzero",
]  # fmt: skip


class _Array:
    """The place of an index array."""

    def __repr__(self) -> str:
        return "ARRAY"


ARRAY = _Array()
PLAIN_BOUNDS = frozenset({int, type(None)})  # types of a slice's start, stop and step
Entries = tuple["IndexEntry | _Array", ...]


def split_index(index: Index, x: Tensor) -> tuple[Entries, list[Tensor]]:
    """The template of an index expression, and its arrays as tensors."""
    entries = index if isinstance(index, tuple) else (index,)
    if all(map(_is_plain, entries)):
        return entries, []
    template: list[IndexEntry | _Array] = []
    arrays: list[Tensor] = []
    for entry in entries:
        if isinstance(entry, (Tensor, NDArray)):
            arrays.append(constant(entry, x))
            template.append(ARRAY)
        elif isinstance(entry, (list, tuple, range, np.ndarray)):
            arrays.append(constant(select.index_array(entry), x))
            template.append(ARRAY)
        elif isinstance(entry, slice):
            template.append(slice(*map(_bound, (entry.start, entry.stop, entry.step))))
        else:
            template.append(entry)
    return tuple(template), arrays


def _is_plain(entry: object) -> bool:
    """An int, `...`, None, or a slice of ints: most indices, which hold no tensors."""
    if type(entry) is slice:
        return PLAIN_BOUNDS.issuperset(map(type, (entry.start, entry.stop, entry.step)))
    return type(entry) is int or entry is None or entry is Ellipsis


def _bound(value: object) -> object:
    """A slice's start, stop or step: plain, so that operators hold no tensors."""
    return value.__index__() if isinstance(value, Tensor) else value


def _filled(template: Entries, arrays: Sequence[Tensor | NDArray]) -> Entries:
    if not arrays:
        return template
    remaining = iter(arrays)
    return tuple(next(remaining) if entry is ARRAY else entry for entry in template)


# Reading ------------------------------------------------------------------------------------------


class GetItem(TensorOp):
    """y = x[index];  the adjoint of x is zero but for adjoint[index] += g"""

    def __init__(self, index: Entries):
        self.index = index

    def compute(self, a: NDArray, *arrays: NDArray) -> NDArray:
        return select.getitem(a, _filled(self.index, arrays))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x, *arrays = node.inputs
        into_x = IntoZeros(self.index, x.shape)(out_grad, *arrays)
        return (into_x, *(None for _ in arrays))


class IntoZeros(TensorOp):
    """y = 0, y[index] += x: the adjoint of GetItem, and GetItem is its adjoint"""

    def __init__(self, index: Entries, shape: Shape):
        self.index = index
        self.shape = shape

    def compute(self, a: NDArray, *arrays: NDArray) -> NDArray:
        return select.into_zeros(self.shape, _filled(self.index, arrays), a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        _, *arrays = node.inputs
        return (GetItem(self.index)(out_grad, *arrays), *(None for _ in arrays))


def getitem(x: Tensor, index: Index) -> Tensor:
    """x[index] as in NumPy: a view of the data for ints, slices, `...` and None, else a copy."""
    template, arrays = split_index(index, x)
    return GetItem(template)(x, *arrays)


def iterate(x: Tensor) -> Iterator[Tensor]:
    """x[0], x[1], ... along the first axis."""
    if x.ndim == 0:
        raise TypeError("[iter] a 0-d tensor cannot be iterated over; use .item() for its value.")
    return (getitem(x, i) for i in range(x.shape[0]))


@reporting_as("take")
def take(
    x: Tensor, index: TensorLike | None = None, axis: int | None = None, *, dim: int | None = None,
    indices: TensorLike | None = None, mode: str = "raise", out: None = None,
) -> Tensor:  # fmt: skip
    """The elements (axis None: of the flattened tensor) or slices of x at the positions that index
    (or indices) has. mode: those outside "raise" an error, "wrap" around, or are the first and the
    last one ("clip": negative ones are the first)."""
    check_tensor("take", x)
    no_out("take", out)
    given = either("take", index=index, indices=indices)
    rows, at = flat_or_along("take", x, one_of("take", axis=axis, dim=dim))
    # A number becomes an array, too: what is taken is a copy.
    positions = np.asarray(given) if isinstance(given, int) else _positions(given)
    if mode != "raise":
        positions = _inside(positions, x, rows.shape[at], mode)
    return getitem(rows, (*[slice(None)] * at, positions))


def _inside(positions: TensorLike, x: Tensor, n: int, mode: str) -> Tensor:
    """Positions of an axis of size n, for those of NumPy's modes that know no others."""
    if mode not in ("wrap", "clip"):
        raise ValueError(f"[take] mode must be 'raise', 'wrap' or 'clip', got {mode!r:.60}.")
    found = constant(positions, x)
    if n == 0 or not dtype_of(found.dtype).is_integer:
        return found  # an error, if there are any
    found = astype(found, "int64")  # n may be no int8
    return clip(found, 0, n - 1) if mode == "clip" else remainder(found, n)


def ids_of(x: Tensor) -> Tensor:
    """Ids, which may have come as floats, as int64; what is no whole number becomes NOT_WHOLE."""
    ids = astype(x, "int64")
    return where(equal(ids, x), ids, NOT_WHOLE) if dtype_of(x.dtype).is_floating else ids


@cache
def from_zero(ignored: int | None = None) -> Program:
    """Ids as indices that do not count from the end of an axis: i - FAR for i < 0, which no axis
    has, and 0 for the ignored one. `wrong_id` knows the way back."""

    @program
    def from_zero(ids: Symbol) -> Symbol:
        found = choose(ids < 0, ids - FAR, ids)
        return found if ignored is None else choose(is_equal(ids, ignored), 0, found)

    return from_zero


class FromZero(FlatOp):
    """y = i, or i - FAR where i < 0: an index that does not count from the end"""

    def compute(self, ids: NDArray) -> NDArray:
        return F.run(from_zero(), ids)


def _positions(index: TensorLike) -> int | Tensor | NDArray | NumpyArray:
    """An index along one axis: numbers stay numbers, the rest are arrays."""
    return index if isinstance(index, (Tensor, NDArray, int)) else select.index_array(index)


# Writing ------------------------------------------------------------------------------------------


class SetItem(TensorOp):
    """y = x, y[index] = v;  x gets g but where v went, v gets g[index]"""

    def __init__(self, index: Entries):
        self.index = index

    def compute(self, a: NDArray, value: NDArray, *arrays: NDArray) -> NDArray:
        out = F.copy(a)
        select.setitem(out, _filled(self.index, arrays), value)
        return out

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        _, value, *arrays = node.inputs
        into_x = SetItem(self.index)(out_grad, constant(0, out_grad), *arrays)
        into_value = None
        if value.requires_grad:
            into_value = GetItem(self.index)(out_grad, *arrays)
            if arrays:  # where a position was written twice, the first value left no trace
                stays = WrittenLast(self.index, out_grad.shape)(*arrays)
                into_value = where(stays, into_value, 0)
            missing = value.ndim - into_value.ndim  # leading axes of size 1
            if missing > 0:
                into_value = into_value.reshape((1,) * missing + into_value.shape)
        return (into_x, into_value, *(None for _ in arrays))


class WrittenLast(TensorOp):
    """True where an element of y[index] = v stays, False where a later one overwrites it"""

    differentiable = False

    def __init__(self, index: Entries, shape: Shape):
        self.index = index
        self.shape = shape

    def compute(self, *arrays: NDArray) -> NDArray:
        return select.written_last(self.shape, _filled(self.index, arrays), arrays[0])


def setitem(x: Tensor, index: Index, value: TensorLike) -> None:
    """x[index] = value.

    Written in place when no gradient flows through it: x is a leaf (or nothing is recorded) and
    value needs none. Else x becomes a new value, of which both old x and value get gradients.
    """
    template, arrays = split_index(index, x)
    if x.dtype == "bool" and isinstance(value, int):
        value = bool(value)  # mask[i] = 1
    has_history = x.requires_grad and x.op is not None
    if has_history or not (type(value) is float and dtype_of(x.dtype).is_floating):
        value = constant(value, x, "setitem")
        if is_grad_enabled() and (value.requires_grad or has_history):
            _refuse_view(x)
            return become(x, SetItem(template), value, *arrays)
        value = value.realize_cached_data()
    filled = _filled(template, [i.realize_cached_data() for i in arrays])
    written = cast("NDArray | Scalar", value)
    write_in_place("setitem", x, lambda data: select.setitem(data, filled, written))


def _refuse_view(x: Tensor) -> None:
    """A recorded assignment makes a new value: it would not reach what x is a view of, if anybody
    looks at that."""
    x.realize_cached_data()
    if isinstance(x.op, Alias) or not mutation.is_view(x):
        return
    if select.has_overlap(x.cached_data) or mutation.is_seen_elsewhere(x):
        raise ValueError(
            f"[setitem] expected a tensor with its own memory, got a view {x.shape} of another, "
            "which a recorded assignment would not change; assign to that one (y[1, 0] = v, not "
            "y[1][0] = v), or to a copy (x = x.clone())."
        )


class AddAt(TensorOp):
    """y = x, y[index] += v, where repeated positions add up"""

    def __init__(self, index: Entries):
        self.index = index

    def compute(self, a: NDArray, value: NDArray, *arrays: NDArray) -> NDArray:
        out = F.copy(a)
        select.add_at(out, _filled(self.index, arrays), value)
        return out

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        _, _, *arrays = node.inputs
        into_value = GetItem(self.index)(out_grad, *arrays)
        return (out_grad, into_value, *(None for _ in arrays))


# Masks --------------------------------------------------------------------------------------------


@reporting_as("masked_fill")
def masked_fill(x: Tensor, mask: TensorLike, value: Scalar | Tensor) -> Tensor:
    """value where the mask is true, else x."""
    return where(as_mask("masked_fill", mask, x), value, x)


def as_mask(op: str, mask: TensorLike, x: Tensor) -> Tensor:
    """A mask for x, which is made of bools: numbers are mostly something else, such as logits."""
    check_mask(op, mask)
    found = constant(mask, check_tensor(op, x), op)
    if found.dtype != "bool":
        raise TypeError(
            f"[{op}] expected a mask of bools, got {found.dtype}; compare it: mask > 0."
        )
    return found


class NonZero(TensorOp):
    """The coordinates of the elements that are not zero, in C order: (count, ndim)"""

    differentiable = False

    def compute(self, a: NDArray) -> NDArray:
        return F.nonzero(a)


@overload
def nonzero(x: Tensor, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@overload
def nonzero(x: Tensor, as_tuple: Literal[False] = False) -> Tensor: ...
def nonzero(x: Tensor, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """The coordinates of the elements that are not zero: (count, ndim), or one tensor per axis."""
    found = NonZero()(check_tensor("nonzero", x))
    if not as_tuple:
        return found
    return tuple(getitem(found, (slice(None), i)) for i in range(x.ndim))
