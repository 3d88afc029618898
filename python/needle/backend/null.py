"""A device that computes nothing: arrays on it have shape, dtype and layout, but no elements.

Running an operator's `compute` on such arrays is shape inference: lazy mode uses it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ..dtype import DType
from .device import BackendDevice

if TYPE_CHECKING:
    from ..types import NumpyArray


class NeedsData(Exception):
    """Raised where a shape depends on the elements themselves (nonzero, boolean masks, item)."""


class Handle:
    """The size and type of memory that was never allocated."""

    __slots__ = ("size", "dtype", "__weakref__")

    def __init__(self, size: int, dtype: DType):
        self.size = size
        self.dtype = dtype

    def ptr(self) -> int:
        return 0


class _Kernels:
    """Every kernel of the contract: allocation counts, the rest does nothing."""

    def empty(self, size: int, dtype: DType) -> Handle:
        return Handle(size, dtype)

    def from_numpy(self, array: NumpyArray, dtype: DType) -> Handle:
        return Handle(array.size, dtype)

    def to_numpy(self, a: object) -> Any:
        raise NeedsData("[null] this array has a shape but no elements.")

    def nonzero(self, a: object) -> Handle:
        raise NeedsData("[nonzero] the number of true elements depends on the data.")

    def __getattr__(self, name: str) -> Any:
        return _nothing


def _nothing(*args: object, **kwargs: object) -> None:
    return None


@cache
def null_of(name: str) -> BackendDevice:
    """The device that stands for the one of that name, and equals it by name."""
    return BackendDevice(name, _Kernels())


def is_null(device: BackendDevice) -> bool:
    """Do arrays on this device have no elements?"""
    return isinstance(device.mod, _Kernels)
