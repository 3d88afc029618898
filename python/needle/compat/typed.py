"""PyTorch's old constructors, `FloatTensor` and its kin: data, or sizes, in one dtype."""

from __future__ import annotations

from typing import Any

from ..autograd import Tensor
from ..init.basic import tensor, zeros

__all__ = ["FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "ByteTensor", "BoolTensor"]


class TypedTensor:
    """`FloatTensor([1, 2])` holds this data, `FloatTensor(2, 3)` zeros of this shape."""

    def __init__(self, dtype: str):
        self.dtype = dtype

    def __call__(self, *data: Any) -> Tensor:
        if not data or all(isinstance(size, int) for size in data):
            return zeros(*data or (0,), dtype=self.dtype)
        (values,) = data
        return tensor(values, dtype=self.dtype)


FloatTensor = TypedTensor("float32")
DoubleTensor = TypedTensor("float64")
LongTensor = TypedTensor("int64")
IntTensor = TypedTensor("int32")
ByteTensor = TypedTensor("uint8")
BoolTensor = TypedTensor("bool")
