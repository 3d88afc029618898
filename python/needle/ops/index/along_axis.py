"""Reading and writing at positions along one axis, which another tensor has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd import Tensor, TensorOp
from ...dtype import dtype_of
from ...ndarray import functions as F, layout
from ...ndarray.index import gather as select
from ...ndarray.index.errors import rewrite_index_error, wrong_id
from ...ndarray.index.parse import out_of_bounds
from ...ndarray.layout import Shape
from ..common import along, constant, either, flat_or_along, reporting_as
from ..elementwise import astype
from .indexing import ARRAY, AddAt, FromZero, SetItem, getitem, split_index

if TYPE_CHECKING:
    from ...types import Gradients, NDArray, TensorLike

__all__ = [
    "index_add", "Gather", "AlongIntoZeros", "gather", "take_along_axis", "ScatterAdd",
    "scatter_add", "scatter",
]  # fmt: skip


# Positions ----------------------------------------------------------------------------------------


def places(op: str, index: TensorLike, x: Tensor) -> Tensor:
    """Positions along an axis of x that do not count from its end, as PyTorch's."""
    return FromZero()(astype(_whole(op, index, x), "int64"))


def rewrite_position_error(op: str, x: Tensor, axis: int) -> rewrite_index_error:
    """Within this context, one of `places` that the axis does not have is reported as it came."""
    size = x.shape[axis]
    return rewrite_index_error(
        lambda _, outside: str(out_of_bounds(op, wrong_id(outside), size, axis, 0))
    )


def vector_of_places(op: str, index: TensorLike, x: Tensor) -> Tensor:
    """`places` of one axis; a number is an axis of one."""
    found = places(op, index, x)
    if found.ndim > 1:
        raise ValueError(f"[{op}] expected a vector of positions, got shape {found.shape}.")
    return found.reshape((1,)) if found.ndim == 0 else found


def _whole(op: str, index: TensorLike, x: Tensor) -> Tensor:
    """An index along an axis as a tensor of integers."""
    if isinstance(index, (int, np.integer, list, tuple, range)):
        index = select.index_array(index)
    found = constant(index, x)
    if not dtype_of(found.dtype).is_integer:
        raise TypeError(f"[{op}] expected integer indices, got {found.dtype}.")
    return found


def _row(x: Tensor) -> Tensor:
    """The element of a 0-d tensor as a vector."""
    return x.reshape((1,)) if x.ndim == 0 else x


# Reading ------------------------------------------------------------------------------------------


class Gather(TensorOp):
    """y[i, j, k] = x[i, index[i, j, k], k]  (axis 1)"""

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, a: NDArray, index: NDArray) -> NDArray:
        return select.take_along(a, index, self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        x, index = node.inputs
        return AlongIntoZeros(self.axis, x.shape)(out_grad, index), None


class AlongIntoZeros(TensorOp):
    """y = 0, y[i, index[i, j, k], k] += x[i, j, k]  (axis 1): the adjoint of Gather"""

    def __init__(self, axis: int, shape: Shape):
        self.axis = axis
        self.shape = shape

    def compute(self, a: NDArray, index: NDArray) -> NDArray:
        return select.along_into_zeros(self.shape, index, self.axis, a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return Gather(self.axis)(out_grad, node.inputs[1]), None


def gather(x: Tensor, dim: int, index: TensorLike) -> Tensor:
    """out[i, j, k] = x[i, index[i, j, k], k] for dim 1; index may be smaller than x elsewhere."""
    row, dim = along("gather", x, dim)
    index = places("gather", index, x)
    with rewrite_position_error("gather", row, dim):
        if x.ndim == 0:
            return Gather(0)(row, _row(index)).reshape(index.shape)
        return Gather(dim)(x, index)


def take_along_axis(
    x: Tensor,
    index: TensorLike | None = None,
    axis: int | None = -1,
    *,
    indices: TensorLike | None = None,
) -> Tensor:
    """`gather` with NumPy's rule: x and index (or indices) broadcast on all axes but this one. Axis
    None: of the flattened tensor."""
    x, axis = flat_or_along("take_along_axis", x, axis)
    index = _whole("take_along_axis", either("take_along_axis", index=index, indices=indices), x)
    if index.ndim != x.ndim:
        raise ValueError(
            f"[take_along_axis] expected an index with {x.ndim} axes, got shape {index.shape}."
        )
    others = [tuple(1 if i == axis else n for i, n in enumerate(a.shape)) for a in (x, index)]
    common = layout.broadcast_shapes("take_along_axis", *others)
    x, index = (
        a.broadcast_to((*common[:axis], a.shape[axis], *common[axis + 1 :])) for a in (x, index)
    )
    return Gather(axis)(x, index)


# Writing ------------------------------------------------------------------------------------------


@reporting_as("index_add")
def index_add(x: Tensor, dim: int, index: TensorLike, src: TensorLike) -> Tensor:
    """x with slice i of src added to slice index[i], along dim; repeated positions add up."""
    row, dim = along("index_add", x, dim)
    value = _addend("index_add", src, x)
    if x.ndim == 0:
        return index_add(row, 0, index, _row(value)).reshape(())
    at = vector_of_places("index_add", index, x)
    expected = (*x.shape[:dim], at.shape[0], *x.shape[dim + 1 :])
    if value.shape != expected:
        raise ValueError(
            f"[index_add] expected src of shape {expected}, for {at.shape[0]} positions on axis "
            f"{dim} of {x.shape}, got {value.shape}; broadcast it first (src.broadcast_to(...))."
        )
    with rewrite_position_error("index_add", x, dim):
        return AddAt((*[slice(None)] * dim, ARRAY))(x, value, at)


def _addend(op: str, src: TensorLike, x: Tensor) -> Tensor:
    value = constant(src, x, op)
    if dtype_of(value.dtype).is_floating and not dtype_of(x.dtype).is_floating:
        raise TypeError(f"[{op}] cannot add {value.dtype} to {x.dtype}; cast one of them.")
    return value


class ScatterAdd(TensorOp):
    """y = x, y[i, index[i, j, k], k] += v[i, j, k]  (axis 1)"""

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, a: NDArray, index: NDArray, value: NDArray) -> NDArray:
        out = F.copy(a)
        select.add_along(out, index, self.axis, value)
        return out

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        index = node.inputs[1]
        return out_grad, None, Gather(self.axis)(out_grad, index)


def scatter_add(x: Tensor, dim: int, index: TensorLike, src: TensorLike) -> Tensor:
    """x with src[i, j, k] added at [i, index[i, j, k], k] for dim 1; repeated positions add up."""
    row, dim = along("scatter_add", x, dim)
    value = _addend("scatter_add", src, x)
    if x.ndim == 0:
        index = _row(_whole("scatter_add", index, x))
        return scatter_add(row, 0, index, _row(value)).reshape(())
    index = places("scatter_add", index, x)
    value = _source("scatter_add", value, index)
    with rewrite_position_error("scatter_add", x, dim):
        return ScatterAdd(dim)(x, index, value)


def _source(op: str, value: Tensor, index: Tensor) -> Tensor:
    """What goes to the places of an index: a number, or the first elements of a tensor."""
    if not value.ndim or value.shape == index.shape:
        return value
    if value.ndim != index.ndim or any(map(int.__lt__, value.shape, index.shape)):
        raise ValueError(
            f"[{op}] expected src to be at least as large as the index, got shapes {value.shape} "
            f"and {index.shape}."
        )
    return getitem(value, tuple(slice(n) for n in index.shape))


@reporting_as("scatter")
def scatter(
    x: Tensor,
    dim: int,
    index: TensorLike,
    src: TensorLike | None = None,
    *,
    value: TensorLike | None = None,
) -> Tensor:
    """x with src[i, j, k], or a number, at [i, index[i, j, k], k] for dim 1.

    Of several for one position, the last one stays."""
    row, axis = along("scatter", x, dim)
    if x.ndim == 0:
        index = _row(_whole("scatter", index, x))
        return scatter(row, 0, index, src, value=value).reshape(())
    index = places("scatter", index, x)
    if (src is None) == (value is None) or index.ndim != x.ndim:
        raise ValueError(
            f"[scatter] expected an index with {x.ndim} axes and one of src and value, got shape "
            f"{index.shape}, {type(src).__name__} and {type(value).__name__}."
        )
    if any(n > m for i, (n, m) in enumerate(zip(index.shape, x.shape, strict=True)) if i != axis):
        raise ValueError(
            f"[scatter] expected an index no larger than {x.shape} besides axis {axis}, got shape "
            f"{index.shape}."
        )
    written = _source("scatter", constant(value if src is None else src, x, "scatter"), index)
    at = [
        index if i == axis else np.arange(n).reshape((-1,) + (1,) * (x.ndim - 1 - i))
        for i, n in enumerate(index.shape)
    ]
    template, arrays = split_index(tuple(at), x)
    with rewrite_position_error("scatter", x, axis):
        return SetItem(template)(x, written, *arrays)
