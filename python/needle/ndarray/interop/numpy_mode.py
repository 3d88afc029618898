"""NumPy arrays as NDArrays over the reference kernels and back, without copies."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ... import config
from ...backend import cpu_numpy
from ...backend.reference import Handle, view
from ...dtype import bfloat16, dtype_of
from ..array import NDArray, compact_view, make_view

if TYPE_CHECKING:
    from ...types import NumpyArray

F = TypeVar("F", bound=Callable[..., Any])


def wrap(array: NumpyArray) -> NDArray:
    """An NDArray over the memory of a NumPy array with any strides."""
    dtype = dtype_of(array.dtype)
    size = dtype.itemsize
    if any(s % size for s in array.strides):
        array = array.copy()  # not a whole number of elements apart: a field of a record
    if array.flags.c_contiguous:
        handle = Handle(array.reshape(-1), dtype)
        return compact_view(array.shape, dtype, cpu_numpy(), handle)
    strides = tuple(s // size for s in array.strides)
    # The element with the lowest address, and how many elements lie from it to the highest one.
    corner = tuple(
        slice(n - 1, n) if s < 0 else slice(0, 1) for n, s in zip(array.shape, strides, strict=True)
    )
    reach = [(n - 1) * s for n, s in zip(array.shape, strides, strict=True)]
    extent = sum(map(abs, reach)) + 1
    flat = as_strided(array[corner], (extent,), (size,))
    offset = -sum(r for r in reach if r < 0)
    return make_view(array.shape, strides, offset, dtype, cpu_numpy(), Handle(flat, dtype))


def unwrap(a: NDArray) -> NumpyArray:
    """The NumPy view of an NDArray that lies on the reference device."""
    if a.dtype is bfloat16:
        raise TypeError("[numpy] NumPy has no bfloat16: use NEEDLE_BACKEND=nd for it.")
    return view(a)


def _deep(convert: Callable[[object], object], value: object) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_deep(convert, v) for v in value)
    return convert(value)


def over_numpy(function: Callable[..., Any]) -> Any:
    """The same function on NumPy arrays; what is not one passes through."""

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        had_numpy = False

        def enter(value: object) -> object:
            nonlocal had_numpy
            if isinstance(value, np.ndarray):
                had_numpy = True
                return wrap(value)
            return value

        args = _deep(enter, args)
        kwargs = {k: _deep(enter, v) for k, v in kwargs.items()}
        result = function(*args, **kwargs)
        if not had_numpy:
            return result
        return _deep(lambda v: unwrap(v) if isinstance(v, NDArray) else v, result)

    return wrapped


def array_function(function: F) -> F:
    """Let a function take and return NumPy arrays when those are the tensors' arrays."""
    return over_numpy(function) if config.BACKEND == "np" else function
