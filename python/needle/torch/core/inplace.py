"""Methods that end in `_`: x becomes the result of the function of that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import Tensor as EngineTensor, rebind, write_in_place
from ...ndarray import functions as F
from ...ndarray.index.gather import has_overlap
from ...ops.common import named
from . import writing
from .dtypes import castable, dtype_in_engine as kind
from .tensor import Tensor

# Functions whose result goes back into x.
NAMES = """
add sub mul div true_divide floor_divide remainder fmod pow abs absolute neg negative sign sgn
exp expm1 exp2 log log1p log2 log10 sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh
cosh tanh arcsin arccos arctan asinh acosh atanh sigmoid erf erfc erfinv floor ceil trunc fix
round frac relu clamp clip clamp_min clamp_max lerp addcmul addcdiv addmm addmv addr baddbmm
addbmm masked_fill masked_scatter scatter scatter_add scatter_reduce index_add index_copy
index_fill index_put index_reduce tril triu cumsum cumprod eq ne lt le gt ge not_equal less
less_equal greater greater_equal logical_and logical_or logical_xor logical_not bitwise_and
bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift atan2 arctan2 copysign
hypot xlogy nan_to_num lgamma digamma logit ldexp multiply subtract divide gcd lcm heaviside
nextafter sinc i0 deg2rad rad2deg put threshold float_power
""".split()


def in_place(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """The method that is the function, assigned."""

    def method(x: Tensor, *args: Any, **options: Any) -> Any:
        return assign_checked(name, x, function(x, *args, **options))

    return named(method, name, f"x = {name[:-1]}(x, ...), in x's place.")


def assign_checked(name: str, x: Any, result: Any) -> Any:
    """Let x be this result, if that has its shape and no higher category."""
    if tuple(result.shape) != tuple(x.shape):
        raise RuntimeError(
            f"[{name}] output with shape {list(x.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )
    if not castable(kind(result), kind(x)):
        raise RuntimeError(
            f"[{name}] result type {kind(result)} can't be cast to the desired output type "
            f"{kind(x)}"
        )
    return writing.assign(name, x, result)


def updating(name: str, kernel: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """The same for arithmetic, whose kernels write into x themselves."""
    slow = in_place(name, function)

    def method(x: Any, other: Any, **options: Any) -> Any:
        if options or not kind(x).is_floating or writing.is_recorded(x, other) or is_spread(x):
            return slow(x, other, **options)
        if isinstance(other, EngineTensor):
            if kind(other) is not kind(x) or tuple(other.shape) != tuple(x.shape):
                return slow(x, other)
            by: Any = other.realize_cached_data()
        elif type(other) in (int, float):
            by = other
        else:
            return slow(x, other)
        write_in_place(name, x, lambda data: F.update(kernel, data, by))
        return x

    return named(method, name, f"x = {name[:-1]}(x, other), in x's memory.")


def is_spread(x: Any) -> bool:
    """Do several elements lie in one place?"""
    return 0 in x.cached_data.strides and has_overlap(x.cached_data)


def copy_(x: Any, src: Any, non_blocking: bool = False) -> Any:
    """Write src, broadcast and cast, into x."""
    from ..functions.creation import as_tensor

    value = writing.cast_to(as_tensor(src), kind(x))
    if tuple(value.shape) != tuple(x.shape):
        value = value.expand(tuple(x.shape))
    return writing.assign("copy_", x, value)


def fill_(x: Any, value: Any) -> Any:
    """Write one number into all of x."""
    if isinstance(value, EngineTensor):
        if value.ndim:
            raise RuntimeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{value.ndim} dimensions."
            )
        return copy_(x, value)
    x[...] = value
    return x


def zero_(x: Any) -> Any:
    """Write 0 into all of x."""
    return fill_(x, 0)


def fill_diagonal_(x: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Write one number at all positions (i, i, ...)."""
    if x.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    fill_(x.diagonal() if x.ndim == 2 else x, fill_value) if x.ndim == 2 else _each_diagonal(
        x, fill_value
    )
    return x


def _each_diagonal(x: Any, value: Any) -> None:
    for i in range(min(x.shape)):
        x[(i,) * x.ndim] = value


def set_(x: Any, source: Any = None, *rest: Any) -> Any:
    """Let x show the memory of another tensor."""
    from ...autograd.writing import replace_data

    if source is None:
        source = x.new_empty(0)
    replace_data((x,), (source.realize_cached_data(),))
    return x


def resize_(x: Any, *sizes: Any, memory_format: object = None) -> Any:
    """Give x another shape; new elements are not set."""
    from ..functions.common import sizes_of

    shape = sizes_of(sizes)
    made = x.new_zeros(shape)
    count = min(made.cached_data.size, x.cached_data.size)
    made.reshape(-1)[:count] = x.detach().reshape(-1)[:count]
    return set_(x, made)


def reshaping(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that gives x itself another shape of the same memory: `squeeze_`."""

    def method(x: Any, *args: Any, **options: Any) -> Any:
        result = function(x, *args, **options)
        if writing.is_recorded(x):
            writing.check_writable(name, x)
            rebind.become(x, writing.Replaced(), result)
        else:
            x.cached_data = result.cached_data
        return x

    return named(method, name, f"x in the shape of {name[:-1]}(x, ...).")


def detach_(x: Any) -> Any:
    """Cut x from its history."""
    x.requires_grad = False
    x.op, x.inputs = None, []
    return x


def methods(functions: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """All methods in place, by name."""
    found: dict[str, Callable[..., Any]] = {
        f"{name}_": in_place(f"{name}_", functions[name]) for name in NAMES if name in functions
    }
    for name, kernel in (
        ("add", "add"),
        ("mul", "multiply"),
        ("div", "divide"),
        ("sub", "subtract"),
    ):
        found[f"{name}_"] = updating(f"{name}_", kernel, functions[name])
    shapes = ("squeeze", "unsqueeze", "transpose", "t", "swapaxes", "swapdims", "as_strided")
    found |= {f"{name}_": reshaping(f"{name}_", functions[name]) for name in shapes}
    others = (copy_, fill_, zero_, fill_diagonal_, set_, resize_, detach_)
    found |= {f.__name__: f for f in others}
    for python, name in (
        ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("pow", "pow"),
        ("floordiv", "floor_divide"), ("mod", "remainder"), ("and", "bitwise_and"),
        ("or", "bitwise_or"), ("xor", "bitwise_xor"), ("lshift", "bitwise_left_shift"),
        ("rshift", "bitwise_right_shift"),
    ):  # fmt: skip
        found[f"__i{python}__"] = found[f"{name}_"]
    return found
