"""The course's array module: `from needle import backend_ndarray as nd`."""

from ..backend import *
from ..ndarray.array import NDArray as NDArray
from ..ndarray.creation import array as array, empty as empty, full as full


def broadcast_to(array: NDArray, new_shape: tuple[int, ...]) -> NDArray:
    return array.broadcast_to(new_shape)


def reshape(array: NDArray, new_shape: tuple[int, ...]) -> NDArray:
    return array.reshape(new_shape)


def maximum(a: NDArray, b: NDArray | float) -> NDArray:
    return a.maximum(b)


def log(a: NDArray) -> NDArray:
    return a.log()


def exp(a: NDArray) -> NDArray:
    return a.exp()


def tanh(a: NDArray) -> NDArray:
    return a.tanh()


def sum(a: NDArray, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> NDArray:
    return a.sum(axis=axis, keepdims=keepdims)


def flip(a: NDArray, axes: int | tuple[int, ...]) -> NDArray:
    return a.flip(axes)


__path__: list[str] = []  # to the import system a package: course_paths.py answers for it
