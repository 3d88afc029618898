"""`torch.dtype`, how dtypes combine in PyTorch, and the default dtype.

A dtype of the face is a DType of needle under PyTorch's name, so that both mean the same to the
engine. Promotion has categories (bool < integer < floating), which decide before sizes do: an
operand of a lower category, of no axes or a number, leaves the dtype of the others as it is.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ... import _native, dtype as engine
from ...dtype import DType

if TYPE_CHECKING:
    from .tensor import Tensor

ALIASES = {
    "half": "float16", "float": "float32", "double": "float64", "short": "int16", "int": "int32",
    "long": "int64",
}  # fmt: skip
_NODE: Any = _native.NodeBase
dtype_in_engine = _NODE.dtype.__get__  # of a tensor, as needle's DType


class dtype(DType):
    """PyTorch's type of elements."""

    def __repr__(self) -> str:
        return f"torch.{str.__str__(self)}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return (face_dtype, (str.__str__(self),))

    @property
    def is_floating_point(self) -> bool:
        """Is it a floating type?"""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """No: there are none yet."""
        return False

    @property
    def is_signed(self) -> bool:
        """Has it negative numbers?"""
        return self.kind in "if"

    def to_real(self) -> dtype:
        """The type of real parts: itself."""
        return self


_BY_NAME = {str(d): dtype(str(d), d.kind, d.storage.name) for d in engine.DTYPES}


def face_dtype(spec: object) -> dtype:
    """PyTorch's dtype of needle's, of a name, or of NumPy's."""
    found = _BY_NAME.get(spec) if isinstance(spec, str) else None
    return _BY_NAME[str.__str__(engine.dtype_of(spec))] if found is None else found


def in_engine(spec: object) -> DType:
    """Needle's dtype of PyTorch's; Python's float is the default dtype."""
    if spec is float:
        return _default
    if isinstance(spec, str) and type(spec) is not DType:
        return ENGINE[spec] if spec in ENGINE else engine.dtype_of(ALIASES.get(spec, spec))
    if spec is int:
        return engine.int64
    return engine.dtype_of(spec)


ENGINE = {str(d): d for d in engine.DTYPES}
float32, float64, float16, bfloat16 = (
    _BY_NAME[n] for n in ("float32", "float64", "float16", "bfloat16")
)
int8, int16, int32, int64, uint8 = (
    _BY_NAME[n] for n in ("int8", "int16", "int32", "int64", "uint8")
)
bool_ = _BY_NAME["bool"]

_default = engine.float32


def get_default_dtype() -> dtype:
    """The dtype of floats when nothing else is said."""
    return face_dtype(_default)


def default_in_engine() -> DType:
    """The same as needle's."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Choose the dtype of floats when nothing else is said."""
    global _default
    chosen = in_engine(d)
    if not chosen.is_floating:
        raise TypeError(f"[set_default_dtype] only floating-point types are supported, got {d}.")
    _default = chosen


# Promotion ----------------------------------------------------------------------------------------


@cache
def promoted(a: DType, b: DType) -> DType:
    """The type that holds both, by PyTorch's table."""
    if a is b:
        return a
    if a.kind == "f" and b.kind == "f":
        return engine.promote(a, b)
    if "f" in (a.kind, b.kind):
        return a if a.kind == "f" else b
    return engine.promote(a, b)


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest type that holds both."""
    return face_dtype(promoted(in_engine(type1), in_engine(type2)))


def can_cast(from_: dtype, to: dtype) -> bool:
    """May a result of one type be written into a tensor of the other?"""
    return castable(in_engine(from_), in_engine(to))


def castable(a: DType, b: DType) -> bool:
    """The same of needle's: not into a lower category."""
    order = {"b": 0, "i": 1, "u": 1, "f": 2}
    return order[a.kind] <= order[b.kind]


class _Kinds(NamedTuple):
    """The types of operands with axes, without, and of numbers; None where there are none."""

    axes: DType | None = None
    none: DType | None = None
    number: DType | None = None


def number_dtype(x: object) -> DType:
    """The type that a number of Python's or NumPy's has in PyTorch."""
    if isinstance(x, (bool, np.bool_)):
        return engine.bool_
    if isinstance(x, (int, np.integer)):
        return engine.int64
    if isinstance(x, (float, np.floating)):
        return _default
    raise TypeError(f"expected a Tensor or a number, got {type(x).__name__}.")


def _joined(a: DType | None, b: DType) -> DType:
    return b if a is None else promoted(a, b)


def _over(higher: DType | None, lower: DType | None) -> DType | None:
    """The type of operands that decide, beside those that only may raise the category."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.kind == "f":
        return higher
    if higher.kind == "b" or lower.kind == "f":
        return promoted(higher, lower)
    return higher


def result_in_engine(*operands: Tensor | object) -> DType:
    """The type of a result of these tensors and numbers."""
    kinds = _Kinds()
    for x in operands:
        if isinstance(x, _native.NodeBase):
            own = dtype_in_engine(x)
            if x.shape:
                kinds = kinds._replace(axes=_joined(kinds.axes, own))
            else:
                kinds = kinds._replace(none=_joined(kinds.none, own))
        else:
            kinds = kinds._replace(number=_joined(kinds.number, number_dtype(x)))
    found = _over(kinds.axes, _over(kinds.none, kinds.number))
    assert found is not None
    return found


def result_type(tensor1: Tensor | object, tensor2: Tensor | object) -> dtype:
    """The type of an arithmetic operation on two tensors or numbers."""
    return face_dtype(result_in_engine(tensor1, tensor2))


# Limits -------------------------------------------------------------------------------------------


class finfo:
    """The limits of a floating type."""

    def __init__(self, type: dtype | None = None):
        kind = _default if type is None else in_engine(type)
        if not kind.is_floating:
            raise TypeError(f"torch.finfo() requires a floating point input type, got {kind}.")
        known = engine.finfo(kind)
        self.min, self.max, self.eps, self.tiny = known.min, known.max, known.eps, known.tiny
        self.bits, self.smallest_normal, self.dtype = known.bits, known.tiny, str.__str__(kind)
        self.resolution = 10.0 ** -{"float16": 3, "bfloat16": 2, "float32": 6}.get(kind, 15)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.tiny:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """The limits of an integer type."""

    def __init__(self, type: dtype):
        kind = in_engine(type)
        if not kind.is_integer:
            raise TypeError(f"torch.iinfo() requires an integer input type, got {kind}.")
        known = engine.iinfo(kind)
        self.min, self.max, self.bits = int(known.min), int(known.max), known.bits
        self.dtype = str.__str__(kind)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
