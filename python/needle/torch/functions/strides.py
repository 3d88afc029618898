"""`as_strided`: a view of all of a tensor's memory, and its gradient by way of that memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...autograd import TensorOp
from ...ndarray import functions as F
from ...ndarray.array import from_numpy, make_view
from ...ndarray.index.gather import has_overlap
from ...tracing import active
from .common import fail


class Layout(NamedTuple):
    """Where in memory the elements are."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def end(self) -> int:
        """Behind the last element."""
        if not math.prod(self.shape):
            return 0
        steps = zip(self.shape, self.strides, strict=True)
        return self.offset + sum((n - 1) * s for n, s in steps) + 1

    def of(self, memory: Any) -> Any:
        """The elements of a row of NumPy's."""
        strides = [memory.itemsize * s for s in self.strides]
        return np.lib.stride_tricks.as_strided(memory[self.offset :], self.shape, strides)


def layout_of(a: Any) -> Layout:
    """Where an array's elements are."""
    return Layout(tuple(a.shape), tuple(a.strides), a.offset)


class AsStrided(TensorOp):
    """y = the memory of x in another layout"""

    linear = True

    def __init__(self, size: tuple[int, ...], stride: tuple[int, ...], offset: int, x: Any):
        self.wanted, self.given = Layout(size, stride, offset), layout_of(x)
        self.overlaps = has_overlap(x)
        least = min((*size, *stride, offset), default=0)
        if least < 0 or self.wanted.end > x._handle.size:
            raise fail(
                "as_strided",
                f"setStorage: sizes {size}, strides {stride}, storage offset {offset} are out of "
                f"bounds for storage of size {x._handle.size}",
            )

    def compute(self, a: Any) -> Any:
        if active() is not None:
            from ...compiler.errors import TraceError

            raise TraceError(
                "[as_strided] a compiled function does not know the memory of its arguments; use "
                "views (x[...], unfold, transpose), or call as_strided outside."
            )
        if layout_of(a) != self.given or self.wanted.end > a._handle.size:
            raise fail("as_strided", "the tensor that it is a view of lies in other memory by now; "
                       "take the view of a contiguous clone().")  # fmt: skip
        return make_view(*self.wanted, a.dtype, a.device, a._handle)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        if self.overlaps:
            raise fail("as_strided", "the gradient of a tensor with elements that share memory is "
                       "missing; take the view of a contiguous clone().")  # fmt: skip
        return ByMemory(self.wanted, self.given, True)(out_grad)


class ByMemory(TensorOp):
    """Elements put (or added) where one layout has them in a memory of zeros, and what another
    layout has there"""

    linear = True

    def __init__(self, source: Layout, target: Layout, adds: bool):
        self.source, self.target, self.adds = source, target, adds

    def compute(self, a: Any) -> Any:
        values = (F.cast(a, "float32") if a.dtype == "bfloat16" else a).numpy()
        memory = np.zeros(max(self.source.end, self.target.end), values.dtype)
        if self.adds:
            places = self.source.of(np.arange(memory.size))
            np.add.at(memory, places.reshape(-1), values.reshape(-1))
        else:
            self.source.of(memory)[...] = values
        return from_numpy(self.target.of(memory).copy(), a.dtype, a.device)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return ByMemory(self.target, self.source, not self.adds)(out_grad)
