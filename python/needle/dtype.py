"""Element types and how they combine: the one place that knows them.

A `DType` is a string with facts attached, so `x.dtype == "float32"` holds and NumPy accepts it.
Promotion is NumPy's. Python scalars are weak: they take the array's type within their kind.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .types import DTypeLike

__all__ = [
    "DType", "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64",
    "uint8", "bool_", "finfo", "iinfo",
]  # fmt: skip

Scalar = bool | int | float  # Python's numbers


class DType(str):
    """The type of an array's elements: its name, size, kind and how NumPy stores it."""

    itemsize: int
    kind: str  # "b" bool, "i" signed, "u" unsigned, "f" floating
    storage: np.dtype[Any]  # bfloat16 has no NumPy type: its bits are kept as uint16

    def __new__(cls, name: str, kind: str, storage: str) -> DType:
        self = super().__new__(cls, name)
        self.kind = kind
        self.storage = np.dtype(storage)
        self.itemsize = self.storage.itemsize
        return self

    @property
    def is_floating(self) -> bool:
        """Is it float16, bfloat16, float32 or float64?"""
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Is it a signed or unsigned integer type? (bool is not.)"""
        return self.kind in "iu"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, str):
            return str.__eq__(self, other)
        if isinstance(other, (np.dtype, type)):
            return _from_numpy.get(_numpy_name(other)) is self
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __repr__(self) -> str:
        return f"needle.{self!s}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype_of, (str(self),))


float32 = DType("float32", "f", "float32")
float64 = DType("float64", "f", "float64")
float16 = DType("float16", "f", "float16")
bfloat16 = DType("bfloat16", "f", "uint16")
int8 = DType("int8", "i", "int8")
int16 = DType("int16", "i", "int16")
int32 = DType("int32", "i", "int32")
int64 = DType("int64", "i", "int64")
uint8 = DType("uint8", "u", "uint8")
bool_ = DType("bool", "b", "bool")

DTYPES: tuple[DType, ...] = (
    float32, float64, float16, bfloat16, int8, int16, int32, int64, uint8, bool_,
)  # fmt: skip

_COMPUTED_IN = {float16: float32, bfloat16: float32, int8: int32, int16: int32, uint8: int32}
_by_name = {str(d): d for d in DTYPES}
_from_numpy = {d.storage.name: d for d in DTYPES if d is not bfloat16}


def _numpy_name(spec: Any) -> str:
    try:
        return str(np.dtype(spec).name)
    except TypeError:
        return ""


@cache
def _lookup(spec: object) -> DType | None:
    if isinstance(spec, str) and spec in _by_name:
        return _by_name[spec]
    if spec is None:  # NumPy's default type, float64, would be a surprise
        return None
    return _from_numpy.get(_numpy_name(spec))


def dtype_of(spec: object) -> DType:
    """The DType that a name, a NumPy dtype or a Python type (float, int, bool) stands for."""
    if type(spec) is DType:
        return spec
    if type(spec) is str and spec in _by_name:
        return _by_name[spec]
    name = getattr(spec, "name", None)
    if name == "bfloat16":  # ml_dtypes' and torch's bfloat16 carry this name
        return bfloat16
    try:
        found = _lookup(spec)
    except (TypeError, ValueError):  # unhashable, or an array: not a dtype at all
        found = None
    if found is None:
        raise TypeError(
            f"[dtype] expected one of {', '.join(_by_name)}, got {spec!r:.60}; "
            "convert the data first, for example with numpy's astype."
        )
    return found


@cache
def promote(a: DType, b: DType) -> DType:
    """The type that holds both: NumPy's table, with bfloat16 beside float16.

    >>> promote(int32, float32), promote(bfloat16, int8), promote(bfloat16, float16)
    (needle.float64, needle.bfloat16, needle.float32)
    """
    if a is b:
        return a
    if bfloat16 in (a, b):
        other = b if a is bfloat16 else a
        if other is float16:
            return float32
        # bfloat16 stands where float16 stands in NumPy's table.
        with_half = promote(float16, other)
        return bfloat16 if with_half is float16 else with_half
    return dtype_of(np.promote_types(a.storage, b.storage))


def promote_scalar(a: DType, scalar_type: type) -> DType:
    """The type of (array of type a) op (Python scalar): the scalar is weak.

    >>> promote_scalar(float32, float), promote_scalar(int8, int), promote_scalar(int8, float)
    (needle.float32, needle.int8, needle.float64)
    """
    if a.kind == "f" or issubclass(scalar_type, bool):
        return a
    if issubclass(scalar_type, int):
        return int64 if a is bool_ else a
    return float64


@cache
def floating(a: DType) -> DType:
    """The type in which exp, sin, ... of a are computed (NumPy's rule for unary functions)."""
    if a.is_floating:
        return a
    return {1: float16, 2: float32}.get(a.itemsize, float64)


@cache
def widened(a: DType) -> DType:
    """The type in which sums on the way to a result of a are kept: float32 for the half types."""
    return float32 if a in (float16, bfloat16) else a


@cache
def computed_in(a: DType) -> DType:
    """The type that tile programs compute values of a dtype in."""
    return _COMPUTED_IN.get(a, a)


def summed(a: DType) -> DType:
    """The type of a sum or product: integers and bools widen to int64, floats stay."""
    return a if a.is_floating else int64


@cache
def averaged(spec: object) -> DType:
    """The type of a mean: float64 for integers and bools, floats stay."""
    a = dtype_of(spec)
    return a if a.is_floating else float64


@cache
def accumulator(spec: object) -> DType:
    """The type in which sums on the way to a mean are kept."""
    return widened(averaged(spec))


class Limits(NamedTuple):
    """The numbers that a type has: the ends, and of floats the step above 1 and the least > 0."""

    min: float
    max: float
    bits: int
    eps: float = 1
    tiny: float = 1

    @property
    def smallest_normal(self) -> float:
        """Another name of `tiny`, as PyTorch has it."""
        return self.tiny


def finfo(dtype: DTypeLike = "float32") -> Limits:
    """PyTorch's `finfo`: the limits of a floating type.

    >>> finfo("bfloat16").eps, finfo(float32).min
    (0.0078125, -3.4028234663852886e+38)
    """
    kind = dtype_of(dtype)
    if not kind.is_floating:
        raise TypeError(f"[finfo] expected a floating dtype, got {kind}; iinfo is for integers.")
    bits = 8 * kind.itemsize
    if kind is bfloat16:  # float32 with 7 bits behind the point
        largest = (2 - 2.0**-7) * 2.0**127
        return Limits(-largest, largest, bits, 2.0**-7, 2.0**-126)
    known = np.finfo(kind.storage)
    low, high, eps, tiny = map(float, (known.min, known.max, known.eps, known.tiny))
    return Limits(low, high, bits, eps, tiny)


def iinfo(dtype: DTypeLike) -> Limits:
    """PyTorch's `iinfo`: the limits of an integer type.

    >>> iinfo(int8).max
    127
    """
    kind = dtype_of(dtype)
    if not kind.is_integer:
        raise TypeError(f"[iinfo] expected an integer dtype, got {kind}; finfo is for floats.")
    known = np.iinfo(kind.storage)
    return Limits(int(known.min), int(known.max), 8 * kind.itemsize)
