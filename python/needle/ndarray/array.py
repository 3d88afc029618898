"""NDArray: a strided view of device memory.

shape, strides, offset, dtype, device and handle are all there is; views share the handle. The
methods here keep the course's strict rules (equal shapes, one index per axis, reshape only when
compact). `functions.py` has NumPy's rules: that is what operators use.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _native
from ..backend import (
    BackendDevice,
    cpu_numpy,
    default_device,
    device_named,
    host,
    reference as numpy_kernels,
)
from ..dtype import DType, Scalar as Scalar, bfloat16, dtype_of, float32
from . import layout
from .interop.numpy_calls import call_numpy
from .layout import Shape

if TYPE_CHECKING:
    from ..types import ArrayLike, Axes, DTypeLike, Handle, Index, NumpyArray


def require(condition: bool, message: str) -> None:
    """The course's strict checks are AssertionErrors, also under `python -O`."""
    if not condition:
        raise AssertionError(message)


def _operator(name: str, reflected: bool = False) -> Callable[[NDArray, NDArray | Scalar], NDArray]:
    """The operator of two arrays of one shape, or an array and a number, as a method."""
    if reflected:
        return lambda self, other: _binary(name, other, self)
    return lambda self, other: _binary(name, self, other)


class NDArray(_native.ArrayBase):
    """An array: a copy of `other` (NDArray, ndarray, nested lists) on `device`, as float32."""

    __slots__ = ()

    shape: Shape
    strides: Shape
    offset: int
    dtype: DType
    device: BackendDevice
    _handle: Any

    __array_priority__ = 1000  # NumPy defers to our operators

    def __init__(
        self, other: ArrayLike, device: BackendDevice | None = None, dtype: DTypeLike = float32
    ):
        dtype = dtype_of(dtype)
        if isinstance(other, NDArray):
            source = other if other.dtype is dtype else other.astype(dtype)
            copied = source.to(device or other.device)
            if copied._handle is other._handle:
                copied = copied.copy()
            self._adopt(copied)
        else:
            self._adopt(from_numpy(np.asarray(other), dtype, device or default_device()))

    def _adopt(self, other: NDArray) -> None:
        self.shape, self.strides, self.offset = other.shape, other.strides, other.offset
        self.dtype, self.device, self._handle = other.dtype, other.device, other._handle

    @staticmethod
    def make(
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        device: BackendDevice | None = None,
        handle: Handle | None = None,
        offset: int = 0,
        dtype: DTypeLike | None = None,
    ) -> NDArray:
        """Allocate an array, or view an existing handle."""
        shape = layout.check_sizes(layout.normalize_shape(shape, "make"), "make")
        strides = layout.compact_strides(shape) if strides is None else tuple(strides)
        device = device or default_device()
        if handle is None:
            dtype = dtype_of(dtype or float32)
            handle = device_named(device).mod.empty(math.prod(shape), dtype)
        return make_view(shape, strides, offset, dtype_of(handle.dtype), device, handle)

    @staticmethod
    def compact_strides(shape: Sequence[int]) -> Shape:
        """Row-major strides of a shape."""
        return layout.compact_strides(tuple(shape))

    # Facts ----------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def flat(self) -> NDArray:
        """A 1-D view."""
        return self.reshape((self.size,))

    def is_compact(self) -> bool:
        """Row-major, and all of its handle."""
        return self.strides == layout.compact_strides(self.shape) and self._handle.size == self.size

    def is_row_major(self) -> bool:
        """Row-major without gaps; may be a part of its handle."""
        return layout.is_row_major(self.shape, self.strides)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("[len] a 0-d array has no length; use .item() for its value.")
        return self.shape[0]

    __iter__ = None  # Python's fallback calls x[0], x[1], ... until IndexError, which never comes

    def __repr__(self) -> str:
        return f"NDArray({self.numpy()}, device={self.device})"

    def __str__(self) -> str:
        return str(self.numpy())

    # Exchange -------------------------------------------------------------------------------

    def numpy(self) -> NumpyArray:
        """A NumPy copy; bfloat16 widens to float32, since NumPy has no such type."""
        array: np.ndarray[Any, Any] = self.device.mod.to_numpy(self)
        return array

    def item(self) -> Any:
        """The only element, as a Python scalar."""
        if self.size != 1:
            raise ValueError(f"[item] expected one element, got shape {self.shape}.")
        return self.numpy().item()

    def tolist(self) -> Any:
        """Nested Python lists of the elements."""
        return self.numpy().tolist()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NumpyArray:
        if copy is False:
            if dtype is not None and np.dtype(dtype) != self.dtype.storage:
                raise ValueError(f"[__array__] {self.dtype!r} to {dtype} needs a copy.")
            return np.asarray(memoryview(self))
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __array_function__(self, function: Any, types: object, args: Any, kwargs: Any) -> Any:
        return call_numpy(NDArray, function, args, kwargs)

    def _export_buffer(self) -> NDArray:
        """What the buffer protocol of the base class shows."""
        if self.device != cpu_numpy():
            self._handle.ptr()  # raises if there is no memory yet, while a function is traced
            return self
        if self.dtype is bfloat16:
            raise BufferError("[buffer] bfloat16 has no buffer format; convert to float32 first")
        handle = view_of(self._handle.array)._handle
        return make_view(self.shape, self.strides, self.offset, self.dtype, host(), handle)

    def __dlpack__(self, **options: Any) -> Any:
        if self.device == cpu_numpy():
            if self.dtype is bfloat16:
                raise BufferError("[dlpack] cpu_numpy() keeps bfloat16 as bits; move it to cpu().")
            return numpy_kernels.view(self).__dlpack__(**options)
        self._handle.ptr()
        return _native.to_dlpack(self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2 if self.device.type == "cuda" else 1, 0)  # kDLCUDA, kDLCPU

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What CuPy, Numba and PyTorch read to share the memory of a GPU: its version 3. All work
        on the memory is done when this is asked for, so there is no stream to wait for."""
        if self.device.type != "cuda" or self.dtype is bfloat16:
            raise AttributeError("__cuda_array_interface__")
        _native.cuda.synchronize()
        item = self.dtype.itemsize
        return {
            "shape": self.shape,
            "strides": tuple(s * item for s in self.strides),
            "typestr": self.dtype.storage.str,
            "data": (self._handle.ptr() + self.offset * item, self._handle.readonly),
            "version": 3,
        }

    def to(self, device: BackendDevice) -> NDArray:
        """This array on another device; itself when it is there already."""
        if device == self.device:
            return self
        stored = from_device(self)
        return from_numpy(stored, self.dtype, device, as_bits=True)

    def __reduce__(self) -> tuple[object, ...]:
        return (from_numpy, (from_device(self), self.dtype, self.device, True))

    # Copies ---------------------------------------------------------------------------------

    def copy(self) -> NDArray:
        """A compact copy."""
        out = empty(self.shape, self.dtype, self.device)
        self.device.mod.copy(out, self)
        return out

    def compact(self) -> NDArray:
        """This array if it is compact, else a compact copy."""
        return self if self.is_compact() else self.copy()

    def astype(self, dtype: DTypeLike) -> NDArray:
        """A copy with another element type."""
        out = empty(self.shape, dtype_of(dtype), self.device)
        self.device.mod.copy(out, self)
        return out

    def fill(self, value: Scalar) -> None:
        """Set every element."""
        self.device.mod.fill(self, value)

    # Views ----------------------------------------------------------------------------------

    def as_strided(self, shape: Sequence[int], strides: Sequence[int]) -> NDArray:
        """The same memory with other shape and strides."""
        require(
            len(shape) == len(strides),
            f"[as_strided] expected as many strides as sizes, got {shape} and {strides}.",
        )
        return self._view(tuple(shape), tuple(strides), self.offset)

    def _view(self, shape: Shape, strides: Shape, offset: int) -> NDArray:
        return make_view(shape, strides, offset, self.dtype, self.device, self._handle)

    def reshape(self, *new_shape: object) -> NDArray:
        """A view with another shape; only compact arrays can be reshaped without a copy."""
        sizes = new_shape[0] if len(new_shape) == 1 else new_shape
        shape = layout.infer_reshape(self.shape, layout.normalize_shape(sizes, "reshape"))
        if not self.is_compact():
            raise ValueError(
                f"[reshape] expected a compact array, got strides {self.strides} for shape "
                f"{self.shape}; call .compact() first."
            )
        return self._view(shape, layout.compact_strides(shape), self.offset)

    def permute(self, axes: Sequence[int]) -> NDArray:
        """A view with its axes in another order."""
        order = layout.normalize_permutation(axes, self.ndim, "permute")
        shape, strides = layout.permuted(self.shape, order), layout.permuted(self.strides, order)
        return self._view(shape, strides, self.offset)

    def broadcast_to(self, new_shape: Sequence[int]) -> NDArray:
        """A view in which axes of size 1 are repeated (stride 0)."""
        shape = tuple(new_shape)
        try:
            strides = layout.broadcast_strides(self.shape, self.strides, shape, "broadcast_to")
        except ValueError as error:
            raise AssertionError(str(error)) from None
        return self._view(shape, strides, self.offset)

    # Indexing -------------------------------------------------------------------------------

    def process_slice(self, sl: slice, dim: int) -> slice:
        """The slice with explicit start, stop and step for axis `dim`."""
        size = self.shape[dim]
        start = 0 if sl.start is None else sl.start
        stop = size if sl.stop is None else sl.stop
        step = 1 if sl.step is None else sl.step
        start, stop = (s + size if s < 0 else s for s in (start, stop))
        stop = min(stop, size)
        require(
            0 <= start < stop and step > 0,
            f"[getitem] expected start < stop and step > 0, got {sl} on axis {dim} of size {size}.",
        )
        return slice(start, stop, step)

    def __getitem__(self, index: Index) -> NDArray:
        """A view: one int or slice per axis; an int keeps its axis, with size 1."""
        index = index if isinstance(index, tuple) else (index,)
        require(
            len(index) == self.ndim,
            f"[getitem] expected one index per axis ({self.ndim}), got {len(index)}.",
        )
        shape, strides, offset = [], [], self.offset
        for axis, (item, size, stride) in enumerate(
            zip(index, self.shape, self.strides, strict=True)
        ):
            if not isinstance(item, slice):
                position = operator.index(item)
                require(
                    -size <= position < size,
                    f"[getitem] index {position} is out of bounds for axis {axis} of size {size}.",
                )
                position += size if position < 0 else 0
                item = slice(position, position + 1, 1)
            item = self.process_slice(item, axis)
            shape.append(len(range(item.start, item.stop, item.step)))
            strides.append(stride * item.step)
            offset += stride * item.start
        return self._view(tuple(shape), tuple(strides), offset)

    def __setitem__(self, index: Index, value: NDArray | NumpyArray | Scalar) -> None:
        """Write in place: a scalar, or an array with the same number of elements."""
        target = NDArray.__getitem__(self, index)
        if not isinstance(value, NDArray):
            return target.fill(as_scalar(value, "setitem"))
        require(
            value.size == target.size,
            f"[setitem] expected {target.size} elements for shape {target.shape}, "
            f"got {value.size} in shape {value.shape}.",
        )
        source = value if value.shape == target.shape else value.compact().reshape(target.shape)
        target.device.mod.copy(target, source.to(target.device))

    # Arithmetic -----------------------------------------------------------------------------

    __add__ = __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", reflected=True)
    __mul__ = __rmul__ = _operator("multiply")
    __truediv__, __rtruediv__ = _operator("divide"), _operator("divide", reflected=True)
    __pow__ = _operator("power")
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")  # type: ignore[assignment]
    __ge__, __gt__ = _operator("greater_equal"), _operator("greater")
    __le__, __lt__ = _operator("less_equal"), _operator("less")

    def __neg__(self) -> NDArray:
        return _unary("negative", self)

    def maximum(self, other: NDArray | Scalar) -> NDArray:
        """The larger of both, element by element; NaN if either is."""
        return _binary("maximum", self, other)

    __hash__ = None  # type: ignore[assignment]

    def log(self) -> NDArray:
        """The natural logarithm."""
        return _unary("log", self)

    def exp(self) -> NDArray:
        """e to the power of each element."""
        return _unary("exp", self)

    def tanh(self) -> NDArray:
        """The hyperbolic tangent."""
        return _unary("tanh", self)

    def __matmul__(self, other: NDArray) -> NDArray:
        """The product of two matrices."""
        require(
            self.ndim == other.ndim == 2 and self.shape[1] == other.shape[0],
            f"[matmul] expected (m, n) @ (n, p), got {self.shape} @ {other.shape}.",
        )
        out = empty((self.shape[0], other.shape[1]), self.dtype, self.device)
        self.device.mod.matmul(out, self, other)
        return out

    # Reductions and rearrangements -----------------------------------------------------------

    def _reduce(self, name: str, axis: Axes, keepdims: bool) -> NDArray:
        if isinstance(axis, (tuple, list)) and not axis:
            raise ValueError(f"[{name}] expected an axis, got an empty sequence; use None for all.")
        found: NDArray = _functions().reduce(name, self, axis, keepdims)
        return found

    def sum(self, axis: Axes = None, keepdims: bool = False) -> NDArray:
        """The sum over an axis, several, or (None) all."""
        return self._reduce("sum", axis, keepdims)

    def max(self, axis: Axes = None, keepdims: bool = False) -> NDArray:
        """The largest element over an axis, several, or (None) all."""
        return self._reduce("max", axis, keepdims)

    def flip(self, axes: Axes) -> NDArray:
        """A compact copy with some axes reversed."""
        view: NDArray = _functions().flip(self, axes)
        return view.copy()

    def pad(self, axes: Sequence[tuple[int, int]]) -> NDArray:
        """Zeros around: one (before, after) pair per axis."""
        require(
            len(axes) == self.ndim,
            f"[pad] expected one (before, after) pair per axis ({self.ndim}), got {axes}.",
        )
        padded: NDArray = _functions().pad(self, axes)
        return padded


# An NDArray from its six parts, nothing checked.
make_view: Callable[[Shape, Shape, int, DType, BackendDevice, Any], NDArray] = partial(
    _native.make_array, NDArray
)
_empty_native: Callable[[Shape, DType, BackendDevice], NDArray] = partial(
    _native.empty_array, NDArray
)


def compact_view(shape: Shape, dtype: DType, device: BackendDevice, handle: object) -> NDArray:
    """A handle from its start, in C order."""
    return make_view(shape, layout.compact_strides(shape), 0, dtype, device, handle)


def empty(shape: Shape, dtype: DType, device: BackendDevice) -> NDArray:
    """A compact array, uninitialised."""
    if device.mod is _native:
        return _empty_native(shape, dtype, device)
    return compact_view(shape, dtype, device, device.mod.empty(math.prod(shape), dtype))


def empty_strided(shape: Shape, strides: Shape, dtype: DType, device: BackendDevice) -> NDArray:
    """An array with these strides, which leave no gaps, uninitialised."""
    return make_view(shape, strides, 0, dtype, device, device.mod.empty(math.prod(shape), dtype))


def empty_like(shape: Shape, dtype: DType, device: BackendDevice, *operands: object) -> NDArray:
    """A new array for a result of these operands, in the memory order of the first one that has its
    shape: channels that are last in memory stay last, under a view that shows them second."""
    strides = strides_like(shape, *operands)
    if strides is None:
        return empty(shape, dtype, device)
    return empty_strided(shape, strides, dtype, device)


def strides_like(shape: Shape, *operands: object) -> Shape | None:
    """The strides of a result of these operands; None if it is row-major. native/python/results.cc
    has the rule, which the native fast paths share."""
    return _native.result_strides(shape, operands) if len(shape) > 1 else None


def empty_in_order(shape: Shape, dtype: DType, a: NDArray) -> NDArray:
    """A new array of another shape in the memory order of `a`, for what its elements are moved to.
    Matrices are row-major, and so are results of what was broadcast."""
    if len(shape) < 3 or a.strides[-1] == 1 or min(a.strides) <= 0:
        return empty(shape, dtype, a.device)
    return empty_strided(shape, layout.strides_in_order(shape, a.strides), dtype, a.device)


def full(shape: Shape, value: Scalar, dtype: DType, device: BackendDevice) -> NDArray:
    """A compact array, every element set."""
    out = empty(shape, dtype, device)
    device.mod.fill(out, value)
    return out


def from_numpy(
    array: NumpyArray, dtype: DType, device: BackendDevice, as_bits: bool = False
) -> NDArray:
    """A copy of a NumPy array; `as_bits` when it already has the dtype's storage type."""
    if not as_bits and dtype is bfloat16:
        array = numpy_kernels.narrow(array.astype(np.float32))
    stored = np.asarray(array, dtype.storage, order="C")
    handle = device_named(device).mod.from_numpy(stored, dtype)
    return compact_view(stored.shape, dtype, device, handle)


def view_of(source: Any) -> NDArray:
    """An array around the memory of an object with `__dlpack__`, on the host or on a GPU."""
    try:
        capsule = source.__dlpack__(max_version=(1, 0))  # read-only memory needs version 1
    except TypeError:
        capsule = source.__dlpack__()
    handle, shape, strides, name = _native.from_dlpack(capsule)
    device = device_named("cuda") if handle.is_on_device else host()
    return make_view(shape, strides, 0, dtype_of(name), device, handle)


def from_device(a: NDArray) -> NumpyArray:
    """A NumPy copy in storage form (bfloat16 as bits)."""
    values = a.numpy()
    return numpy_kernels.narrow(values) if a.dtype is bfloat16 else values


def _functions() -> Any:
    """functions.py, which imports this file: the strict methods check their rules, then call it."""
    from . import functions

    return functions


def _binary(name: str, a: NDArray | Scalar, b: NDArray | Scalar) -> NDArray:
    """An operator of two arrays of one shape, or an array and a number."""
    if isinstance(a, NDArray) and isinstance(b, NDArray) and a.shape != b.shape:
        raise ValueError(
            f"[{name}] expected equal shapes, got {a.shape} and {b.shape}; use broadcast_to first."
        )
    found: NDArray = _functions().binary(name, a, b)
    return found


def _unary(name: str, a: NDArray) -> NDArray:
    found: NDArray = _functions().unary(name, a)
    return found


def as_scalar(value: object, op: str) -> Scalar:
    """A Python scalar from a Python or NumPy scalar, or an array with one element."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (np.generic, np.ndarray)) and value.size == 1:
        scalar: Any = value.item()
        if isinstance(scalar, (bool, int, float)):
            return scalar
    got = type(value).__name__ + (f" {value.shape}" if isinstance(value, np.ndarray) else "")
    raise TypeError(f"[{op}] expected an array or a number, got {got}.")
