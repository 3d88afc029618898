"""What operators share: taking arguments in, naming errors, and operators without mathematics."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypedDict, TypeVar, overload

import numpy as np

from .. import config, tracing
from ..autograd import Tensor, TensorOp
from ..dtype import Scalar as Scalar, dtype_of, promote_scalar
from ..ndarray import functions as F, layout
from ..ndarray.array import NDArray, as_scalar, from_numpy
from ..ndarray.index.errors import rewrite_index_error

if TYPE_CHECKING:
    from typing import SupportsIndex, TypeGuard

    from ..types import Axes, DTypeLike, Gradients

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A", int, int | None)
C = TypeVar("C", bound=Callable[..., Any])


def is_scalar(x: object) -> TypeGuard[Scalar]:
    """A Python or NumPy number (weak: it takes the dtype of the tensor beside it)."""
    return isinstance(x, (float, int, np.generic))  # a bool is an int


def constant(x: object, like: Tensor, op: str = "constant") -> Tensor:
    """x as a tensor without gradient on like's device; a number becomes 0-d of like's dtype."""
    if isinstance(x, Tensor):
        return x
    if is_scalar(x):
        value = as_scalar(x, op)
        dtype = promote_scalar(dtype_of(like.dtype), type(value))
        F.check_fits(op, dtype, value)
        return Tensor.make_const(F.full((), value, dtype, like.home))
    if isinstance(x, NDArray):
        return Tensor.make_const(x)
    if isinstance(x, (np.ndarray, list, tuple)):
        array = np.asarray(x)
        if config.BACKEND == "np":
            return Tensor.make_const(array)
        return Tensor.make_const(from_numpy(array, dtype_of(array.dtype), like.home))
    raise TypeError(f"[{op}] expected a Tensor, an array or a number, got {type(x).__name__}.")


def check_tensor(op: str, x: object) -> Tensor:
    """x itself if it is a Tensor; arrays and numbers are not taken for one silently."""
    if isinstance(x, Tensor):
        return x
    raise TypeError(
        f"[{op}] expected a Tensor, got {type(x).__name__}; wrap it with needle.Tensor(...)."
    )


def check_tensors(op: str, args: object) -> list[Tensor]:
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
                with rewrite_index_error(lambda text, _: _renamed(op, text)):
                    return function(*args, **kwargs)
            except (TypeError, ValueError, IndexError) as error:
                report_as(op, error)
                raise

        return call

    return decorate


def can_share(noted: Sequence[NDArray], x: NDArray) -> bool:
    """Can arrays that a forward noted be used beside x? Not if there are none, or if it has only
    been run for its shape so far, as in lazy mode."""
    if not noted or type(noted[0]) is not type(x):
        return False
    return not isinstance(x, NDArray) or noted[0].device.mod is x.device.mod


def whole_number(op: str, name: str, value: SupportsIndex) -> int:
    """value as an int; 2.0 is not one."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"[{op}] {name} must be a whole number, got {value!r:.60}.") from None


def zeros_like(x: Tensor) -> Tensor:
    """Zeros of x's shape, dtype and device, outside the graph."""
    if x.cached_data is None:
        return Tensor.make_const(F.full(x.shape, 0, x.dtype, x.home))
    return Tensor.make_const(F.full_like(x.cached_data, 0))


@overload
def one_of(
    op: str, axes: int | None = None, axis: int | None = None, dim: int | None = None
) -> int | None: ...
@overload
def one_of(op: str, axes: Axes = None, axis: Axes = None, dim: Axes = None) -> Axes: ...
def one_of(op: str, axes: Axes = None, axis: Axes = None, dim: Axes = None) -> Axes:
    """`axes`, `axis` and `dim` mean the same: the one that was given, or None."""
    if axis is not None or dim is not None:
        given = [a for a in (axes, axis, dim) if a is not None]
        if len(given) > 1:
            raise TypeError(f"[{op}] give one of axes, axis and dim, got {given}.")
        (axes,) = given
    if axes is None:
        return axes
    if axes is True or axes is False:
        raise TypeError(f"[{op}] axis must be an integer, got {axes}.")
    if isinstance(axes, (int, tuple)) or hasattr(axes, "__index__"):
        return axes
    # Operators keep it: a list may change, and an iterator ends.
    return tuple(axes) if isinstance(axes, Iterable) else axes


def along(op: str, x: Tensor, axis: Axes) -> tuple[Tensor, int]:
    """x and a valid axis of it; a 0-d tensor is looked at as one element along axis 0."""
    if layout.names_element(axis, check_tensor(op, x).ndim):
        return x.reshape((1,)), 0
    return x, layout.normalize_axis(axis, x.ndim, op)


def flat_or_along(op: str, x: Tensor, axis: Axes) -> tuple[Tensor, int]:
    """The same, and for axis None the only axis of flat x."""
    if axis is None:
        return check_tensor(op, x).reshape((x.size,)), 0
    return along(op, x, axis)


def shaped(result: Tensor, x: Tensor, axis: Axes) -> Tensor:
    """A result along an axis of x: 0-d if x is 0-d and the axis was named."""
    return result.reshape(()) if x.ndim == 0 and axis is not None and result.size else result


def axis_or_dim(op: str, axis: A, dim: int | None, default: object) -> A:
    """The same where `axis` has a default that is not None: an axis beside a dim is an error."""
    if dim is None:
        return axis
    return one_of(op, axis=None if axis == default else axis, dim=dim)  # type: ignore[return-value]


# Keywords -----------------------------------------------------------------------------------------

# NumPy's keywords that ask for something that results here do not have: NumPy's default, which may
# be given, and what to write instead.
REFUSED: dict[str, tuple[Any, str]] = {
    "out": (None, "a result is a new tensor: write y[...] = {op}(...)"),
    "where": (True, "choose afterwards: where(mask, {op}(...), other)"),
    "casting": ("same_kind", "cast with astype"),
    "order": ("K", "permute the axes for another order"),
    "copy": (None, "a result is a view if it can be one: clone it for a copy"),
    "subok": (True, "results are plain tensors"),
    "signature": (None, "give a dtype"),
    "like": (None, "results are tensors"),
    "overwrite_input": (False, "the input stays as it is"),
}


class Ufunc(TypedDict, total=False):
    """NumPy's keywords of functions of elements: the dtype to compute in, and the defaults of those
    that are refused."""

    dtype: DTypeLike | None
    out: None
    where: Literal[True]
    casting: Literal["same_kind"]
    order: Literal["K"]
    subok: Literal[True]
    signature: None


class Creation(TypedDict, total=False):
    """NumPy's keywords of functions that make arrays, with the only values that are taken."""

    order: Literal["C"] | None
    like: None


def numpy_options(
    op: str, options: Mapping[str, object], *taken: str, **defaults: object
) -> dict[str, Any]:
    """Those of the given keywords that a function takes; all others must ask for nothing: have
    NumPy's default, which is in `defaults` where a function's own is not the usual one."""
    for name, value in options.items():
        if name in taken:
            continue
        if name not in REFUSED:
            raise TypeError(f"[{op}] got an unexpected keyword argument {name!r}.")
        usual, instead = REFUSED[name]
        default = defaults.get(name, usual)
        if value is not default and not (isinstance(value, str) and value == default):
            shown = repr(value) if isinstance(value, (str, bool)) else type(value).__name__
            raise TypeError(f"[{op}] {name}={shown} is not supported; {instead.format(op=op)}.")
    return {name: value for name, value in options.items() if name in taken}


def no_out(op: str, out: object) -> None:
    """NumPy's `out` of a function: only None is taken."""
    if out is not None:
        numpy_options(op, {"out": out})


def flag(op: str, name: str, value: object) -> bool:
    """True or False; a dtype or an axis in its place is a mistake, not the truth."""
    if value is True or value is False:
        return bool(value)
    if isinstance(value, (int, np.bool_)) and value in (0, 1):
        return bool(value)
    raise TypeError(f"[{op}] {name} must be True or False, got {value!r:.60}.")


def kept(op: str, keepdims: bool, keepdim: bool | None) -> bool:
    """`keepdims` and `keepdim` mean the same."""
    if keepdim is None:
        return flag(op, "keepdims", keepdims)
    if keepdims and not keepdim:
        raise TypeError(f"[{op}] give one of keepdims and keepdim, got {keepdims} and {keepdim}.")
    return flag(op, "keepdim", keepdim)


def either(op: str, default: object = ..., **named: object) -> Any:
    """One argument that goes by several names: what was given, or the default if there is one."""
    found = {name: value for name, value in named.items() if value is not None}
    if len(found) > 1 or (not found and default is ...):
        got = " and ".join(found) or "none"
        raise TypeError(f"[{op}] expected one of {' and '.join(named)}, got {got}.")
    return next(iter(found.values()), default)


class Alias(TensorOp):
    """y = x, as a node of its own"""

    linear = True
    elementwise = True

    def compute(self, a: NDArray) -> NDArray:
        return a

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad


def fresh_leaf(x: Tensor) -> Tensor:
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

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return tuple(zeros_like(x) for x in node.inputs)
