"""The course's creation functions, as module functions and as methods of a device.

All give arrays of the kind that tensors hold: NDArrays, or NumPy's own with NEEDLE_BACKEND=np.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import config
from ..backend import BackendDevice, default_device, device_named
from ..dtype import dtype_of
from . import functions, layout, random
from .array import NDArray, empty as _empty
from .index import gather as select

if TYPE_CHECKING:
    from ..types import ArrayLike, DTypeLike, NumpyArray, Scalar, Sizes


def array(
    a: ArrayLike, dtype: DTypeLike = "float32", device: BackendDevice | None = None
) -> NDArray:
    """A copy of nested lists, a NumPy array or an NDArray."""
    return NDArray(a, device=device, dtype=dtype)


def empty(
    shape: Sizes, dtype: DTypeLike = "float32", device: BackendDevice | None = None
) -> NumpyArray | NDArray:
    """Memory whose elements are not set."""
    sizes = layout.check_sizes(layout.normalize_shape(shape, "empty"), "empty")
    if config.BACKEND == "np":
        return np.empty(sizes, dtype_of(dtype).storage)
    return _empty(sizes, dtype_of(dtype), device_named(device or default_device()))


def full(
    shape: Sizes,
    fill_value: Scalar,
    dtype: DTypeLike = "float32",
    device: BackendDevice | None = None,
) -> NumpyArray | NDArray:
    """Every element is fill_value."""
    sizes = layout.check_sizes(layout.normalize_shape(shape, "full"), "full")
    return functions.full(sizes, fill_value, dtype, device_named(device or default_device()))


def _rand(device: BackendDevice, *shape: int, dtype: DTypeLike = "float32") -> Any:
    """Evenly distributed numbers in [0, 1)."""
    return random.default_generator().uniform(shape, dtype=dtype, device=device)


def _randn(
    device: BackendDevice, *shape: int, dtype: DTypeLike = "float32"
) -> NumpyArray | NDArray:
    """Normally distributed numbers."""
    return random.default_generator().normal(shape, dtype=dtype, device=device)


def _one_hot(device: BackendDevice, n: int, i: ArrayLike, dtype: DTypeLike = "float32") -> NDArray:
    """1 at the positions i and 0 elsewhere, on a new last axis of size n."""
    if config.BACKEND == "np":
        index: Any = np.asarray(i)
    else:
        index = i.to(device) if isinstance(i, NDArray) else NDArray(i, device, "int64")
    return select.one_hot(index, n, dtype)


def _empty_on(
    device: BackendDevice, shape: Sizes, dtype: DTypeLike = "float32"
) -> NumpyArray | NDArray:
    """Memory whose elements are not set."""
    return empty(shape, dtype, device)


def _full_on(
    device: BackendDevice, shape: Sizes, fill_value: Scalar, dtype: DTypeLike = "float32"
) -> NumpyArray | NDArray:
    """Every element is fill_value."""
    return full(shape, fill_value, dtype, device)


def install() -> None:
    """Give devices the course's creation methods: they know arrays, which backend does not."""
    for name, method in (
        ("rand", _rand),
        ("randn", _randn),
        ("one_hot", _one_hot),
        ("empty", _empty_on),
        ("full", _full_on),
    ):
        setattr(BackendDevice, name, method)


install()
