"""Reading and writing at positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Tensor as EngineTensor, TensorOp, is_grad_enabled, write_in_place
from ...backend import cpu
from ...dtype import bool_, int64, uint8
from ...ndarray import functions as F
from ...ndarray.index import gather as select
from ...ops import compare as C
from ...ops.index import along_axis as L, indexing as I
from ...ops.reduce import shared
from ...tracing import active
from ..core import writing
from ..core.dtypes import dtype_in_engine as kind, result_in_engine
from ..core.tensor import wrap
from .common import axis_of, cast, check, fail, is_floating, number, operand, plain, takes_out


def _entry(entry: Any) -> Any:
    """An entry of an index as needle takes it: masks of bytes are masks, lists are arrays."""
    if isinstance(entry, EngineTensor):
        if kind(entry) is uint8:
            return cast(entry, bool_)
        if kind(entry).kind == "f":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return entry if entry.shape or kind(entry) is bool_ else int(entry)
    if isinstance(entry, bool):
        return wrap(F.full((), entry, bool_, cpu()))
    if isinstance(entry, slice):
        if entry.step is not None and int(entry.step) <= 0:
            raise ValueError("step must be greater than zero")
        return entry
    if isinstance(entry, (list, tuple, range)):
        return _list_index(entry)
    if isinstance(entry, float):
        raise TypeError("only integers, slices (`:`), ellipsis (`...`), None and long or byte "
                        "Variables are valid indices (got float)")  # fmt: skip
    return entry


def _list_index(entry: Any) -> Any:
    if any(isinstance(e, EngineTensor) for e in entry):
        return np.asarray([e.tolist() if isinstance(e, EngineTensor) else e for e in entry])
    array = np.asarray(entry)
    return array if array.size else array.astype(np.int64)


PLAIN = frozenset({int, type(None), type(Ellipsis)})


def index_of(index: Any) -> Any:
    """An index expression as needle takes it."""
    if type(index) in PLAIN:
        return index
    if isinstance(index, tuple):
        return tuple([e if type(e) in PLAIN else _entry(e) for e in index])
    if (
        isinstance(index, list)
        and index
        and any(
            isinstance(e, (slice, list, tuple, EngineTensor, type(None), type(Ellipsis)))
            and not (isinstance(e, EngineTensor) and e.ndim == 0)
            for e in index
        )
        and not all(isinstance(e, (list, tuple)) for e in index)
    ):
        return tuple([_entry(e) for e in index])
    return _entry(index)


def getitem(x: Any, index: Any) -> Any:
    """x[index]"""
    template, arrays = I.split_index(index_of(index), x)
    return I.GetItem(template)(x, *arrays)


def setitem(x: Any, index: Any, value: Any) -> None:
    """x[index] = value, into x's memory; what x is a view of changes, too."""
    given = index_of(index)
    entries = given if isinstance(given, tuple) else (given,)
    if not isinstance(value, EngineTensor):
        value = _as_value(x, value)
    if is_plain_number(value) and not (x.requires_grad and is_grad_enabled()):
        return _fill_at(x, given, value)
    value = operand(value, kind(x))
    has_arrays = any(hasattr(e, "cached_data") or isinstance(e, np.ndarray) for e in entries)
    if writing.is_recorded(x, value):
        _write_recorded(x, given, value, has_arrays)
        return None
    writing.check_writable("setitem", x)
    data = F.cast(value.realize_cached_data(), kind(x))
    _write(x, given, data)
    return None


def _as_value(x: Any, value: Any) -> Any:
    if isinstance(value, (np.ndarray, list, tuple)):
        from .creation import tensor

        return tensor(value)
    return plain(value)


def is_plain_number(value: Any) -> bool:
    """Is it a number of Python's?"""
    return isinstance(value, (int, float))


def _fill_at(x: Any, index: Any, value: Any) -> None:
    writing.check_writable("setitem", x)
    dtype = kind(x)
    value = bool(value) if dtype is bool_ else int(value) if dtype.kind != "f" else float(value)
    _write(x, index, value)


def _write(x: Any, index: Any, value: Any) -> None:
    template, arrays = I.split_index(index, x)
    filled = I._filled(template, [i.realize_cached_data() for i in arrays])
    write_in_place("setitem", x, lambda data: select.setitem(data, filled, value))


def _write_recorded(x: Any, index: Any, value: Any, has_arrays: bool) -> None:
    writing.check_writable("setitem", x)
    template, arrays = I.split_index(index, x)
    result = I.SetItem(template)(x, value, *arrays)
    writing.become(x, result)


# Along an axis ------------------------------------------------------------------------------------


def _positions(op: str, index: Any, dtypes: tuple[Any, ...] = ()) -> Any:
    if kind(check(op, index)).kind not in "iu":
        raise fail(op, f"{op}(): Expected dtype int32/int64 for index", IndexError)
    return index


@takes_out
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """out[i, j, k] = input[i, index[i, j, k], k] for dim 1"""
    x = check("gather", input)
    axis = axis_of("gather", dim, x.ndim)
    if kind(index) not in (int64, "int32") and index.cached_data.size:
        raise fail("gather", "gather(): Expected dtype int32/int64 for index")
    if max(x.ndim, 1) != max(index.ndim, 1) and index.cached_data.size:
        raise fail("gather", "Index tensor must have the same number of dimensions as input tensor")
    if index.cached_data.size == 0:
        return (
            x.new_empty(tuple(index.shape)) + 0 * x.sum()
            if x.requires_grad
            else x.new_empty(tuple(index.shape))
        )
    for i, n in enumerate(index.shape):
        if i != axis and x.ndim and n > x.shape[i]:
            raise fail(
                "gather",
                f"Size does not match at dimension {i} expected index {list(index.shape)}"
                f" to be no larger than self {list(x.shape)} apart from dimension {axis}",
            )
    if x.ndim == 0:
        return L.gather(x, 0, index)
    return L.gather(x, axis, index.reshape(1) if index.ndim == 0 else index).reshape(
        tuple(index.shape)
    )


@takes_out
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """gather, where input and indices broadcast on the other axes"""
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1))
    return L.take_along_axis(input, indices, dim)


def take(input: Any, index: Any) -> Any:
    """The elements of the flat input at positions."""
    return I.take(check("take", input), _positions("take", index))


@takes_out
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices of an axis at positions."""
    x = check("index_select", input)
    axis = axis_of("index_select", dim, x.ndim)
    at = _positions("index_select", index)
    if at.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    at = at.reshape(-1)
    if x.ndim == 0:
        return x.reshape(1)[at].reshape(())
    return getitem(x, (*[slice(None)] * axis, _from_the_start(at, x.shape[axis])))


def _from_the_start(at: Any, size: int) -> Any:
    """Positions, which may not be negative. While a function is traced their elements are not known
    yet: negative ones become too large, so that its program raises."""
    if active() is not None:
        return where(at < 0, at.new_full((), size), at)
    found = at.realize_cached_data().numpy()
    if found.size and (found.min() < 0 or found.max() >= size):
        raise IndexError("index out of range in self")
    return at


@takes_out
def masked_select(input: Any, mask: Any) -> Any:
    """The elements at which a mask is true, in one row."""
    from .shape import broadcast_tensors

    if kind(mask) is not bool_:
        raise fail("masked_select", "masked_select: expected BoolTensor for mask")
    x, chosen = broadcast_tensors(check("masked_select", input), mask)
    return getitem(x.reshape(1) if x.ndim == 0 else x, chosen.reshape(1) if x.ndim == 0 else chosen)


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """value where the mask is true, else input"""
    if kind(check("masked_fill", mask)) is not bool_:
        raise fail(
            "masked_fill", f"masked_fill only supports boolean masks, but got dtype {mask.dtype}"
        )
    if isinstance(value, EngineTensor) and value.ndim:
        raise fail(
            "masked_fill",
            "masked_fill_ only supports a 0-dimensional value tensor, but got "
            f"tensor with {value.ndim} dimension(s).",
        )
    dtype = kind(check("masked_fill", input))
    if isinstance(value, EngineTensor):
        return C.Where()(mask, cast(value, dtype), input)
    value = plain(value)
    if dtype.kind != "f":
        if isinstance(value, float) and value != int(value):
            raise fail("masked_fill", f"value cannot be converted to type {dtype} without overflow")
        value = bool(value) if dtype is bool_ else int(value)
    return C.Where()(mask, number(value, dtype), input)


def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """The elements of source, one after the other, where a mask is true."""
    from .shape import broadcast_tensors

    x, chosen = broadcast_tensors(input, mask)
    count = int(chosen.sum())
    result = x.clone()
    if count:
        result[chosen] = source.reshape(-1)[:count]
    return result


@takes_out
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """input where the condition is true, else other; without them, where it is true."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if kind(check("where", condition)) not in (bool_, uint8):
        raise fail(
            "where",
            f"where expected condition to be a boolean tensor, but got a tensor with "
            f"dtype {condition.dtype}",
        )
    dtype = result_in_engine(input, other)
    return C.Where()(cast(condition, bool_), operand(input, dtype), operand(other, dtype))


def nonzero(input: Any, *, as_tuple: bool = False, out: Any = None) -> Any:
    """Where elements are not zero: (count, ndim), or one tensor for each axis."""
    x = check("nonzero", input)
    if as_tuple and x.ndim == 0:
        x = x.reshape(1)
    found = I.NonZero()(x)
    if not as_tuple:
        if x.ndim == 0:
            found = found.new_zeros((int(bool(x.item())), 0))
        return found
    return tuple([found[:, i] for i in range(x.ndim)])


def argwhere(input: Any) -> Any:
    """Where elements are not zero: (count, ndim)"""
    return nonzero(input)


# Into positions -----------------------------------------------------------------------------------


class Picked(TensorOp):
    """y = an element of x that was found outside of the graph; equal ones share the gradient"""

    def compute(self, a: Any, found: Any) -> Any:
        return found

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return shared(out_grad, node.inputs[0], node, None), None


def _source(op: str, x: Any, src: Any) -> Any:
    if kind(src) is not kind(x):
        raise fail(op, f"{op}(): Expected self.dtype to be equal to src.dtype")
    return src


def scatter(
    input: Any,
    dim: int,
    index: Any,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Any:
    """input with src[i, j, k], or a number, at [i, index[i, j, k], k] for dim 1"""
    x = check("scatter", input)
    if reduce is not None:
        way = {"add": "sum", "multiply": "prod"}[reduce]
        given = (
            x.new_full(tuple(index.shape), value if src is None else src)
            if not isinstance(src, EngineTensor)
            else src
        )
        return scatter_reduce(x, dim, index, given, way)
    if index.cached_data.size == 0:
        return x.clone()
    axis = axis_of("scatter", dim, x.ndim)
    if isinstance(src, EngineTensor):
        return L.scatter(x, axis, index, _source("scatter", x, src))
    given = plain(value if src is None else src)
    given = float(given) if is_floating(x) else bool(given) if kind(x) is bool_ else int(given)
    return L.scatter(x, axis, index, value=given)


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """input with src added at [i, index[i, j, k], k] for dim 1"""
    x = check("scatter_add", input)
    if index.cached_data.size == 0:
        return x.clone()
    return L.scatter_add(
        x, axis_of("scatter_add", dim, x.ndim), index, _source("scatter_add", x, src)
    )


def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """input combined with src at positions: sum, prod, mean, amax or amin"""
    from .scattering import reduced

    return reduced(check("scatter_reduce", input), dim, index, src, reduce, include_self)


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """input with alpha times the slices of source added at positions of an axis"""
    x = check("index_add", input)
    added = _source("index_add", x, source)
    return L.index_add(
        x, axis_of("index_add", dim, x.ndim), index, added if alpha == 1 else added * alpha
    )


def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """input with the slices of source at positions of an axis"""
    return _index_write(
        check("index_copy", input), dim, index, _source("index_copy", input, source)
    )


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """input with a number at positions of an axis"""
    x = check("index_fill", input)
    return _index_write(x, dim, index, operand(value, kind(x)))


def _index_write(x: Any, dim: int, index: Any, value: Any) -> Any:
    if x.ndim == 0:
        return _index_write(x.reshape(1), 0, index, value.reshape(-1)).reshape(())
    axis = axis_of("index", dim, x.ndim)
    template, arrays = I.split_index((*[slice(None)] * axis, index.reshape(-1)), x)
    return I.SetItem(template)(x, value, *arrays)


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """input[indices] = values, in a copy; values at one position add up if asked to"""
    x = check("index_put", input)
    given = index_of(tuple(slice(None) if i is None else i for i in indices))
    template, arrays = I.split_index(given, x)
    value = _source("index_put", x, values)
    if not accumulate:
        return I.SetItem(template)(x, value, *arrays)
    if tuple(value.shape) != (expected := tuple(getitem(x.detach(), given).shape)):
        value = value.expand(expected)
    return I.AddAt(template)(x, value, *arrays)


def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """The flat input with source at positions."""
    flat = input.reshape(-1)
    return index_put(flat, (index.reshape(-1),), source.reshape(-1), accumulate).reshape(
        tuple(input.shape)
    )


def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """A copy with src at one position of an axis."""
    result = input.clone()
    result.select(dim, index).copy_(src)
    return result


def slice_scatter(
    input: Any,
    src: Any,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Any:
    """A copy with src at a slice of an axis."""
    result = input.clone()
    axis = axis_of("slice_scatter", dim, input.ndim)
    result[(*[slice(None)] * axis, slice(start, end, step))].copy_(src)
    return result


def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """input combined with slices of source at positions of an axis."""
    if input.ndim == 0:
        found = index_reduce(
            input.reshape(1), 0, index, source.reshape(-1), reduce, include_self=include_self
        )
        return found.reshape(())
    axis = axis_of("index_reduce", dim, input.ndim)
    shape = [1] * input.ndim
    shape[axis] = -1
    places = index.reshape(shape).expand(source.shape)
    way = {"prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}[reduce]
    return scatter_reduce(input, axis, places, source, way, include_self=include_self)
