"""Tensors of random numbers, and the methods that fill them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import tracing
from ...autograd import Tensor as EngineTensor, write_in_place
from ...backend import cpu
from ...dtype import DType, float32, int64
from ...ndarray import functions as F
from ...ndarray.array import from_numpy
from ..core import writing
from ..core.device import place
from ..core.dtypes import dtype_in_engine as kind
from ..core.tensor import Tensor, wrap
from ..functions.common import fail, plain, takes_out
from ..functions.creation import check_grad, kind_of, sizes
from . import numbers
from .generator import Generator, source

if TYPE_CHECKING:
    from ...tracing import Tracer


class Drawing:
    """Numbers that a traced function's program draws whenever it runs."""

    def __init__(self, distribution: Callable[..., Any], source: Generator, options: Any):
        self.draw = partial(distribution, source, *options)
        self.source = source

    def array(self, tracer: Tracer, shape: tuple[int, ...], dtype: DType) -> Any:
        """An array that holds them."""
        stored = float32 if dtype.is_floating and dtype.itemsize < 4 else dtype
        return F.cast(tracer.host_numbers(self.draw, shape, stored, cpu(), self.source), dtype)


def draw(distribution: Callable[..., Any], generator: Generator | None, *options: Any) -> Any:
    """Numbers of a distribution: now, or at each run of a traced function."""
    if tracing.active() is not None:
        return Drawing(distribution, source(generator), options)
    return distribution(source(generator), *options)


def made(values: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """An array of the engine of these numbers."""
    if isinstance(values, Drawing) and (tracer := tracing.active()) is not None:
        return values.array(tracer, shape, dtype)
    return from_numpy(np.asarray(values).reshape(shape), dtype, cpu())


def _count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _floating(op: str, dtype: Any, otherwise: DType | None = None) -> DType:
    found = kind_of(dtype, otherwise)
    if not found.is_floating:
        raise NotImplementedError(f'"{op}" not implemented for {found}')
    return found


def _placed(op: str, size: tuple[Any, ...], rest: dict[str, Any]) -> tuple[int, ...]:
    place(rest.get("device"))
    return sizes(op, size, rest.get("size"))


def _wrapped(values: Any, shape: tuple[int, ...], dtype: DType, rest: dict[str, Any]) -> Tensor:
    return wrap(made(values, shape, dtype), check_grad(rest.get("requires_grad", False), dtype))


@takes_out
def rand(*size: Any, generator: Generator | None = None, dtype: Any = None, **rest: Any) -> Tensor:
    """Even in [0, 1)."""
    shape, wanted = _placed("rand", size, rest), _floating("check_uniform_bounds", dtype)
    return _wrapped(draw(numbers.uniform, generator, _count(shape), wanted), shape, wanted, rest)


@takes_out
def randn(*size: Any, generator: Generator | None = None, dtype: Any = None, **rest: Any) -> Tensor:
    """Normal numbers."""
    shape, wanted = _placed("randn", size, rest), _floating("normal_kernel_cpu", dtype)
    values = draw(numbers.normal, generator, _count(shape), wanted, 0.0, 1.0)
    return _wrapped(values, shape, wanted, rest)


def _range(args: tuple[Any, ...], rest: dict[str, Any]) -> tuple[int, int, Any]:
    """randint(high, size), randint(low, high, size), by place or name."""
    given = list(args)
    size = rest.pop("size", None)
    if size is None:
        size = given.pop()
    high = rest.pop("high", None)
    if high is None:
        high = given.pop()
    low = rest.pop("low", None)
    if low is None:
        low = given.pop() if given else 0
    return int(plain(low)), int(plain(high)), size


@takes_out
def randint(
    *args: Any, generator: Generator | None = None, dtype: Any = None, **rest: Any
) -> Tensor:
    """Whole numbers in [low, high)."""
    low, high, size = _range(args, rest)
    if high <= low:
        raise fail(
            "randint",
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}",
        )
    shape, wanted = _placed("randint", (size,), rest), kind_of(dtype, int64)
    return _wrapped(
        draw(numbers.integers, generator, _count(shape), low, high), shape, wanted, rest
    )


@takes_out
def randperm(
    n: int, *, generator: Generator | None = None, dtype: Any = None, **rest: Any
) -> Tensor:
    """0 ... n - 1 in random order."""
    if n < 0:
        raise fail("randperm", f"n must be non-negative, got {n}")
    return _wrapped(draw(numbers.permutation, generator, n), (n,), kind_of(dtype, int64), rest)


def rand_like(input: Any, *, dtype: Any = None, **rest: Any) -> Tensor:
    """Even in [0, 1), in input's shape and dtype."""
    return rand(tuple(input.shape), dtype=input.dtype if dtype is None else dtype, **rest)  # type: ignore[no-any-return]


def randn_like(input: Any, *, dtype: Any = None, **rest: Any) -> Tensor:
    """Normal numbers, in input's shape and dtype."""
    return randn(tuple(input.shape), dtype=input.dtype if dtype is None else dtype, **rest)  # type: ignore[no-any-return]


def randint_like(input: Any, *args: Any, dtype: Any = None, **rest: Any) -> Tensor:
    """Whole numbers in [low, high), in input's shape and dtype."""
    like = input.dtype if dtype is None else dtype
    return randint(*args, tuple(input.shape), dtype=like, **rest)  # type: ignore[no-any-return]


@takes_out
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None,
    dtype: Any = None, **rest: Any,
) -> Tensor:  # fmt: skip
    """Normal numbers of given averages and deviations."""
    if size is not None:
        shape, wanted = _placed("normal", (size,), rest), _floating("normal_kernel_cpu", dtype)
        values = draw(numbers.normal, generator, _count(shape), wanted, float(mean), float(std))
        return _wrapped(values, shape, wanted, rest)
    tensors = [v for v in (mean, std) if isinstance(v, EngineTensor)]
    if isinstance(std, EngineTensor) and bool((std < 0).any()):
        raise fail("normal", "normal expects all elements of std >= 0.0")
    shape = tuple(np.broadcast_shapes(*(tuple(v.shape) for v in tensors)))
    made_of = randn(shape, generator=generator, dtype=tensors[0].dtype)
    return made_of * std + mean  # type: ignore[no-any-return]


def bernoulli(
    input: Any, p: Any = None, *, generator: Generator | None = None, out: Any = None
) -> Any:
    """1 with the probability that input has, else 0."""
    result = input.detach().clone() if out is None else out
    return bernoulli_(result, input if p is None else p, generator=generator)


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Any:
    """Positions, drawn with the probabilities of rows."""
    weights = input.detach()
    if kind(weights).kind != "f":
        raise fail(
            "multinomial",
            f"multinomial only supports floating-point dtypes for input, got: {kind(weights)}",
        )
    _check_weights(weights, num_samples, replacement)
    if not replacement or num_samples == 1:
        q = exponential_(weights.new_empty(tuple(weights.shape)), 1.0, generator=generator)
        q = weights / q
        if num_samples == 1:
            return q.argmax(-1, True)
        return q.topk(num_samples)[1]
    rows = weights.double().numpy()
    flat = rows.reshape(-1, rows.shape[-1])
    sums = np.cumsum(
        weights.float().numpy().reshape(flat.shape) if kind(weights) != "float64" else flat, 1
    )
    drawn = [_drawn(total, numbers.unit(source(generator), num_samples)) for total in sums]
    shape = (*rows.shape[:-1], num_samples)
    return wrap(made(np.stack(drawn), shape, int64))


def _drawn(total: Any, chosen: Any) -> Any:
    found = np.searchsorted(total / total[-1], chosen, "left")
    return np.minimum(found, len(total) - 1)


def _check_weights(weights: Any, count: int, replacement: bool) -> None:
    array = weights.float().numpy()
    if count <= 0:
        raise fail("multinomial", "cannot sample n_sample <= 0 samples")
    if not replacement and count > array.shape[-1]:
        raise fail(
            "multinomial", "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if not np.isfinite(array).all() or (array < 0).any():
        raise fail("multinomial", "probability tensor contains either `inf`, `nan` or element < 0")
    if (array.sum(-1) == 0).any():
        raise fail("multinomial", "invalid multinomial distribution (sum of probabilities <= 0)")


def poisson(input: Any, generator: Generator | None = None) -> Any:
    """Poisson's numbers of these averages, by NumPy: not PyTorch's numbers."""
    drawn = source(generator)._integers.poisson(input.detach().numpy())
    return wrap(made(drawn, tuple(input.shape), kind(input)))


# Methods ------------------------------------------------------------------------------------------


def _filled(name: str, x: Any, values: Any) -> Any:
    """Write numbers into x, in C order."""
    writing.check_writable(name, x)
    array = made(values, tuple(x.shape), kind(x))
    if writing.is_recorded(x):
        return writing.assign(name, x, wrap(array))
    write_in_place(name, x, lambda data: F.assign(data, array))
    return x


def _size(x: Any) -> int:
    return int(x.cached_data.size)


def uniform_(
    x: Any, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None, **named: Any
) -> Any:
    """Write numbers that are even in [from, to)."""
    a, b = named.get("from", a), named.get("to", b)
    if a > b:
        raise fail(
            "uniform_",
            f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}",
        )
    dtype = _floating("check_uniform_bounds", None, kind(x))
    return _filled(
        "uniform_", x, draw(numbers.uniform, generator, _size(x), dtype, float(a), float(b))
    )


def normal_(
    x: Any, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Any:
    """Write normal numbers."""
    if std < 0:
        raise fail("normal_", f"normal expects std >= 0.0, but found std {std}")
    dtype = _floating("normal_kernel_cpu", None, kind(x))
    values = draw(numbers.normal, generator, _size(x), dtype, float(mean), float(std))
    return _filled("normal_", x, values)


def bernoulli_(x: Any, p: Any = 0.5, *, generator: Generator | None = None) -> Any:
    """Write 1 with probability p, else 0."""
    g = source(generator)
    if not isinstance(p, EngineTensor):
        if not 0 <= p <= 1:
            raise fail("bernoulli_", f"bernoulli_ expects p to be in [0, 1], but got p={p}")
        return _filled("bernoulli_", x, draw(numbers.bernoulli, generator, _size(x), float(p)))
    chances = p.detach().expand(tuple(x.shape)).double().numpy().reshape(-1)
    if chances.size and not ((chances >= 0) & (chances <= 1)).all():
        raise fail("bernoulli_", "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    even = (
        numbers.uniform(g, _size(x), kind(p)) if kind(p) != "float64" else numbers.unit(g, _size(x))
    )
    return _filled("bernoulli_", x, even < chances)


def exponential_(x: Any, lambd: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Write numbers with the density lambd e^(-lambd x)."""
    if lambd <= 0:
        raise fail("exponential_", f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return _filled("exponential_", x, draw(numbers.exponential, generator, _size(x), float(lambd)))


def cauchy_(
    x: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Any:
    """Write numbers of Cauchy's distribution."""
    return _filled("cauchy_", x, draw(numbers.cauchy, generator, _size(x), median, sigma))


def geometric_(x: Any, p: float, *, generator: Generator | None = None) -> Any:
    """Write how many trials there are until one succeeds."""
    if not 0 < p < 1:
        raise fail("geometric_", f"geometric_ expects p to be in (0, 1), but got p={p}")
    return _filled("geometric_", x, draw(numbers.geometric, generator, _size(x), p))


def log_normal_(
    x: Any, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Any:
    """Write e to the power of normal numbers."""
    return _filled("log_normal_", x, draw(numbers.log_normal, generator, _size(x), mean, std))


def random_(
    x: Any,
    a: int | None = None,
    b: int | None = None,
    *,
    generator: Generator | None = None,
    **named: Any,
) -> Any:
    """Write whole numbers in [from, to), or of all sizes that x's dtype holds."""
    low, high = named.get("from", a), named.get("to", b)
    if low is None and high is None:
        return _filled("random_", x, draw(numbers.all_integers, generator, _size(x), kind(x)))
    if high is None:
        low, high = 0, low
    return _filled("random_", x, draw(numbers.integers, generator, _size(x), low or 0, high))


METHODS = {f.__name__: f for f in (
    uniform_, normal_, bernoulli_, exponential_, cauchy_, geometric_, log_normal_, random_,
    bernoulli, multinomial,
)}  # fmt: skip
