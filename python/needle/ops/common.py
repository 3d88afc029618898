"""What operators share: taking arguments in, naming errors, and operators without mathematics."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .. import config, tracing
from ..autograd import Tensor, TensorOp
from ..dtype import Scalar as Scalar, dtype_of, promote_scalar
from ..ndarray import functions as F
from ..ndarray.array import NDArray, as_scalar, from_numpy
from ..ndarray.index.errors import saying

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=Callable[..., Any])


def is_scalar(x: Any) -> bool:
    """A Python or NumPy number (weak: it takes the dtype of the tensor beside it)."""
    return isinstance(x, (float, int, np.generic))  # a bool is an int


def constant(x: Any, like: Tensor, op: str = "constant") -> Tensor:
    """x as a tensor without gradient on like's device; a number becomes 0-d of like's dtype."""
    if isinstance(x, Tensor):
        return x
    if is_scalar(x):
        value = as_scalar(x, op)
        dtype = promote_scalar(dtype_of(like.dtype), type(value))
        F.check_fits(op, dtype, value)
        return Tensor.make_const(F.full((), value, dtype, like.device))
    if isinstance(x, NDArray):
        return Tensor.make_const(x)
    if isinstance(x, (np.ndarray, list, tuple)):
        array = np.asarray(x)
        if config.BACKEND == "np":
            return Tensor.make_const(array)
        return Tensor.make_const(from_numpy(array, dtype_of(array.dtype), like.device))
    raise TypeError(f"[{op}] expected a Tensor, an array or a number, got {type(x).__name__}.")


def check_tensor(op: str, x: Any) -> Tensor:
    """x itself if it is a Tensor; arrays and numbers are not taken for one silently."""
    if isinstance(x, Tensor):
        return x
    raise TypeError(
        f"[{op}] expected a Tensor, got {type(x).__name__}; wrap it with needle.Tensor(...)."
    )


def check_tensors(op: str, args: Any) -> list[Tensor]:
    """A list or tuple of at least one Tensor, as a list."""
    if isinstance(args, Tensor) or not isinstance(args, Sequence):
        raise TypeError(f"[{op}] expected a list or tuple of tensors, got {type(args).__name__}.")
    if not args:
        raise ValueError(f"[{op}] expected at least one tensor, got none.")
    return [check_tensor(op, x) for x in args]


def report_as(op: str, error: Exception) -> None:
    """Let an error of a part, "[part] ...", be one of op; those of tracing stay."""
    error.args = (_renamed(op, str(error)), *error.args[1:])


def _renamed(op: str, text: str) -> str:
    return re.sub(r"^\[(?!jit)\w+\]", f"[{op}]", text)


def named(function: C, name: str, doc: str) -> C:
    """A function that was made for users by another one, under its own name."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def reporting_as(op: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """For a function made of others: its errors start with [op], not with the name of a part."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                if tracing.active() is None:
                    return function(*args, **kwargs)
                with saying(lambda text, _: _renamed(op, text)):
                    return function(*args, **kwargs)
            except (TypeError, ValueError, IndexError) as error:
                report_as(op, error)
                raise

        return call

    return decorate


def lies_with(noted: Any, x: Any) -> bool:
    """Can arrays that a forward noted be used beside x? Not if there are none, or if it has only
    been run for its shape so far, as in lazy mode."""
    if not noted or type(noted[0]) is not type(x):
        return False
    return not isinstance(x, NDArray) or noted[0].device.mod is x.device.mod


def whole_number(op: str, name: str, value: Any) -> int:
    """value as an int; 2.0 is not one."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"[{op}] {name} must be a whole number, got {value!r:.60}.") from None


def zeros_like(x: Tensor) -> Tensor:
    """Zeros of x's shape, dtype and device, outside the graph."""
    if x.cached_data is None:
        return Tensor.make_const(F.full(x.shape, 0, x.dtype, x.device))
    return Tensor.make_const(F.full_like(x.cached_data, 0))


def one_of(op: str, axes: Any = None, axis: Any = None, dim: Any = None) -> Any:
    """`axes`, `axis` and `dim` mean the same: the one that was given, or None."""
    if axis is not None or dim is not None:
        given = [a for a in (axes, axis, dim) if a is not None]
        if len(given) > 1:
            raise TypeError(f"[{op}] give one of axes, axis and dim, got {given}.")
        (axes,) = given
    if axes is None or isinstance(axes, (int, tuple)) or hasattr(axes, "__index__"):
        return axes
    # Operators keep it: a list may change, and an iterator ends.
    return tuple(axes) if isinstance(axes, Iterable) else axes


def axis_or_dim(op: str, axis: Any, dim: Any, default: Any) -> Any:
    """The same where `axis` has a default that is not None: an axis beside a dim is an error."""
    if dim is None:
        return axis
    return one_of(op, axis=None if axis == default else axis, dim=dim)


class Alias(TensorOp):
    """y = x, as a node of its own"""

    linear = True
    elementwise = True

    def compute(self, a: Any) -> Any:
        return a

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return out_grad


def stand_in(x: Tensor) -> Tensor:
    """A node of its own that requires a gradient, with x's data and history: to differentiate by x
    where x may be used, or be given twice. Integers have no gradient: x itself."""
    if not dtype_of(x.dtype).is_floating:
        return x
    node = Alias()(x)
    if not node.requires_grad:
        node.requires_grad = True
    return node


class FlatOp(TensorOp):
    """An operator that is piecewise constant in its inputs: the gradient is zero."""

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return tuple(zeros_like(x) for x in node.inputs)
