"""PyTorch's methods that end in `_`: x becomes the result of the operator of that name.

Where nothing is recorded, the result goes into x's memory. Else x stands for a new value of the
graph from then on, as after `x[...] = v`; a leaf that requires a gradient is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd import Tensor
from ..ndarray.random import RandomSource, default_generator
from ..ops import arithmetic, compare, unary
from ..ops.common import Scalar, check_tensor, constant, named
from ..ops.elementwise import astype
from ..ops.index import along_axis, indexing
from ..ops.index.indexing import setitem
from ..ops.index.inplace import IN_PLACE, Update, is_recorded
from ..ops.shape import movement
from . import torch_math

if TYPE_CHECKING:
    from ..ops.elementwise import OfTwo
    from ..types import TensorLike


def _assign(name: str, x: Tensor, result: Callable[[], object]) -> Tensor:
    """Let x, from now on, be this result, which is cast to x's dtype."""
    if x.op is None and is_recorded(x):
        raise ValueError(
            f"[{name}] expected no gradients to record here, got a leaf that requires one; put it "
            "into `with needle.no_grad():`, or make a new tensor instead."
        )
    setitem(x, ..., astype(constant(result(), x, name), x.dtype))
    return x


def _assigning(name: str, operator: Callable[..., object]) -> Callable[..., Tensor]:
    """The method that is the operator, assigned."""

    def method(x: Tensor, *args: object, **options: object) -> Tensor:
        return _assign(name, x, lambda: operator(x, *args, **options))

    doc = f"x = {name[:-1]}(x, ...), in x's memory where nothing is recorded."
    return named(method, name, doc)


def _updating(name: str, in_memory: str, operator: OfTwo) -> Update:
    """The same for arithmetic, whose kernels write into x themselves."""

    def method(x: Tensor, other: TensorLike) -> Tensor:
        if is_recorded(x, other):
            return _assign(name, x, lambda: operator(x, other))
        return IN_PLACE[in_memory](x, other)

    doc = f"x = {name[:-1]}(x, other), in x's memory where nothing is recorded."
    return named(method, name, doc)


def _updating_scaled(name: str, in_memory: str, operator: OfTwo) -> Callable[..., Tensor]:
    """The same for sums, with PyTorch's factor."""
    update = _updating(name, in_memory, operator)

    def method(x: Tensor, other: TensorLike, *, alpha: float = 1) -> Tensor:
        scaled = other if alpha == 1 else arithmetic.multiply(constant(other, x, name), alpha)
        return update(x, scaled)

    doc = f"x = {name[:-1]}(x, alpha other), in memory where nothing is recorded."
    return named(method, name, doc)


def copy_(x: Tensor, other: TensorLike, non_blocking: bool = False) -> Tensor:
    """Write other's elements, broadcast and cast, into x."""
    setitem(x, ..., astype(constant(other, x, "copy_"), x.dtype))
    return x


def fill_(x: Tensor, value: TensorLike) -> Tensor:
    """Write one number into all of x."""
    setitem(x, ..., value)
    return x


def zero_(x: Tensor) -> Tensor:
    """Write 0 into all of x."""
    return fill_(x, 0)


def fill_diagonal_(x: Tensor, value: Scalar) -> Tensor:
    """Write one number at all positions (i, i) of a matrix."""
    if check_tensor("fill_diagonal_", x).ndim != 2:
        raise ValueError(f"[fill_diagonal_] expected a matrix, got {x.shape}.")
    i = np.arange(min(x.shape))
    setitem(x, (i, i), value)
    return x


# Random numbers -----------------------------------------------------------------------------------


def _give(x: Tensor, data: TensorLike) -> Tensor:
    setitem(x, ..., Tensor.make_const(data))
    return x


def uniform_(
    x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: RandomSource | None = None
) -> Tensor:
    """Write numbers that are even in [low, high) into x."""
    if not low <= high:
        raise ValueError(f"[uniform_] expected low <= high, got {low} and {high}.")
    source = generator or default_generator()
    return _give(x, source.uniform(x.shape, low, high, x.dtype, x.device))


def normal_(
    x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: RandomSource | None = None
) -> Tensor:
    """Write normal numbers into x."""
    if not std >= 0:
        raise ValueError(f"[normal_] expected std >= 0, got {std}.")
    source = generator or default_generator()
    return _give(x, source.normal(x.shape, mean, std, x.dtype, x.device))


def bernoulli_(
    x: Tensor, p: float | Tensor = 0.5, *, generator: RandomSource | None = None
) -> Tensor:
    """Write 1 with probability p (a number, or a tensor that broadcasts), else 0, into x."""
    if not isinstance(p, Tensor) and not 0 <= p <= 1:
        raise ValueError(f"[bernoulli_] expected a probability from 0 to 1, got {p}.")
    source = generator or default_generator()
    even = Tensor.make_const(source.uniform(x.shape, 0.0, 1.0, "float32", x.device))
    return copy_(x, compare.less(even, p))


def exponential_(x: Tensor, lambd: float = 1.0, *, generator: RandomSource | None = None) -> Tensor:
    """Write numbers with the density lambd exp(-lambd x) into x."""
    if not lambd > 0:
        raise ValueError(f"[exponential_] expected lambd > 0, got {lambd}.")
    source = generator or default_generator()
    even = Tensor.make_const(source.uniform(x.shape, 0.0, 1.0, "float32", x.device))
    return copy_(x, unary.log1p(-even) / -lambd)


METHODS: dict[str, Callable[..., Any]] = {
    **{f.__name__: f for f in (
        copy_, fill_, zero_, fill_diagonal_, uniform_, normal_, bernoulli_, exponential_,
    )},
    "add_": _updating_scaled("add_", "__iadd__", arithmetic.add),
    "sub_": _updating_scaled("sub_", "__isub__", arithmetic.subtract),
    "mul_": _updating("mul_", "__imul__", arithmetic.multiply),
    "div_": _updating("div_", "__itruediv__", arithmetic.divide),
    "pow_": _updating("pow_", "__ipow__", arithmetic.power),
    **{f"{f.__name__}_": _assigning(f"{f.__name__}_", f) for f in (
        unary.abs, unary.exp, unary.log, unary.sqrt, unary.rsqrt, unary.square, unary.sigmoid,
        unary.tanh, unary.relu, unary.floor, unary.ceil, unary.round, unary.sin, unary.cos,
        movement.tril, movement.triu, torch_math.lerp, torch_math.addcmul, torch_math.addcdiv,
        torch_math.clamp_min, torch_math.clamp_max, torch_math.reciprocal, indexing.masked_fill,
        along_axis.scatter, along_axis.scatter_add, along_axis.index_add,
    )},
    "neg_": _assigning("neg_", arithmetic.negate),
    "clamp_": _assigning("clamp_", compare.clip), "clip_": _assigning("clip_", compare.clip),
}  # fmt: skip
