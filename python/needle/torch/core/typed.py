"""PyTorch's old classes: `FloatTensor` and its kin."""

from __future__ import annotations

from typing import Any

from ...dtype import DType
from ..functions.creation import typed
from .dtypes import ENGINE, dtype_in_engine, in_engine
from .tensor import Tensor, wrap

CLASSES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16", "ByteTensor": "uint8", "CharTensor": "int8",
    "ShortTensor": "int16", "IntTensor": "int32", "LongTensor": "int64", "BoolTensor": "bool",
}  # fmt: skip


class TypedMeta(type):
    """`isinstance(x, torch.FloatTensor)` is a question about x's dtype."""

    kind: DType

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and dtype_in_engine(x) is cls.kind

    def __call__(cls, *data: Any, device: object = None) -> Tensor:
        return wrap(typed(cls.kind, data, device))


def _class(name: str, dtype: str) -> TypedMeta:
    return TypedMeta(name, (), {"kind": ENGINE[dtype], "__module__": "torch"})


FloatTensor, DoubleTensor, HalfTensor, BFloat16Tensor = (
    _class(n, CLASSES[n]) for n in ("FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor")
)
ByteTensor, CharTensor, ShortTensor = (
    _class(n, CLASSES[n]) for n in ("ByteTensor", "CharTensor", "ShortTensor")
)
IntTensor, LongTensor, BoolTensor = (
    _class(n, CLASSES[n]) for n in ("IntTensor", "LongTensor", "BoolTensor")
)


def class_of(dtype: DType) -> str:
    """The name of a dtype's class."""
    return "torch." + next(name for name, own in CLASSES.items() if own == str.__str__(dtype))


def dtype_of_class(given: Any) -> DType:
    """The dtype of an old class, of its name, or of a dtype."""
    if isinstance(given, TypedMeta):
        return given.kind
    if isinstance(given, str) and not isinstance(given, DType):
        name = given.removeprefix("torch.")
        return ENGINE[CLASSES[name]] if name in CLASSES else in_engine(name)
    return in_engine(given)
