"""New tensors."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd import Tensor as EngineTensor
from ...dtype import DType, bool_, float32, int64
from ...ndarray import functions as F
from ...ndarray.array import NDArray, empty as _empty, from_numpy as _from_numpy
from ...ndarray.interop import exchange
from ..core.device import place
from ..core.dtypes import default_in_engine, dtype, dtype_in_engine, in_engine, number_dtype
from ..core.tensor import Tensor, wrap
from .common import cast, fail, plain, sizes_of, takes_out

Options = Any


def kind_of(dtype: object, otherwise: DType | None = None) -> DType:
    """The given dtype as needle's, or the default."""
    return (otherwise or default_in_engine()) if dtype is None else in_engine(dtype)


def sizes(op: str, given: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    """Sizes that were given one by one, as one, or as `size`."""
    found = sizes_of(given if size is None else (size,))
    for n in found:
        if n < 0:
            raise fail(op, f"Trying to create tensor with negative dimension {n}: {list(found)}")
    return found


def filled(shape: tuple[int, ...], value: Any, kind: DType, device: object, grad: bool) -> Tensor:
    """A tensor of one value."""
    if kind.kind == "b":
        value = bool(value)
    elif kind.kind != "f":
        value = int(value)
    return wrap(F.full(shape, value, kind, place(device)), check_grad(grad, kind))


def check_grad(wanted: bool, kind: DType) -> bool:
    """requires_grad, which needs a floating dtype."""
    if wanted and not kind.is_floating:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return bool(wanted)


@takes_out
def zeros(
    *size: Any, dtype: dtype | None = None, layout: object = None, device: object = None,
    pin_memory: bool = False, requires_grad: bool = False, names: None = None, **named: Any,
) -> Tensor:  # fmt: skip
    """Every element is 0."""
    shape = sizes("zeros", size, named.pop("size", None))
    return filled(shape, 0, kind_of(dtype), device, requires_grad)


@takes_out
def ones(
    *size: Any, dtype: dtype | None = None, layout: object = None, device: object = None,
    pin_memory: bool = False, requires_grad: bool = False, names: None = None, **named: Any,
) -> Tensor:  # fmt: skip
    """Every element is 1."""
    shape = sizes("ones", size, named.pop("size", None))
    return filled(shape, 1, kind_of(dtype), device, requires_grad)


@takes_out
def empty(
    *size: Any, dtype: dtype | None = None, layout: object = None, device: object = None,
    pin_memory: bool = False, requires_grad: bool = False, memory_format: object = None,
    names: None = None, **named: Any,
) -> Tensor:  # fmt: skip
    """Memory whose elements are not set."""
    shape, kind = sizes("empty", size, named.pop("size", None)), kind_of(dtype)
    return wrap(_empty(shape, kind, place(device)), check_grad(requires_grad, kind))


@takes_out
def full(
    size: Any, fill_value: Any, *, dtype: dtype | None = None, layout: object = None,
    device: object = None, pin_memory: bool = False, requires_grad: bool = False,
    names: None = None,
) -> Tensor:  # fmt: skip
    """Every element is fill_value."""
    value = plain(fill_value)
    kind = kind_of(dtype, number_dtype(value))
    return filled(sizes("full", (size,)), value, kind, device, requires_grad)


def zeros_like(
    input: Tensor, *, dtype: dtype | None = None, layout: object = None, device: object = None,
    requires_grad: bool = False, memory_format: object = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Every element is 0, in input's shape and dtype."""
    return full_like(input, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def ones_like(
    input: Tensor, *, dtype: dtype | None = None, layout: object = None, device: object = None,
    requires_grad: bool = False, memory_format: object = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Every element is 1, in input's shape and dtype."""
    return full_like(input, 1, dtype=dtype, device=device, requires_grad=requires_grad)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: dtype | None = None, layout: object = None,
    device: object = None, requires_grad: bool = False, memory_format: object = None,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Every element is fill_value, in input's shape and dtype."""
    kind = kind_of(dtype, dtype_in_engine(input))
    value = plain(fill_value)
    if kind.kind != "f":
        value = bool(value) if kind is bool_ else int(value)
    data = F.full_like(input.realize_cached_data(), value, kind)
    return wrap(data, check_grad(requires_grad, kind))


def empty_like(
    input: Tensor, *, dtype: dtype | None = None, layout: object = None, device: object = None,
    requires_grad: bool = False, memory_format: object = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Memory whose elements are not set, in input's shape and dtype."""
    return full_like(input, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: dtype | None = None,
    layout: object = None, device: object = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Memory with these strides."""
    need = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
    base = empty(need, dtype=dtype, device=device)
    found = base.as_strided(size, stride)
    return wrap(found.cached_data, check_grad(requires_grad, dtype_in_engine(found)))


# Data ---------------------------------------------------------------------------------------------


def _numpy_of(data: Any) -> tuple[np.ndarray[Any, Any], DType | None]:
    """Nested data as NumPy's array, and the dtype that PyTorch infers of it."""
    if isinstance(data, (np.ndarray, np.generic)):
        return np.asarray(data), None
    if isinstance(data, EngineTensor):
        return data.detach().numpy(), dtype_in_engine(data)
    if hasattr(data, "__array__") and not isinstance(data, (list, tuple)):
        return np.asarray(data), None
    array = np.asarray(_unwrapped(data))
    if array.dtype.kind == "f":
        return array, None if _has_numpy(data) else default_in_engine()
    if array.dtype.kind == "O" or array.dtype.kind in "US":
        raise TypeError(f"[tensor] expected numbers, or lists of one length, got {data!r:.60}.")
    return array, default_in_engine() if array.size == 0 else None


def _has_numpy(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (np.ndarray, np.generic))


def _unwrapped(data: Any) -> Any:
    """Nested lists with tensors as nested lists with numbers."""
    if isinstance(data, EngineTensor):
        return data.tolist()
    if isinstance(data, (list, tuple)):
        return [_unwrapped(v) for v in data]
    if isinstance(data, builtins.range):
        return list(data)
    return data


def data_of(data: Any, dtype: object, device: object) -> NDArray:
    """A copy of data as an array of the engine."""
    if isinstance(data, EngineTensor):
        own = data.realize_cached_data()
        return F.cast(F.copy(own), kind_of(dtype, dtype_in_engine(data)))
    array, inferred = _numpy_of(data)
    kind = kind_of(dtype, inferred or in_engine(array.dtype))
    if kind.is_integer and array.dtype.kind in "fO" and array.size and isinstance(data, list):
        array = np.trunc(array)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    return F.copy(
        _from_numpy(np.ascontiguousarray(array).reshape(array.shape), kind, place(device))
    )


def tensor(
    data: Any, *, dtype: dtype | None = None, device: object = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A copy of nested lists, numbers, NumPy's arrays or tensors."""
    made = data_of(data, dtype, device)
    return wrap(made, check_grad(requires_grad, made.dtype))


def as_tensor(data: Any, dtype: dtype | None = None, device: object = None) -> Any:
    """data as a tensor; in the same memory, if it can be."""
    if isinstance(data, EngineTensor):
        own = data if isinstance(data, Tensor) else wrap(data.realize_cached_data())
        return own if dtype is None else cast(own, in_engine(dtype))
    if isinstance(data, np.ndarray):
        found = from_numpy(data)
        return found if dtype is None else cast(found, in_engine(dtype))
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any, *, dtype: dtype | None = None, device: object = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """obj as a tensor; in the same memory, if it can be and copy is not True."""
    found = as_tensor(obj, dtype, device)
    found = wrap(F.copy(found.cached_data)) if copy else found
    return found.requires_grad_() if requires_grad else found


def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """A tensor in the memory of NumPy's array."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    return wrap(exchange.from_numpy(ndarray))


def from_dlpack(ext_tensor: Any, **options: Any) -> Tensor:
    """A tensor in the memory of another library's."""
    from ...init.basic import from_dlpack as take

    return wrap(take(ext_tensor).realize_cached_data())


def frombuffer(
    buffer: Any, *, dtype: dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A tensor of the bytes of a buffer."""
    array = np.frombuffer(buffer, in_engine(dtype).storage, count, offset)
    return tensor(array, requires_grad=requires_grad)


def typed(
    kind: DType, data: tuple[Any, ...], device: object = None
) -> NDArray | np.ndarray[Any, Any]:
    """What PyTorch's old constructors make: memory of this shape, or a copy of data."""
    if not data:
        return F.full((0,), 0, kind, place(device))
    first = data[0]
    if len(data) == 1 and isinstance(first, EngineTensor):
        own = first.realize_cached_data()
        return own if own.dtype is kind else F.cast(own, kind)
    from ..core.device import Size

    if len(data) == 1 and not isinstance(first, (int, Size)):
        return data_of(first, kind, device)
    return F.full(sizes_of(data), 0, kind, place(device))


# Ranges -------------------------------------------------------------------------------------------


def _bounds(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    names = ("end",) if len(args) == 1 and "end" not in named else ("start", "end", "step")
    given = {**dict(zip(names, args, strict=False)), **named}
    unknown = set(given) - {"start", "end", "step"}
    if unknown or "end" not in given:
        raise TypeError(f"[arange] expected start, end and step, got {args} and {sorted(named)}.")
    return tuple(plain(given.get(n, d)) for n, d in (("start", 0), ("end", 0), ("step", 1)))  # type: ignore[return-value]


@takes_out
def arange(
    *args: Any, dtype: dtype | None = None, layout: object = None, device: object = None,
    pin_memory: bool = False, requires_grad: bool = False, **named: Any,
) -> Tensor:  # fmt: skip
    """start, start + step, ... below end."""
    start, end, step = _bounds(args, named)
    whole = all(isinstance(v, int) for v in (start, end, step))
    kind = kind_of(dtype, int64 if whole else None)
    if not kind.is_floating and not whole:
        start, end, step, whole = int(start), int(end), int(step), True
    if step == 0:
        raise fail("arange", "step must be nonzero")
    if (end - start) * step < 0:
        raise fail("arange", "upper bound and lower bound inconsistent with step sign")
    count = max(0, math.ceil((end - start) / step)) if not whole else -((start - end) // step)
    values = start + step * np.arange(count, dtype=np.int64 if whole else np.float64)
    if kind.kind == "f" and not whole and kind == float32:
        values = np.float64(start) + np.arange(count) * np.float64(step)
    return wrap(_from_numpy(values, kind, place(device)), check_grad(requires_grad, kind))


def range(start: float = 0, end: float = 0, step: float = 1, **options: Any) -> Tensor:
    """start, start + step, ... up to end, which is included."""
    count = int((end - start) / step) + 1
    kind = kind_of(options.get("dtype"))
    return wrap(_from_numpy(start + step * np.arange(count), kind, place(None)))


def _spaced(start: Any, end: Any, steps: int, kind: DType) -> Any:
    """Numbers from start to end, counted from the nearer end as PyTorch does."""
    if steps < 0:
        raise fail("linspace", "number of steps must be non-negative")
    wide: Any = np.float64 if kind == "float64" or kind.kind != "f" else np.float32
    first, last = wide(start), wide(end)
    if steps == 1:
        return np.full(1, first)
    step = (last - first) / wide(steps - 1) if steps else wide(0)
    i = np.arange(steps)
    up = first + step * i.astype(wide)
    down = last - step * (steps - 1 - i).astype(wide)
    return np.where(i < steps // 2, up, down)


@takes_out
def linspace(
    start: Any, end: Any, steps: int, *, dtype: dtype | None = None, layout: object = None,
    device: object = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Numbers from start to end, both included."""
    kind = kind_of(dtype)
    values = _spaced(plain(start), plain(end), steps, kind)
    values = values if kind.is_floating else np.trunc(values)
    return wrap(_from_numpy(values, kind, place(device)), check_grad(requires_grad, kind))


@takes_out
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: dtype | None = None,
    layout: object = None, device: object = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """base to the power of numbers from start to end."""
    kind = kind_of(dtype)
    wide = float32 if kind != "float64" else kind
    values = np.power(base, _spaced(plain(start), plain(end), steps, wide).astype(np.float64))
    return wrap(_from_numpy(values, kind, place(device)), check_grad(requires_grad, kind))


@takes_out
def eye(
    n: int, m: int | None = None, *, dtype: dtype | None = None, layout: object = None,
    device: object = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """1 on the diagonal, else 0."""
    kind = kind_of(dtype)
    values = np.eye(n, n if m is None else m, dtype=np.float32)
    return wrap(_from_numpy(values, kind, place(device)), check_grad(requires_grad, kind))


def scalar_tensor(
    s: Any, *, dtype: dtype | None = None, device: object = None, **rest: Any
) -> Tensor:
    """A number as a tensor without axes, in the default dtype."""
    return filled((), plain(s), kind_of(dtype), device, rest.get("requires_grad", False))


def _triangle(row: int, col: int, offset: int, kept: Any, dtype: object) -> Tensor:
    i, j = np.indices((row, col))
    found = np.stack(np.nonzero(kept(j - i, offset)))
    return wrap(_from_numpy(found, kind_of(dtype, int64), place(None)))


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: dtype | None = None, **rest: Any
) -> Tensor:
    """The positions on and below a diagonal: (2, count)."""
    return _triangle(row, col, offset, np.less_equal, dtype)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: dtype | None = None, **rest: Any
) -> Tensor:
    """The positions on and above a diagonal: (2, count)."""
    return _triangle(row, col, offset, np.greater_equal, dtype)


def _window(values: Any, n: int, dtype: object) -> Tensor:
    return wrap(_from_numpy(np.asarray(values, np.float64), kind_of(dtype), place(None)))


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: dtype | None = None, **rest: Any
) -> Tensor:
    """Hann's window."""
    return _cosine(window_length, periodic, (0.5, 0.5), dtype)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
    dtype: dtype | None = None, **rest: Any,
) -> Tensor:  # fmt: skip
    """Hamming's window."""
    return _cosine(window_length, periodic, (alpha, beta), dtype)


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: dtype | None = None, **rest: Any
) -> Tensor:
    """Blackman's window."""
    return _cosine(window_length, periodic, (0.42, 0.5, 0.08), dtype)


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: dtype | None = None, **rest: Any
) -> Tensor:
    """Bartlett's window: a triangle."""
    n = window_length + periodic
    values = np.bartlett(n)[:window_length] if n > 1 else np.ones(window_length)
    return _window(values, window_length, dtype)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: dtype | None = None,
    **rest: Any,
) -> Tensor:  # fmt: skip
    """Kaiser's window."""
    n = window_length + periodic
    values = np.kaiser(n, beta)[:window_length] if n > 1 else np.ones(window_length)
    return _window(values, window_length, dtype)


def _cosine(n: int, periodic: bool, factors: tuple[float, ...], dtype: object) -> Tensor:
    if n <= 1:
        return _window(np.ones(n), n, dtype)
    angle = 2 * np.pi * np.arange(n) / (n if periodic else n - 1)
    values = sum((-1) ** k * c * np.cos(k * angle) for k, c in enumerate(factors))
    return _window(values, n, dtype)
