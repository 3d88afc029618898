"""The device contract in NumPy: the executable specification that other devices must match.

Written to be read, never to be fast. `load` gives an operand's elements in the type that they are
computed in, `store` rounds a result into place; everything else is a table of NumPy functions.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtype import DType, bfloat16, dtype_of, float16
from . import protocol
from .protocol import ROW_REDUCTIONS, Operand, Scalar, Steps, out_of_range
from .reference_networks import (
    CELLS as CELLS,
    attention as attention,
    attention_backward as attention_backward,
    conv as conv,
    conv_by_data as conv_by_data,
    conv_by_weight as conv_by_weight,
    recurrence as recurrence,
    recurrence_backward as recurrence_backward,
    sigmoid,
)
from .storage import (
    Array,
    Handle as Handle,
    Owned,
    accumulator,
    load as load,
    narrow as narrow,
    store as store,
    view as view,
    widen as widen,
)

if TYPE_CHECKING:
    from ..tile.program import TypedProgram
    from .c_function import CFunction

# Memory -----------------------------------------------------------------------------------------


def empty(size: int, dtype: DType) -> Handle:
    return Handle(np.empty(size, dtype.storage), dtype)


def from_numpy(array: Array, dtype: DType) -> Handle:
    return Handle(np.array(array, dtype.storage).reshape(-1), dtype)


def to_numpy(a: Operand) -> Array:
    return np.array(widen(view(a)) if a.dtype is bfloat16 else view(a), order="C")


# Elementwise ------------------------------------------------------------------------------------


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _normal_below(x: Array) -> Array:
    """The probability that the normal distribution gives to what is below x."""
    result: Array = _erfc(x.astype(np.float64) * -math.sqrt(0.5)) / 2
    return result


def _normal_density(x: Array) -> Array:
    result: Array = np.exp(np.square(x.astype(np.float64)) / -2) / math.sqrt(2 * math.pi)
    return result


# Which dtypes a function takes and gives, its kind says (protocol.KINDS).

UNARY: dict[str, Any] = {
    "negative": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "invert": np.invert,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "sigmoid": sigmoid,
    "erf": lambda x: _erf(x).astype(x.dtype),
    "gelu": lambda x: (x * _normal_below(x)).astype(x.dtype),
    "gelu_slope": lambda x: (_normal_below(x) + x * _normal_density(x)).astype(x.dtype),
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "logical_not": np.logical_not,
}

_UNCHANGED_ON_INTEGERS = ("floor", "ceil", "round")

BINARY: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": np.floor_divide,  # this and remainder with Python's rule for signs
    "remainder": np.remainder,
    "power": np.power,
    "atan2": np.arctan2,
    "maximum": np.maximum,  # NaN if either is, as in minimum
    "minimum": np.minimum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


def fill(out: Operand, value: Scalar) -> None:
    with np.errstate(all="ignore"):
        store(out, value)


def copy(out: Operand, a: Operand) -> None:
    with np.errstate(all="ignore"):
        store(out, load(a))


def unary(name: str, out: Operand, a: Operand) -> None:
    if name in _UNCHANGED_ON_INTEGERS and not a.dtype.is_floating:
        return store(out, view(a))
    with np.errstate(all="ignore"):
        store(out, UNARY[name](load(a)))


def binary(name: str, out: Operand, a: Operand | Scalar, b: Operand | Scalar) -> None:
    dtype = dtype_of(b.dtype if isinstance(a, (bool, int, float)) else a.dtype)  # type: ignore[union-attr]
    with np.errstate(all="ignore"):
        store(out, BINARY[name](load(a, dtype), load(b, dtype)))


def where(out: Operand, cond: Operand, a: Operand, b: Operand) -> None:
    view(out)[...] = np.where(view(cond), view(a), view(b))


# Reductions -------------------------------------------------------------------------------------

REDUCE: dict[str, Any] = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "any": np.any,
    "all": np.all,
}


def reduce(name: str, out: Operand, a: Operand) -> None:
    axes = tuple(i for i, n in enumerate(out.shape) if n == 1)
    options = accumulator(out) if protocol.REDUCE[name] == "total" else {}
    with np.errstate(all="ignore"):
        store(out, REDUCE[name](load(a), axis=axes, keepdims=True, **options))


def arg_reduce(name: str, out: Operand, a: Operand, axis: int) -> None:
    store(out, getattr(np, name)(load(a), axis=axis, keepdims=True))


def scan(name: str, out: Operand, a: Operand, axis: int) -> None:
    with np.errstate(all="ignore"):
        store(out, getattr(np, name)(load(a), axis=axis, **accumulator(out)))


def mix(
    out: Operand, a: Operand, starts: Operand, places: Operand, weights: Operand, axis: int
) -> None:
    first, columns, factors = (load(x) for x in (starts, places, weights))
    lines = np.moveaxis(load(a), axis, 0)
    least = 0
    for start in first.tolist():
        if not least <= start <= len(columns):
            raise out_of_range(0, start, len(columns) + 1)
        least = start
    for place in columns.tolist():
        if not 0 <= place < len(lines):
            raise out_of_range(1, place, len(lines))
    sums = np.zeros((len(first) - 1, *lines.shape[1:]), lines.dtype)
    with np.errstate(all="ignore"):
        for j in range(len(sums)):
            for n, e in enumerate(range(first[j], first[j + 1])):
                term = factors[e] * lines[columns[e]]
                sums[j] = sums[j] + term if n else term
    store(out, np.moveaxis(sums, 0, axis))


# Tile programs ----------------------------------------------------------------------------------


def run(
    program: TypedProgram, outs: Sequence[Operand], ins: Sequence[Operand], inner: int = 1
) -> None:
    shape = np.broadcast_shapes(*(o.shape for o in (*outs, *ins)))
    outer, row = tuple(range(len(shape) - inner)), tuple(range(len(shape) - inner, len(shape)))
    row_length = math.prod(shape[axis] for axis in row)
    values: list[Any] = []
    with np.errstate(all="ignore"):
        for i, dtype in zip(program.instructions, program.dtypes, strict=True):
            args = [values[a] for a in i.args]
            compute_type = _compute_type(dtype)
            if i.name == "load":
                value = load(ins[i.detail]).astype(compute_type)
                value = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
            elif i.name == "constant":
                value = np.full((1,) * len(shape), i.detail, compute_type)
            elif i.name == "row_size":
                value = np.full((1,) * len(shape), row_length, compute_type)
            elif i.name == "row_index":
                positions = np.arange(row_length, dtype=compute_type)
                value = positions.reshape((1,) * len(outer) + tuple(shape[axis] for axis in row))
            elif i.name == "random":
                seed, offset = (int(word.astype(np.uint64).item()) for word in args)
                value = uniform(seed, offset, math.prod(shape)).astype(np.float32).reshape(shape)
            elif i.name == "cast":
                value = _rounded(args[0], dtype)
            elif i.name == "where":
                value = np.where(*args)
            elif i.name == "gather":
                value = _gather_in_rows(np.broadcast_to(args[0], shape), args[1], len(outer))
            elif i.name == "add_at":
                value = _add_in_rows(np.broadcast_to(args[0], shape), args[1], args[2], len(outer))
            elif i.name in ROW_REDUCTIONS:
                value = _reduce_axes(ROW_REDUCTIONS[i.name], np.broadcast_to(args[0], shape), row)
            elif i.name == "column_sum":
                value = _reduce_axes("sum", np.broadcast_to(args[0], shape), outer)
            elif i.name == "store":
                target = outs[i.detail].shape
                value = args[0].reshape(args[0].shape[len(shape) - len(target) :])
                store(outs[i.detail], np.broadcast_to(value, target))
            elif i.name in _UNCHANGED_ON_INTEGERS and not dtype.is_floating:
                value = args[0]
            else:
                value = (UNARY | BINARY)[i.name](*args)
            values.append(value)


def run_each(
    program: TypedProgram, calls: Sequence[tuple[Sequence[Operand], Sequence[Operand]]]
) -> None:
    for outs, ins in calls:
        run(program, outs, ins, 0)


def run_c(function: CFunction, outs: Sequence[Operand], ins: Sequence[Operand], count: int) -> None:
    operands = (*outs, *ins)
    places = [o._handle.ptr() + o.offset * o.dtype.itemsize for o in operands]
    shapes = [(ctypes.c_int64 * len(o.shape))(*o.shape) for o in operands]
    at = (ctypes.c_void_p * len(places))(*places)
    of_each = (ctypes.c_void_p * len(shapes))(*map(ctypes.addressof, shapes))
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    call(function.address)(at, of_each, 0, count)


def _compute_type(dtype: DType) -> Any:
    if dtype in (bfloat16, float16):
        return np.dtype(np.float32)
    return np.dtype(np.int32) if dtype.is_integer and dtype.itemsize < 4 else dtype.storage


def _rounded(values: Array, dtype: DType) -> Array:
    """As if stored in dtype and loaded again."""
    if dtype is bfloat16:
        return widen(narrow(values.astype(np.float32)))
    return values.astype(dtype.storage).astype(_compute_type(dtype))


def _reduce_axes(name: str, x: Array, axes: tuple[int, ...]) -> Array:
    """Over axes, which may be empty: totals of floats in float64."""
    if protocol.REDUCE[name] == "total":
        accumulate = np.float64 if x.dtype.kind == "f" else x.dtype
        total = REDUCE[name](x, axis=axes, keepdims=True, dtype=accumulate)
        return np.asarray(total).astype(x.dtype)
    limits: Any = {"f": (-np.inf, np.inf), "b": (False, True)}.get(x.dtype.kind)
    least, most = limits or (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    nothing = protocol.OF_NOTHING[name]
    bound = {"LOWEST": least, "HIGHEST": most}.get(nothing, nothing)
    return np.asarray(REDUCE[name](x, axis=axes, keepdims=True, initial=x.dtype.type(bound)))


def _gather_in_rows(x: Array, index: Array, outer: int) -> Array:
    rows = x.reshape((*x.shape[:outer], -1)) if x.size else np.zeros((*x.shape[:outer], 1), x.dtype)
    length = 0 if x.size == 0 else rows.shape[-1]
    index = np.broadcast_to(index, (*x.shape[:outer], *(1,) * (x.ndim - outer)))
    places = index.reshape((*x.shape[:outer], 1)).astype(np.int64)
    inside = (places >= 0) & (places < length)
    picked = np.take_along_axis(rows, np.where(inside, places, 0), -1)
    return np.where(inside, picked, rows.dtype.type(0)).reshape(index.shape)


def _add_in_rows(x: Array, index: Array, amount: Array, outer: int) -> Array:
    rows = np.array(x).reshape((*x.shape[:outer], -1)) if x.size else np.array(x)
    if x.size == 0:
        return rows
    one_each = (*x.shape[:outer], *(1,) * (x.ndim - outer))
    places, amounts = (np.broadcast_to(v, one_each) for v in (index, amount))
    positions = np.arange(rows.shape[-1])
    hit = places.reshape((*x.shape[:outer], 1)) == positions
    return np.where(hit, rows + amounts.reshape((*x.shape[:outer], 1)), rows).reshape(x.shape)


# Linear algebra ---------------------------------------------------------------------------------


def matmul(out: Operand, a: Operand, b: Operand) -> None:
    with np.errstate(all="ignore"):
        store(out, np.matmul(load(a), load(b)))


def matmul_then(
    program: TypedProgram,
    outs: Sequence[Operand],
    a: Operand,
    b: Operand,
    ins: Sequence[Operand] = (),
) -> None:
    rows = program.reduces_rows
    product = Owned((a.shape[0], b.shape[1]) if rows else outs[0].shape, program.inputs[0])
    matmul(product, a, b)
    run(program, outs, (product, *ins), 1 if rows else 0)


def matmul_of(
    program: TypedProgram,
    outs: Sequence[Operand],
    ins: Sequence[Operand],
    b: Operand,
    then: TypedProgram | None = None,
    others: Sequence[Operand] = (),
) -> None:
    a = Owned((*outs[0].shape[:-1], b.shape[-2]), program.outputs[0])
    run(program, (a,), ins, 0)
    if then is None:
        matmul(outs[0], a, b)
    else:
        matmul_then(then, outs, a, b, others)


def conv_then(
    program: TypedProgram, outs: Sequence[Operand], x: Operand, w: Operand,
    shape: Steps, stride: Steps, padding: Steps, dilation: Steps, groups: int,
    ins: Sequence[Operand] = (),
) -> None:  # fmt: skip
    images = Owned(shape, program.inputs[0])
    conv(images, x, w, stride, padding, dilation, groups)
    matrix = Owned(outs[0].shape, program.inputs[0])
    store(matrix, load(images).reshape(matrix.shape))
    run(program, outs, (matrix, *ins), 0)


# Indexing and order -----------------------------------------------------------------------------


def _checked(operand: Operand, indices: tuple[Operand, ...]) -> tuple[Array, ...]:
    arrays = tuple(view(i) for i in indices)
    for position, (index, size) in enumerate(zip(arrays, operand.shape, strict=False)):
        bad = index[(index < -size) | (index >= size)]
        if bad.size:
            raise out_of_range(position, int(bad[0]), size)
    return arrays


def gather(out: Operand, a: Operand, indices: tuple[Operand, ...]) -> None:
    view(out)[...] = view(a)[_checked(a, indices)]


def scatter(name: str, out: Operand, indices: tuple[Operand, ...], a: Operand) -> None:
    arrays = _checked(out, indices)
    if name == "set":
        view(out)[arrays] = view(a)
        return
    total = load(out).copy()
    np.add.at(total, arrays, load(a))
    store(out, total)


def argsort(out: Operand, a: Operand, axis: int, descending: bool) -> None:
    values = load(a)
    if descending:  # stable: sort the reversed sequence and count from its end
        backwards = np.argsort(np.flip(values, axis), axis=axis, kind="stable")
        order = values.shape[axis] - 1 - np.flip(backwards, axis)
    else:
        order = np.argsort(values, axis=axis, kind="stable")
    store(out, order.take(range(out.shape[axis]), axis))


def searchsorted(out: Operand, sorted_: Operand, values: Operand, right: bool) -> None:
    store(out, np.searchsorted(load(sorted_), load(values), side="right" if right else "left"))


def nonzero(a: Operand) -> Handle:
    coordinates = np.argwhere(load(a)).astype(np.int64)
    return Handle(coordinates.reshape(-1), dtype_of("int64"))


# Random -----------------------------------------------------------------------------------------


def philox(seed: int, words: Array) -> Array:
    """Words of the Philox 4x32-10 stream (Salmon et al., 2011) at the given positions."""
    mask = np.uint64(0xFFFFFFFF)
    counter = words >> np.uint64(2)
    x = [counter & mask, counter >> np.uint64(32), counter * np.uint64(0), counter * np.uint64(0)]
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64((seed >> 32) & 0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        high0, high1 = p0 >> np.uint64(32), p1 >> np.uint64(32)
        x = [high1 ^ x[1] ^ k0, p1 & mask, high0 ^ x[3] ^ k1, p0 & mask]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    return np.choose((words & np.uint64(3)).astype(np.int64), x)


def uniform(seed: int, offset: int, count: int) -> Array:
    """One number in [0, 1) for each of so many words from `offset` on."""
    words = philox(seed, np.uint64(offset) + np.arange(count, dtype=np.uint64))
    return (words >> np.uint64(8)) * 2.0**-24


def random(name: str, out: Operand, seed: int, offset: int) -> None:
    if name == "uniform" and out.dtype != "float64":
        values = round_down(uniform(seed, offset, math.prod(out.shape)), out.dtype)
        store(out, values.reshape(out.shape))
        return
    element = np.uint64(offset) + np.arange(math.prod(out.shape), dtype=np.uint64)
    first = philox(seed, element * np.uint64(2))
    second = philox(seed, element * np.uint64(2) + np.uint64(1))
    if name == "uniform":
        values = ((first << np.uint64(32) | second) >> np.uint64(11)) * 2.0**-53
    else:
        radius = np.sqrt(-2 * np.log(((first >> np.uint64(8)) + np.uint64(1)) * 2.0**-24))
        values = radius * np.cos(2 * np.pi * ((second >> np.uint64(8)) * 2.0**-24))
    store(out, values.reshape(out.shape))


def random_from(name: str, out: Operand, counter: Operand) -> None:
    seed, offset = (int(word) for word in view(counter).view(np.uint64))
    random(name, out, seed, offset)


def round_down(values: Array, dtype: DType) -> Array:
    """Drop the bits below the mantissa of a half type, so that rounding never reaches 1."""
    if dtype is bfloat16:
        return widen((values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16))
    if dtype is float16:
        halves = values.astype(np.float16)
        too_big = halves.astype(np.float64) > values
        return np.where(too_big, np.nextafter(halves, np.float16(0)), halves)
    return values
