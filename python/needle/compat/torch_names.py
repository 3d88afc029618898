"""PyTorch's names: other names of our operators, and the small operators that only it names.

Where a name means something else in the course or in NumPy (`split`, `repeat`, `max`), it keeps
that meaning; docs/coming-from-pytorch.md lists these.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..autograd import Tensor
from ..backend import device_named
from ..dtype import dtype_of
from ..ndarray import functions as F, layout
from ..ops import compare, reduce
from ..ops.arithmetic import add, divide, multiply, negate, power, subtract
from ..ops.common import (
    along,
    check_tensor,
    check_tensors,
    constant,
    either,
    named,
    no_out,
    reporting_as,
    shaped,
    whole_number,
)
from ..ops.elementwise import astype
from ..ops.index.along_axis import rewrite_position_error, vector_of_places
from ..ops.index.indexing import as_mask, getitem
from ..ops.matmul import matmul, outer
from ..ops.network.softmax import logsoftmax
from ..ops.shape.concat import Joined, concatenate, repeat, split
from ..ops.shape.movement import (
    OnDiagonal,
    broadcast_to,
    clone,
    diagonal as _diagonal,
    flatten,
    permute,
    reshape,
    swapaxes,
    to,
)

if TYPE_CHECKING:
    from ..types import DeviceLike, DTypeLike, Scalar, Sizes, TensorLike

__all__ = [
    "cat", "concat", "div", "mul", "neg", "pow", "sub", "ge", "gt", "le", "lt", "clamp", "eq",
    "ne", "bmm", "mm", "mv", "log_softmax", "repeat_interleave", "swapdims",
    "expand", "movedim", "moveaxis", "t", "unflatten", "narrow", "select", "unbind",
    "index_select", "masked_select", "diag", "trace", "hstack", "vstack", "isclose",
]  # fmt: skip

cat = concat = concatenate
sub, mul, div, pow, neg = subtract, multiply, divide, power, negate
gt, ge, lt, le = compare.greater, compare.greater_equal, compare.less, compare.less_equal
eq, ne, clamp = compare.equal, compare.not_equal, compare.clip
mm = bmm = mv = matmul
log_softmax = logsoftmax
repeat_interleave = repeat
swapdims = swapaxes


# Shapes -------------------------------------------------------------------------------------------


@reporting_as("expand")
def expand(x: Tensor, *sizes: Sizes) -> Tensor:
    """Stretched to a shape; -1 keeps a size."""
    wanted = layout.normalize_shape(sizes[0] if len(sizes) == 1 else sizes, "expand")
    new = len(wanted) - check_tensor("expand", x).ndim
    if new < 0 or -1 in wanted[:new]:
        raise ValueError(
            f"[expand] expected a size for each axis of {x.shape}, and for new ones before them a "
            f"size that is not -1, got {wanted}."
        )
    kept = [x.shape[i - new] if n == -1 else n for i, n in enumerate(wanted)]
    return broadcast_to(x, tuple(kept))


def movedim(x: Tensor, source: Sizes, destination: Sizes) -> Tensor:
    """Axes moved to other positions; the rest keep their order."""
    ndim = max(check_tensor("movedim", x).ndim, 1)  # axis 0 of a 0-d tensor stays
    pair = [s if isinstance(s, Sequence) else (s,) for s in (source, destination)]
    start, end = ([layout.normalize_axis(i, ndim, "movedim") for i in axes] for axes in pair)
    if len(start) != len(end) or len({*start}) < len(start) or len({*end}) < len(end):
        raise ValueError(
            f"[movedim] expected as many different axes as destinations, got {source} and "
            f"{destination}."
        )
    order = [i for i in range(ndim) if i not in start]
    for where, axis in sorted(zip(end, start, strict=True)):
        order.insert(where, axis)
    return permute(x, tuple(order) if x.ndim else ())


moveaxis = movedim


def t(x: Tensor) -> Tensor:
    """The transpose of a matrix; vectors stay."""
    if check_tensor("t", x).ndim > 2:
        raise ValueError(f"[t] expected at most 2 axes, got {x.shape}; transpose takes two axes.")
    return permute(x, tuple(reversed(range(x.ndim))))


def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One axis as several; one of the sizes may be -1."""
    axis = layout.normalize_axis(dim, check_tensor("unflatten", x).ndim, "unflatten")
    inner, n = layout.normalize_shape(sizes, "unflatten"), x.shape[axis]
    try:
        filled = layout.infer_reshape((n,), inner)
    except ValueError:
        raise ValueError(f"[unflatten] expected sizes of {n} elements, got {inner}.") from None
    return reshape(x, (*x.shape[:axis], *filled, *x.shape[axis + 1 :]))


# Parts --------------------------------------------------------------------------------------------


def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` positions of an axis, from `start` on."""
    axis = layout.normalize_axis(dim, check_tensor("narrow", x).ndim, "narrow")
    n, first = x.shape[axis], whole_number("narrow", "start", start)
    first = first + n if first < 0 else first
    if not (0 <= first <= n and 0 <= whole_number("narrow", "length", length) <= n - first):
        raise ValueError(
            f"[narrow] expected positions of axis {axis} of {x.shape}, got {length} from {start}."
        )
    return getitem(x, (*[slice(None)] * axis, slice(first, first + length)))


def select(x: Tensor, dim: int, index: int) -> Tensor:
    """One position of an axis, which goes away."""
    axis = layout.normalize_axis(dim, check_tensor("select", x).ndim, "select")
    return getitem(x, (*[slice(None)] * axis, whole_number("select", "index", index)))


def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """One tensor for each position of an axis, which goes away."""
    axis = layout.normalize_axis(dim, check_tensor("unbind", x).ndim, "unbind")
    return split(x, axis).tuple()


@reporting_as("index_select")
def index_select(x: Tensor, dim: int, index: TensorLike) -> Tensor:
    """The slices of an axis at the given positions."""
    rows, axis = along("index_select", x, dim)
    at = vector_of_places("index_select", index, x)
    with rewrite_position_error("index_select", rows, axis):
        return shaped(getitem(rows, (*[slice(None)] * axis, at)), x, axis)


@reporting_as("masked_select")
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements at which a mask is true, in one row; both broadcast."""
    chosen = as_mask("masked_select", mask, x)
    shape = layout.broadcast_shapes("masked_select", x.shape, chosen.shape)
    return getitem(broadcast_to(x, shape), broadcast_to(chosen, shape))


def diag(x: Tensor, diagonal: int | None = None, *, k: int | None = None) -> Tensor:
    """A matrix with this diagonal (or k), or a matrix's diagonal."""
    if check_tensor("diag", x).ndim not in (1, 2):
        raise ValueError(f"[diag] expected a vector or a matrix, got {x.shape}.")
    offset = whole_number("diag", "diagonal", either("diag", 0, diagonal=diagonal, k=k))
    if x.ndim == 2:
        return _diagonal(x, offset)
    n = x.size + abs(offset)
    return OnDiagonal((n, n), offset, 0, 1)(x)


def trace(
    x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, *,
    out: None = None,
) -> Tensor:  # fmt: skip
    """The sum of a matrix's diagonal, or of a diagonal of two axes, computed in a dtype."""
    no_out("trace", out)
    if check_tensor("trace", x).ndim < 2:
        raise ValueError(f"[trace] expected a matrix, got {x.shape}.")
    return reduce.summation(_diagonal(x, offset, axis1, axis2), -1, dtype=dtype)


# Joining ------------------------------------------------------------------------------------------


@reporting_as("hstack")
def hstack(tensors: Sequence[Tensor], **numpy: Unpack[Joined]) -> Tensor:
    """Side by side: along the second axis, or the only one; in a dtype, if one is given."""
    rows = [reshape(x, 1) if x.ndim == 0 else x for x in check_tensors("hstack", tensors)]
    return concatenate(rows, 0 if rows[0].ndim == 1 else 1, **numpy)


@reporting_as("vstack")
def vstack(tensors: Sequence[Tensor], **numpy: Unpack[Joined]) -> Tensor:
    """Below each other: along the first axis, vectors as rows; in a dtype, if one is given."""
    given = check_tensors("vstack", tensors)
    return concatenate([reshape(x, 1, x.size) if x.ndim < 2 else x for x in given], 0, **numpy)


# Comparison ---------------------------------------------------------------------------------------


def isclose(
    a: TensorLike, b: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """|a - b| <= atol + rtol |b|, or equal"""
    if not (rtol >= 0 and atol >= 0):
        raise ValueError(f"[isclose] expected tolerances >= 0, got rtol={rtol} and atol={atol}.")
    left = check_tensor("isclose", a)
    right = constant(b, left, "isclose")
    same = compare.equal(left, right)
    if equal_nan:
        same = same | (compare.isnan(left) & compare.isnan(right))
    if rtol == 0 and atol == 0:
        return same
    # As floats: differences of integers wrap around, and bools have none.
    left, right = (x if is_floating_point(x) else astype(x, "float64") for x in (left, right))
    near = compare.less_equal((left - right).abs(), right.abs() * rtol + atol)
    return near & compare.isfinite(right) | same


def allclose(
    a: Tensor, b: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Is every element of a close to b's?"""
    return builtins.bool(reduce.all(isclose(a, b, rtol, atol, equal_nan)).item())


def same(a: Tensor, b: Tensor) -> bool:
    """Are shapes and all elements equal? PyTorch's `equal`, which is NumPy's here."""
    return a.shape == b.shape and allclose(a, b, 0, 0)


# Methods ------------------------------------------------------------------------------------------


def view_as(x: Tensor, other: Tensor) -> Tensor:
    """The same elements in another tensor's shape."""
    return reshape(x, other.shape)


def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """Stretched to another tensor's shape."""
    return expand(x, other.shape)


def type_as(x: Tensor, other: Tensor) -> Tensor:
    """In another tensor's dtype."""
    return astype(x, other.dtype)


def type(x: Tensor, dtype: DTypeLike | None = None) -> str | Tensor:
    """In another dtype, which may be given as `needle.FloatTensor`; without one, its name."""
    if dtype is None:
        return f"needle.{check_tensor('type', x).dtype}"
    return astype(x, getattr(dtype, "dtype", dtype))


# New tensors of x's dtype and device, unless another is given.


def new_full(
    x: Tensor,
    size: Sizes | tuple[Sizes, ...],
    fill_value: Scalar,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """fill_value in a new tensor like x, of another size."""
    kind = dtype_of(x.dtype if dtype is None else dtype)
    place = x.device if device is None else device_named(device)
    shape = layout.check_sizes(layout.normalize_shape(size, "new_full"), "new_full")
    return Tensor.make_const(F.full(shape, fill_value, kind, place))


def new_zeros(
    x: Tensor, *size: Sizes, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """Zeros in a new tensor like x, of another size."""
    shape = size[0] if len(size) == 1 else size
    return new_full(x, shape, 0, dtype=dtype, device=device)


def new_ones(
    x: Tensor, *size: Sizes, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """Ones in a new tensor like x, of another size."""
    shape = size[0] if len(size) == 1 else size
    return new_full(x, shape, 1, dtype=dtype, device=device)


def new_tensor(
    x: Tensor, data: TensorLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """Data as a new tensor like x."""
    place = x.device if device is None else device_named(device)
    return Tensor(data, device=place, dtype=dtype or x.dtype, requires_grad=False)


def is_tensor(x: object) -> builtins.bool:
    """Is this a Tensor?"""
    return isinstance(x, Tensor)


def numel(x: Tensor) -> builtins.int:
    """The number of elements."""
    return math.prod(check_tensor("numel", x).shape)


def dim(x: Tensor) -> builtins.int:
    """The number of axes."""
    return x.ndim


def is_floating_point(x: Tensor) -> builtins.bool:
    """Are the elements floating-point numbers?"""
    return dtype_of(x.dtype).is_floating


def is_contiguous(x: Tensor) -> builtins.bool:
    """Do the elements lie in C order without gaps?"""
    data = x.realize_cached_data()
    return builtins.bool(
        data.flags.c_contiguous if isinstance(data, np.ndarray) else data.is_compact()
    )


def contiguous(x: Tensor, memory_format: object = None) -> Tensor:
    """x itself when its elements lie in C order, else a copy in which they do.

    memory_format changes nothing."""
    return x if is_contiguous(x) else clone(x)


def cpu(x: Tensor) -> Tensor:
    """x on the CPU: itself when it is there."""
    return x if x.device.name.startswith("cpu") else to(x, "cpu")


def cuda(x: Tensor) -> Tensor:
    """x on the GPU: an error, until there is one."""
    return to(x, "cuda")


def retain_grad(x: Tensor) -> None:
    """Nothing: results between leaves and losses keep their gradients anyway."""


def _casting(name: str, dtype: str) -> Callable[[Tensor], Tensor]:
    """The method of that name that casts to a dtype."""

    def cast(x: Tensor) -> Tensor:
        return astype(check_tensor("astype", x), dtype)

    return named(cast, name, f"The tensor as {dtype}; itself when it is that already.")


# Names of Tensor's methods. Those of builtin types come last: behind them, in a class that is only
# written for type checkers, these names would mean the methods.
METHODS: dict[str, Callable[..., Any]] = {
    **{f.__name__: f for f in (
        expand, movedim, t, unflatten, narrow, select, unbind, index_select, masked_select, diag,
        trace, isclose, allclose, view_as, expand_as, type_as, numel, dim, is_floating_point,
        is_contiguous, contiguous, cpu, cuda, retain_grad, new_full, new_zeros, new_ones,
        new_tensor,
    )},
    "view": reshape, "reshape_as": view_as, "ravel": flatten, "moveaxis": movedim,
    "swapdims": swapaxes, "nelement": numel, "ndimension": dim, "sub": sub, "mul": mul, "div": div,
    "pow": pow, "neg": neg, "add": add, "gt": gt, "ge": ge, "lt": lt, "le": le, "clamp": clamp,
    "mm": mm, "bmm": bmm, "mv": mv, "log_softmax": log_softmax,
    "repeat_interleave": repeat_interleave, "outer": outer, "logical_and": compare.logical_and,
    "logical_or": compare.logical_or, "new_empty": new_zeros, "equal": same,
    "type": type,
    **{name: _casting(name, dtype) for name, dtype in (
        ("half", "float16"), ("bfloat16", "bfloat16"), ("double", "float64"), ("long", "int64"),
        ("short", "int16"), ("char", "int8"), ("byte", "uint8"), ("float", "float32"),
        ("int", "int32"), ("bool", "bool"),
    )},
}  # fmt: skip
