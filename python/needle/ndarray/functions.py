"""The array interface: functions with NumPy's meaning that every operator's `compute` calls.

They broadcast, promote, give views wherever a view will do, check what the user gave, and call one
kernel of the device. Because operators use nothing else, arrays on a device that records or
computes nothing turn the same `compute` into tracing or shape inference.

The most common case, floating arrays on cpu() that need neither a cast nor an error, is one call of
the native core: `_native.new_...` returns the result, or None if it is not that case.

With NEEDLE_BACKEND=np the arrays are NumPy's own: `array_function` wraps them around the reference
kernels without a copy.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from .. import _native, config
from ..backend import BackendDevice, cpu_numpy
from ..backend.null import is_null, null_of
from ..backend.protocol import KINDS, REDUCE, WIDENED, takes
from ..dtype import (
    DType,
    bool_,
    dtype_of,
    float32,
    float64,
    floating,
    int8,
    int64,
    promote,
    promote_scalar,
    summed,
)
from ..tracing import is_tracing
from . import layout
from .array import (
    NDArray,
    Scalar,
    as_scalar,
    compact_view,
    empty,
    empty_in_order,
    empty_like,
    from_numpy,
    full as _full,
    make_view,
)
from .index.errors import checked_by
from .interop import numpy_mode
from .interop.numpy_mode import array_function as array_function
from .kernels.programs import run as run, run_all as run_all
from .layout import Shape
from .movement import (
    broadcast_to as broadcast_to,
    concatenate as concatenate,
    diagonal as diagonal,
    exchange as exchange,
    flip as flip,
    pad as pad,
    permute as permute,
    reshape as reshape,
    same_device as same_device,
    squeeze as squeeze,
)

if TYPE_CHECKING:
    from ..types import Axes, DTypeLike, NumpyArray

# Elementwise ------------------------------------------------------------------------------------

COMPARISONS = frozenset("equal not_equal less less_equal greater greater_equal".split())


@array_function
def unary(name: str, a: NDArray) -> NDArray:
    """name(a), element by element; a name of protocol.UNARY."""
    if (result := _native.new_unary(name, a)) is not None:
        return result
    dtype = a.dtype
    kind = KINDS[name]
    if kind == "floating":
        if dtype.kind != "f":
            a = cast(a, floating(dtype))
            dtype = a.dtype
    elif not takes(name, dtype):
        _refuse(name, "integers or bools" if dtype.is_floating else "numbers", dtype)
    out = empty_like(a.shape, bool_ if kind == "predicate" else dtype, a.device, a)
    a.device.mod.unary(name, out, a)
    return out


@array_function
def binary(name: str, a: NDArray | Scalar, b: NDArray | Scalar) -> NDArray:
    """name(a, b) with broadcasting; a name of protocol.BINARY; one of a, b may be a scalar."""
    if (result := _native.new_binary(name, a, b)) is not None:
        return result
    if isinstance(a, NDArray) and isinstance(b, NDArray):
        if a.device is not b.device:
            same_device(name, a, b)
        dtype = a.dtype if a.dtype is b.dtype else promote(a.dtype, b.dtype)
        shape = a.shape if a.shape == b.shape else layout.broadcast_shapes(name, a.shape, b.shape)
        device = a.device
    elif isinstance(a, NDArray):
        dtype, b = _beside_scalar(name, a.dtype, as_scalar(b, name))
        shape, device = a.shape, a.device
    elif isinstance(b, NDArray):
        dtype, a = _beside_scalar(name, b.dtype, as_scalar(a, name))
        shape, device = b.shape, b.device
    else:
        raise TypeError(f"[{name}] expected at least one array, got {a!r} and {b!r}.")
    if dtype.kind != "f":
        dtype = _integer_rule(name, dtype)
        b = _as_exponent(b) if name == "power" else b
    elif not takes(name, dtype):
        _refuse(name, "integers or bools", dtype)
    if isinstance(a, NDArray) and a.dtype is not dtype:
        a = cast(a, dtype)
    if isinstance(b, NDArray) and b.dtype is not dtype:
        b = cast(b, dtype)
    out = empty_like(shape, bool_ if KINDS[name] == "predicate" else dtype, device, a, b)
    device.mod.binary(name, out, a, b)
    return out


def _integer_rule(name: str, dtype: DType) -> DType:
    """NumPy's exceptions for integers and bools: the type to compute in, or an error."""
    if KINDS[name] == "floating":
        return float64 if name == "divide" else floating(dtype)
    if not takes(name, dtype):
        if name == "subtract":
            _refuse(name, "numbers; use logical_xor for bools", dtype)
        dtype = int8
    return dtype


def _as_exponent(b: NDArray | Scalar) -> NDArray | Scalar:
    """b, or an error if it is negative somewhere."""
    if isinstance(b, NDArray) and (b.size == 0 or b.dtype.kind != "i"):
        return b
    if isinstance(b, NDArray) and is_tracing():
        lowest = cast(reduce("min", b), int64)
        zero = _full((), 0, int64, b.device)
        # Of one element, the index -1 is in range: indices count from the end.
        index = where(binary("less", lowest, 0), binary("subtract", lowest, 1), zero)
        return checked_by(index, b, lambda _, outside: _negative_power(outside.value + 1))
    found = reduce("min", b).item() if isinstance(b, NDArray) else b
    if found < 0:
        raise _negative_power(found)
    return b


def _negative_power(exponent: object) -> ValueError:
    return ValueError(
        f"[power] integers have no negative integer powers, got exponent {exponent}; cast the base "
        "to a floating dtype."
    )


def _beside_scalar(name: str, dtype: DType, scalar: Scalar) -> tuple[DType, Scalar]:
    """The type of array-with-scalar, and the scalar in it. Comparisons widen for a scalar that does
    not fit. One beyond int64 is compared as infinity, since as a float64 it would equal the largest
    int64."""
    result = promote_scalar(dtype, type(scalar))
    if name in COMPARISONS and not fits(result, scalar):
        if fits(int64, scalar):
            return int64, scalar
        return float64, math.inf if scalar > 0 else -math.inf
    if KINDS.get(name) != "floating":  # computed in a floating type, which every scalar fits
        check_fits(name, result, scalar)
    return result, scalar


def fits(dtype: DType, scalar: Scalar) -> bool:
    """Is an integer scalar a value of an integer dtype? (True for all others.)"""
    if not dtype.is_integer or not isinstance(scalar, int):
        return True
    least, most = limits_of(dtype)
    return least <= scalar <= most


@cache
def limits_of(dtype: DType) -> tuple[int, int]:
    """The least and the largest value of an integer dtype."""
    limits = np.iinfo(dtype.storage)
    return int(limits.min), int(limits.max)


def check_fits(name: str, dtype: DType, scalar: Scalar) -> None:
    """An integer scalar must be a value of an integer dtype."""
    if not fits(dtype, scalar):
        least, most = limits_of(dtype)
        raise ValueError(
            f"[{name}] {scalar} does not fit into {dtype} ({least} to {most}); "
            "cast the array to a wider dtype."
        )


def _refuse(name: str, expected: str, dtype: DType) -> NoReturn:
    raise TypeError(f"[{name}] expected {expected}, got {dtype}.")


@array_function
def where(cond: NDArray, a: NDArray, b: NDArray) -> NDArray:
    """a where cond else b, with broadcasting."""
    if (result := _native.new_where(cond, a, b)) is not None:
        return result
    device = same_device("where", cond, a, b)
    dtype = promote(a.dtype, b.dtype)
    shape = layout.broadcast_shapes("where", cond.shape, a.shape, b.shape)
    out = empty_like(shape, dtype, device, a, b, cond)
    device.mod.where(out, cast(cond, bool_), cast(a, dtype), cast(b, dtype))
    return out


@array_function
def triangle(a: NDArray, k: int, upper: bool) -> NDArray:
    """a with zeros below (upper) or above the k-th diagonal of the last two axes."""
    rows, columns = a.shape[-2:]
    # Row i and column j lie on diagonal j - i.
    row = from_numpy(np.arange(rows).reshape(-1, 1) + k, int64, a.device)
    column = from_numpy(np.arange(columns), int64, a.device)
    kept = binary("less_equal", row, column) if upper else binary("less_equal", column, row)
    return where(kept, a, _full((), 0, a.dtype, a.device))


@array_function
def cast(a: NDArray, dtype: DTypeLike) -> NDArray:
    """a as another dtype; a itself when it has it."""
    dtype = dtype_of(dtype)
    if a.dtype is dtype:
        return a
    out = empty_like(a.shape, dtype, a.device, a)
    a.device.mod.copy(out, a)
    return out


@array_function
def copy(a: NDArray) -> NDArray:
    """A compact copy."""
    return a.copy()


@array_function
def assign(out: NDArray, value: NDArray | Scalar) -> None:
    """out[...] = value in place: value broadcasts and is cast within its kind."""
    if not isinstance(value, NDArray):
        _, scalar = _beside_scalar("assign", out.dtype, as_scalar(value, "assign"))
        out.device.mod.fill(out, scalar)
        return
    same_device("assign", out, value)
    if "biuf".index(value.dtype.kind) > "biuf".index(out.dtype.kind) and (
        value.dtype.is_floating or out.dtype is bool_
    ):
        raise TypeError(
            f"[assign] cannot put {value.dtype} into {out.dtype} without losing its kind; cast it."
        )
    layout.broadcast_strides(value.shape, value.strides, out.shape, "assign")
    if value._handle is out._handle:
        value = value.copy()  # x[1:] = x[:-1] must read all before it writes
    out.device.mod.copy(out, value)


@array_function
def update(name: str, a: NDArray, b: NDArray | Scalar) -> None:
    """a = name(a, b) in place: the result must fit into a's shape and kind."""
    if (
        a.dtype.kind != "f"
        or not takes(name, a.dtype)
        or (isinstance(b, NDArray) and b.dtype is not a.dtype)
    ):
        result = binary(name, a, b)
        if result.dtype.kind != a.dtype.kind and result.dtype.is_floating:
            raise TypeError(
                f"[{name}] the result is {result.dtype}, which does not fit into {a.dtype}; "
                "make a new tensor instead (x = x / y, not x /= y)."
            )
        layout.broadcast_strides(result.shape, result.strides, a.shape, name)
        return assign(a, result)
    if isinstance(b, NDArray):
        same_device(name, a, b)
        layout.broadcast_strides(b.shape, b.strides, a.shape, name)
        same_view = (b.shape, b.strides, b.offset) == (a.shape, a.strides, a.offset)
        if b._handle is a._handle and not same_view:
            b = b.copy()  # kernels read and write element by element
    a.device.mod.binary(name, a, a, b)


# Reductions -------------------------------------------------------------------------------------


@array_function
def reduce(
    name: str,
    a: NDArray,
    axes: Axes = None,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
) -> NDArray:
    """A reduction of protocol.REDUCE over axes (None: all); totals may have another dtype."""
    if dtype is None and (result := _native.new_reduce(name, a, axes, keepdims)) is not None:
        return result
    reduced = layout.normalize_axes(axes, a.ndim, name)
    kind = REDUCE[name]
    if kind == "total":
        dtype = summed(a.dtype) if dtype is None else dtype_of(dtype)
    elif kind == "truth":
        dtype = bool_
    else:
        dtype = a.dtype
        _not_empty(name, a.shape, reduced)
    shape = layout.reduced_shape(a.shape, reduced, True)
    if not reduced:
        return cast(a, dtype).copy()
    out = empty(shape, dtype, a.device)
    # Kept axes of size 1 look reduced to the kernel, which changes nothing.
    a.device.mod.reduce(name, out, a)
    if keepdims:
        return out
    shape = layout.reduced_shape(a.shape, reduced, False)
    return compact_view(shape, dtype, a.device, out._handle)


def _not_empty(name: str, shape: Shape, axes: Shape) -> None:
    if any(shape[i] == 0 for i in axes) and 0 not in layout.reduced_shape(shape, axes, False):
        raise ValueError(f"[{name}] an empty axis has no {name}: shape {shape}, axes {axes}.")


@array_function
def arg_reduce(name: str, a: NDArray, axis: int | None = None, keepdims: bool = False) -> NDArray:
    """argmax or argmin along an axis (None: of the flattened array)."""
    if axis is None or layout.names_element(axis, a.ndim):
        flat = arg_reduce(name, reshape(a, (-1,) if a.size else (0,)), 0)
        return reshape(flat, (1,) * a.ndim) if keepdims else flat
    axis = layout.normalize_axis(axis, a.ndim, name)
    _not_empty(name, a.shape, (axis,))
    out = empty(layout.reduced_shape(a.shape, (axis,), True), int64, a.device)
    a.device.mod.arg_reduce(name, out, a, axis)
    return out if keepdims else squeeze(out, (axis,))


@array_function
def scan(name: str, a: NDArray, axis: int) -> NDArray:
    """cumsum or cumprod along an axis."""
    axis = layout.normalize_axis(axis, a.ndim, name)
    out = empty(a.shape, summed(a.dtype), a.device)
    a.device.mod.scan(name, out, a, axis)
    return out


@array_function
def sparse_matmul(
    a: NDArray, indptr: NDArray, indices: NDArray, values: NDArray, axis: int
) -> NDArray:
    """m a along an axis, for a sparse matrix m whose row j has the entries from indptr[j] to
    indptr[j + 1] - 1: values[e] in column indices[e] (CSR)."""
    shape = (*a.shape[:axis], indptr.shape[0] - 1, *a.shape[axis + 1 :])
    out = empty_in_order(shape, a.dtype, a)
    a.device.mod.mix(out, a, indptr, indices, values, axis)
    return out


# Linear algebra ---------------------------------------------------------------------------------


@array_function
def matmul(a: NDArray, b: NDArray) -> NDArray:
    """(..., M, K) @ (..., K, N), the leading axes broadcast."""
    if a.ndim < 2 or b.ndim < 2:
        raise ValueError(
            f"[matmul] expected matrices (at least 2 axes), got shapes {a.shape} and {b.shape}."
        )
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"[matmul] inner dimensions differ: {a.shape} @ {b.shape}; expected a.shape[-1] == "
            f"b.shape[-2], got {a.shape[-1]} and {b.shape[-2]}."
        )
    if a.device is not b.device:
        same_device("matmul", a, b)
    if a.dtype is not b.dtype and not (a.dtype is float32 and b.dtype in WIDENED):
        dtype = promote(a.dtype, b.dtype)
        a, b = cast(a, dtype), cast(b, dtype)
    shape = (*a.shape[:-1], b.shape[-1])
    if a.shape[:-2] != b.shape[:-2]:
        shape = (*layout.broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2]), *shape[-2:])
    out = empty(shape, a.dtype, a.device)
    a.device.mod.matmul(out, a, b)
    return out


# Order ------------------------------------------------------------------------------------------


@array_function
def argsort(
    a: NDArray, axis: int = -1, descending: bool = False, count: int | None = None
) -> NDArray:
    """The stable order along an axis, or the first `count` of it; NaN counts as the largest."""
    axis = layout.normalize_axis(axis, a.ndim, "argsort")
    count = a.shape[axis] if count is None else count
    out = empty((*a.shape[:axis], count, *a.shape[axis + 1 :]), int64, a.device)
    a.device.mod.argsort(out, a, axis, bool(descending))
    return out


@array_function
def searchsorted(sorted_: NDArray, values: NDArray, right: bool = False) -> NDArray:
    """Where each value would go into a sorted 1-D array."""
    if sorted_.ndim != 1:
        raise ValueError(
            f"[searchsorted] expected a sorted 1-D array, got shape {sorted_.shape}; positions in "
            "rows are (rows.unsqueeze(-2) < values.unsqueeze(-1)).sum(-1)."
        )
    device = same_device("searchsorted", sorted_, values)
    dtype = promote(sorted_.dtype, values.dtype)
    out = empty(values.shape, int64, device)
    device.mod.searchsorted(out, cast(sorted_, dtype), cast(values, dtype), bool(right))
    return out


@array_function
def nonzero(a: NDArray) -> NDArray:
    """The coordinates of the true elements in C order: (count, ndim)."""
    axes = max(a.ndim, 1)  # a 0-d array is looked at as one with one element
    handle = a.device.mod.nonzero(a if a.ndim else reshape(a, (1,)))
    shape = (handle.size // axes, a.ndim)
    return compact_view(shape, int64, a.device, handle)


# Creation ---------------------------------------------------------------------------------------


def full(
    shape: Shape, value: Scalar, dtype: DTypeLike, device: BackendDevice
) -> NumpyArray | NDArray:
    """A new array of one value, of the kind that tensors hold (NDArray, or numpy.ndarray)."""
    if config.BACKEND == "np":
        return numpy_mode.unwrap(_full(shape, value, dtype_of(dtype), cpu_numpy()))
    return _full(shape, value, dtype_of(dtype), device)


@array_function
def full_like(
    a: NDArray, value: Scalar, dtype: DTypeLike | None = None, shape: Shape | None = None
) -> NDArray:
    """A new array of one value with a's shape, order in memory, dtype and device, where nothing is
    said."""
    dtype = dtype_of(dtype or a.dtype)
    if shape is not None and shape != a.shape:
        return _full(shape, value, dtype, a.device)
    out = empty_like(a.shape, dtype, a.device, a)
    a.device.mod.fill(out, value)
    return out


@array_function
def to_device(a: NDArray, device: BackendDevice) -> NDArray:
    """a on another device; without elements (shape inference), on the one that stands for it."""
    if is_null(a.device):
        device = null_of(device.name)
        return make_view(a.shape, a.strides, a.offset, a.dtype, device, a._handle)
    return a.to(device)
