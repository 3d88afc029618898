"""One record per operator: what it computes, on what, and what is true of it.

The tests beside this file loop over all records. A record's *calls* are argument lists in which

- a tuple of ints is a shape: an array of floats from the record's domain is drawn for it;
- an ndarray is used as it is;
- a list holds several of those;
- anything else (numbers, strings, keywords, `Plain((2, 3))`) is passed on.

The reference gets the same arguments with NumPy arrays where the operator gets tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import needle as ndl
from needle.dtype import DTYPES, DType, bfloat16, bool_, float32, float64

Array = np.ndarray[Any, Any]

FLOATS = tuple(d for d in DTYPES if d.is_floating)
INTEGERS = tuple(d for d in DTYPES if d.is_integer)
NUMBERS = (*FLOATS, *INTEGERS)


@dataclass(frozen=True)
class Plain:
    """An argument that is passed on as it is, though it looks like a shape."""

    value: Any


class Call:
    """The arguments of one call; see the first lines of this file."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        named = [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"({', '.join([*map(_shown, self.args), *named])})"


def _shown(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else repr(x)


@dataclass(frozen=True)
class Raises:
    """A mistake, and the error that it must give."""

    call: Callable[..., Any]  # gets the operator
    error: type[Exception]
    match: str


@dataclass(frozen=True)
class OpRecord:
    """An operator and the facts that the tests check."""

    name: str  # in needle (or needle.ops)
    reference: Callable[..., Any]  # the same on NumPy arrays, right in float64
    calls: tuple[Call, ...]
    domain: tuple[float, float] = (-2.0, 2.0)
    dtypes: tuple[DType, ...] = NUMBERS
    order: int = 2  # how often it can be differentiated; 0: its result has no gradient
    forward_mode: bool = True
    data_dependent: bool = False  # its shape depends on the elements
    exact: bool = False  # moves elements, or compares: no rounding at all
    tolerance: dict[str, float] = field(default_factory=dict)  # relative, by dtype
    reason: str = ""  # why a tolerance is not the usual one
    errors: tuple[Raises, ...] = ()
    function: Callable[..., Any] | None = None  # when the operator is reached in another way
    result_dtype: Callable[[DType], str] | None = None  # where NumPy's own rule is not ours
    returns_tuple: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.operator(*args, **kwargs)

    @property
    def operator(self) -> Callable[..., Any]:
        if self.function is not None:
            return self.function
        found: Callable[..., Any] = getattr(ndl.ops, self.name)
        return found

    @property
    def supported(self) -> tuple[DType, ...]:
        """The dtypes that tensors can have here: NumPy has no bfloat16."""
        return tuple(d for d in self.dtypes if ndl.BACKEND == "nd" or d is not bfloat16)

    @property
    def differentiable(self) -> bool:
        return self.order > 0

    def __str__(self) -> str:
        return self.name


# Arguments --------------------------------------------------------------------------------------

TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}


def is_shape(x: Any) -> bool:
    return isinstance(x, tuple) and all(isinstance(n, int) for n in x)


class Arguments:
    """The arrays of one call, and how to make the operator's and the reference's arguments."""

    def __init__(self, record: OpRecord, call: Call, dtype: DType = float64, seed: int = 0):
        self.record = record
        self.call = call
        self.dtype = dtype
        rng = np.random.default_rng(seed)
        self.args = tuple(self._draw(a, rng) for a in call.args)
        self.kwargs = {k: self._draw(v, rng, named=True) for k, v in call.kwargs.items()}

    def _draw(self, x: Any, rng: np.random.Generator, named: bool = False) -> Any:
        if isinstance(x, list) and not named:
            return [self._draw(v, rng) for v in x]
        if is_shape(x) and not named:
            return sample(rng, x, self.record.domain, self.dtype)
        if isinstance(x, np.ndarray) and x.dtype == np.float64:
            return as_dtype(x, self.dtype)
        return x

    def tensors(
        self,
        device: Any = None,
        place: Callable[..., Any] | None = None,
        requires_grad: bool = False,
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the operator gets; `place(array, dtype)` may choose the memory layout."""

        def convert(x: Any) -> Any:
            if isinstance(x, list):
                return [convert(v) for v in x]
            if isinstance(x, Plain):
                return x.value
            if not isinstance(x, np.ndarray):
                return x
            dtype = self.dtype_of(x)
            if place is not None:
                return ndl.Tensor(place(x, dtype), requires_grad=requires_grad)
            keep = requires_grad and dtype.is_floating
            return ndl.Tensor(x, dtype=dtype, device=device, requires_grad=keep)

        return tuple(map(convert, self.args)), {k: convert(v) for k, v in self.kwargs.items()}

    def dtype_of(self, x: Array) -> DType:
        """bfloat16 values travel in float32 arrays."""
        is_drawn = x.dtype == np.float32 and self.dtype is bfloat16
        return bfloat16 if is_drawn else ndl.dtype.dtype_of(x.dtype)

    def arrays(self, dtype: Any = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the reference gets; floating arrays as `dtype` (float64 when it is None)."""

        def convert(x: Any) -> Any:
            if isinstance(x, list):
                return [convert(v) for v in x]
            if isinstance(x, Plain):
                return x.value
            if isinstance(x, np.ndarray) and x.dtype.kind == "f":
                return x.astype(np.float64 if dtype is None else dtype)
            return x

        return tuple(map(convert, self.args)), {k: convert(v) for k, v in self.kwargs.items()}

    def floats(self) -> Iterator[Array]:
        """Every floating array among the arguments."""
        for x in (*self.args, *self.kwargs.values()):
            for v in x if isinstance(x, list) else [x]:
                if isinstance(v, np.ndarray) and v.dtype.kind == "f":
                    yield v


def sample(
    rng: np.random.Generator, shape: tuple[int, ...], domain: tuple[float, float], dtype: DType
) -> Array:
    """Random values of a dtype in the domain (integers stay small)."""
    low, high = domain
    if dtype is bool_:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_integer:
        least = 0 if dtype.kind == "u" else -5
        first, last = max(int(np.ceil(low * 2)), least), max(int(np.floor(high * 2)), 1)
        return np.asarray(rng.integers(first, last + 1, shape).astype(dtype.storage))
    return as_dtype(np.asarray(rng.uniform(low, high, shape)), dtype)


def as_dtype(values: Array, dtype: DType) -> Array:
    """Rounded to a dtype; bfloat16 in a float32 array whose values it can hold."""
    if dtype is bfloat16:
        bits = values.astype(np.float32).view(np.uint32)
        return np.asarray(bits & np.uint32(0xFFFF0000)).view(np.float32)
    return values.astype(dtype.storage)


def results(value: Any) -> list[Any]:
    """One or several results as a list."""
    if isinstance(value, ndl.TensorTuple):
        return list(value.tuple())
    return list(value) if isinstance(value, (tuple, list)) else [value]


def assert_matches(
    record: OpRecord, actual: Any, expected: Any, dtype: DType | str, about: str
) -> None:
    """Values within the record's tolerance for the dtype, relative to the largest one."""
    ours, theirs = actual.numpy(), np.asarray(expected)
    assert ours.shape == theirs.shape, f"{about}: shape {ours.shape} instead of {theirs.shape}"
    if ours.dtype.kind != "f" or record.exact:
        np.testing.assert_array_equal(ours, theirs.astype(ours.dtype), about)
        return
    relative = record.tolerance.get(str(dtype), TOLERANCE.get(str(dtype), 1e-12))
    finite = theirs[np.isfinite(theirs)]
    scale = float(np.max(np.abs(finite), initial=1.0))
    np.testing.assert_allclose(ours, theirs, rtol=relative, atol=relative * scale, err_msg=about)


__all__ = ["FLOATS", "INTEGERS", "NUMBERS", "Call", "OpRecord", "Plain", "Raises", "float32"]
