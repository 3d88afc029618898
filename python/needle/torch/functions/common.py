"""What functions share: operands in one dtype, axes, and results that go into `out`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd import Tensor as EngineTensor
from ...backend import cpu
from ...dtype import DType
from ...ndarray import functions as F
from ...ops.elementwise import Cast
from ..core.dtypes import castable, dtype_in_engine, in_engine, result_in_engine
from ..core.tensor import Tensor, wrap

if TYPE_CHECKING:
    from ...types import Scalar

NUMBERS = (int, float, np.generic)


def fail(op: str, text: str, kind: type[Exception] = RuntimeError) -> Exception:
    """The error of a function of PyTorch."""
    return kind(f"[{op}] {text}")


def check(op: str, x: object) -> Any:
    """x if it is a tensor."""
    if isinstance(x, EngineTensor):
        return x
    raise TypeError(f"[{op}] expected a Tensor, got {type(x).__name__}.")


def number(value: Scalar, dtype: DType) -> Tensor:
    """A number as a tensor without axes."""
    return wrap(F.full((), plain(value), dtype, cpu()))


def plain(value: object) -> Scalar:
    """A number of Python's: NumPy's become that."""
    return value.item() if isinstance(value, (np.generic, EngineTensor)) else value  # type: ignore[return-value]


def cast(x: Any, dtype: DType) -> Any:
    """x in needle's dtype; itself if it has that."""
    return x if dtype_in_engine(x) is dtype else Cast(dtype)(x)


def operand(x: object, dtype: DType) -> Any:
    """A tensor or a number as a tensor of this dtype."""
    return cast(x, dtype) if isinstance(x, EngineTensor) else number(x, dtype)  # type: ignore[arg-type]


def in_result_type(*xs: object) -> tuple[Any, ...]:
    """The operands as tensors of the dtype that PyTorch gives their result."""
    dtype = result_in_engine(*xs)
    return tuple([operand(x, dtype) for x in xs])


def is_floating(x: Any) -> bool:
    """Has the tensor a floating dtype?"""
    return bool(dtype_in_engine(x).is_floating)


def as_floating(x: Any) -> Any:
    """The tensor, if it has a floating dtype; else in the default dtype."""
    from ..core.dtypes import default_in_engine

    return x if dtype_in_engine(x).is_floating else Cast(default_in_engine())(x)


def cast_if(x: Any, dtype: object) -> Any:
    """x in PyTorch's dtype, if one is given."""
    return x if dtype is None else cast(x, in_engine(dtype))


def axis_of(op: str, dim: int, ndim: int) -> int:
    """An axis from 0; a tensor without axes is looked at as one with one."""
    size = max(ndim, 1)
    if not isinstance(dim, int):
        dim = dim.__index__()
    if not -size <= dim < size:
        raise IndexError(
            f"[{op}] Dimension out of range (expected to be in range of [{-size}, {size - 1}], "
            f"but got {dim})"
        )
    return dim % size


def axes_of(op: str, dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Axes from 0; None and () are all."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return tuple(range(ndim))
    given = dim if isinstance(dim, Sequence) else (dim,)
    found = [axis_of(op, d, ndim) for d in given]
    if len(set(found)) != len(found):
        raise fail(op, f"dim {given} appears multiple times in the list of dims")
    return tuple(found) if ndim else ()


def sizes_of(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """(2, 3), ((2, 3),) -> (2, 3)"""
    if (len(sizes) == 1 and not hasattr(sizes[0], "__index__")) or (
        len(sizes) == 1 and isinstance(sizes[0], EngineTensor) and sizes[0].shape
    ):
        sizes = tuple(sizes[0])
    return tuple([s if type(s) is int else s.__index__() for s in sizes])


def give(op: str, out: Tensor, result: Any) -> Tensor:
    """Write a result into the tensor that was given for it."""
    from ..core.writing import overwrite

    own, target = dtype_in_engine(result), dtype_in_engine(out)
    if not castable(own, target):
        raise fail(op, f"result type {own} can't be cast to the desired output type {target}")
    if out.requires_grad or result.requires_grad:
        raise fail(
            op,
            "functions with out=... arguments don't support automatic differentiation, but "
            "one of the arguments requires grad.",
        )
    overwrite(out, result)
    return out


def takes_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a keyword `out`, into which the result goes (a tensor, or several)."""
    name = function.__name__

    @functools.wraps(function)
    def call(*args: Any, out: Any = None, **options: Any) -> Any:
        result = function(*args, **options)
        if out is None:
            return result
        if isinstance(out, EngineTensor):
            return give(name, out, result)  # type: ignore[arg-type]
        given = [give(name, o, r) for o, r in zip(out, result, strict=True)]
        return type(result)(given)

    return call
