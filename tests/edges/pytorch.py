"""PyTorch's functions of the same names, and where the results are not PyTorch's, with reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .elementwise import BOUNDS, EXPONENTS, NUMBERS
from .rows import ORDERS, WEIGHTS, norm
from .values import Array


def elementwise(torch: Any) -> dict[str, Callable[..., Any]]:
    """PyTorch's function for each name of the tables in elementwise.py and pairs.py."""
    f = torch.nn.functional
    table: dict[str, Any] = {
        name: getattr(torch, name)
        for name in (
            "abs sign square reciprocal relu exp expm1 log log1p log2 log10 sqrt rsqrt sin cos tan "
            "asin acos atan tanh sinh cosh sigmoid erf floor ceil round add subtract multiply "
            "divide atan2 remainder maximum minimum lerp addcmul addcdiv"
        ).split()
    }
    table |= {
        name: getattr(f, name)
        for name in (
            "relu6 hardtanh hardsigmoid hardswish elu selu leaky_relu silu mish gelu logsigmoid "
            "softsign softplus"
        ).split()
    }
    table |= {
        "negate": torch.neg,
        "power": torch.pow,
        "floor_divide": lambda a, b: a.detach() // b.detach(),  # has no derivative there
        "gelu of tanh": lambda x: f.gelu(x, approximate="tanh"),
        "softplus of 2 x": lambda x: f.softplus(x, 2.0, 5.0),
        "where": lambda a, b: torch.where(a > b, a, b),
        "clip from below": lambda a, b: torch.clamp(a, min=b),
        "clip from above": lambda a, b: torch.clamp(a, max=b),
        "clip between": torch.clamp,
        "prelu": lambda x, w: f.prelu(x[None], w)[0],
        **{f"clip to {a}, {b}": lambda x, a=a, b=b: torch.clamp(x, a, b) for a, b in BOUNDS},
        **{f"x ** {s}": lambda x, s=s: x**s for s in EXPONENTS},
    }
    for name in "mse_loss l1_loss huber_loss smooth_l1_loss kl_div".split():
        table[name] = lambda x, t, name=name: getattr(f, name)(x, t, reduction="none")
    name = "binary_cross_entropy_with_logits"
    table[name] = lambda x, t: f.binary_cross_entropy_with_logits(x, t, reduction="none")
    for s in NUMBERS:
        table |= {
            f"{s} ** x": lambda x, s=s: s**x,
            f"x + {s}": lambda x, s=s: x + s,
            f"{s} - x": lambda x, s=s: s - x,
            f"{s} * x": lambda x, s=s: s * x,
            f"x / {s}": lambda x, s=s: x / s,
            f"{s} / x": lambda x, s=s: s / x,
            f"x % {s}": lambda x, s=s: x % s,
            f"x // {s}": lambda x, s=s: x.detach() // s,
        }
    return table


def of_rows(torch: Any) -> dict[str, Callable[..., Any]]:
    """PyTorch's function for each name of the table in rows.py."""
    f = torch.nn.functional
    weights = torch.tensor(WEIGHTS, dtype=torch.float64)

    def weighted(function: Any) -> Any:
        return lambda x: function(x) * weights.to(x.dtype)

    table: dict[str, Any] = {
        name: lambda x, name=name: getattr(torch, name)(x, 1)
        for name in "sum mean prod amax amin logsumexp".split()
    }
    table |= {
        name: lambda x, name=name: getattr(torch, name)(x, 1)[0]
        for name in "max min median".split()
    }
    table |= {
        name: weighted(lambda x, name=name: getattr(torch, name)(x, 1))
        for name in "softmax log_softmax cumsum cumprod".split()
    }
    for c in (0, 1):
        table[f"var of {c}"] = lambda x, c=c: x.var(1, correction=c)
        table[f"std of {c}"] = lambda x, c=c: x.std(1, correction=c)
    for p in ORDERS:
        table[f"norm of {p}"] = lambda x, p=p: torch.linalg.vector_norm(x, p, 1)
    return table | {
        "cross_entropy": lambda x: f.cross_entropy(
            x, torch.zeros(len(x), dtype=torch.int64), reduction="none"
        ),
        "max_pool": lambda x: f.max_pool1d(x[:, None], 2, 1)[:, 0].sum(1),
        "sort": weighted(lambda x: torch.sort(x, dim=1, stable=True)[0]),
        "descending sort": weighted(
            lambda x: torch.sort(x, dim=1, descending=True, stable=True)[0]
        ),
        "topk": weighted(lambda x: torch.sort(x, dim=1, descending=True, stable=True)[0]),
    }


@dataclass(frozen=True)
class Choice:
    """Where a result is not PyTorch's, on purpose."""

    names: str  # of functions
    results: str  # "value", "gradient" or both
    reason: str
    where: Callable[..., Array]  # of the operands

    def covers(self, name: str, what: int) -> bool:
        return name in self.names.split("; ") and ("gradient" if what else "value") in self.results


def row_has_nan(x: Array) -> Array:
    return np.isnan(x).any(1)


def is_ordinary(x: Array) -> Array:
    """No element of the row is so large or small that its square is not."""
    size = np.abs(x)
    return (((size < 1e15) & (size > 1e-15)) | (size == 0)).all(1)


CHOICES = (
    Choice("sign; abs", "value, gradient", "the sign of NaN is NaN, as in NumPy", np.isnan),
    Choice("l1_loss", "gradient", "the sign of NaN is NaN, as in NumPy",
           lambda x, t: np.isnan(x - t)),
    Choice("x ** -0.5", "value", "as C's pow and NumPy; PyTorch's is 1 / sqrt(x)",
           lambda x: (x == 0) | np.isinf(x)),
    Choice("binary_cross_entropy_with_logits", "gradient",
           "(1 - t) σ(x) - t σ(-x) has digits where σ(x) - t has none, but no infinite target",
           lambda x, t: np.isinf(t)),
    Choice("kl_div", "value", "t (ln t - x) is infinite where t ln t - t x is ∞ - ∞",
           lambda x, t: t > 1e30),
    Choice("kl_div", "value, gradient", "0 (ln 0 - x) is 0 and flat, for every x",
           lambda x, t: t == 0),
    Choice("addcmul", "value", "a product that overflows is infinite; PyTorch's is not rounded",
           lambda x, a, b: np.isinf(x)),
    Choice("addcdiv", "gradient", "a / b / b has no square of b, which vanishes or overflows",
           lambda x, a, b: (np.abs(b) < 1e-100) | (np.abs(b) > 1e100)),
    Choice("norm of 1; norm of inf; norm of -inf", "gradient",
           "the sign of NaN is NaN, as in NumPy", np.isnan),
    Choice("norm of 3; norm of 1.5; norm of 0.5", "gradient",
           "zeros have the gradient 0 also beside infinite elements", lambda x: x == 0),
    Choice("norm of 0.5", "gradient", "the root's slope is a power, not a quotient of infinities",
           lambda x: np.isinf(norm(x, 0.5))),
    Choice("amax; amin", "gradient",
           "NaN elements share it, as in PyTorch's max(); its amax gives NaN to all", row_has_nan),
    Choice("max_pool", "gradient", "the first NaN of a window gets it, not the last", row_has_nan),
    Choice("logsumexp", "gradient", "infinite elements share it: the limit; PyTorch's ∞ - ∞ is NaN",
           lambda x: np.isposinf(x)),
    Choice("logsumexp", "gradient", "the parts add up to 1 also where the result is rounded",
           lambda x: (np.abs(x) > 1e15).any(1)),
    Choice("cumprod", "gradient",
           "products of the others; PyTorch divides, and leaves out what is behind a zero",
           lambda x: ~is_ordinary(x)),
    Choice("var of 0; var of 1; std of 0; std of 1", "value, gradient",
           "deviations are squared in the dtype itself; PyTorch's CPU kernel uses double precision",
           lambda x: ~is_ordinary(x)),
)  # fmt: skip

# The same of second derivatives, where PyTorch's are finite numbers.
SECOND_CHOICES = (
    Choice("power", "gradient", "b a^(b-1) has the slope 1 / a by b; PyTorch's is 0 at b = 0",
           lambda a, b: b == 0),
    Choice("power", "gradient", "1 / a and more of its size cancel", lambda a, b: a == b),
    Choice("power", "gradient", "b (b - 1) a^(b-2) is ∞ · 0", lambda a, b: np.abs(b) > 1e18),
    Choice("prelu", "gradient", "at 0 it is w x, as below", lambda x, w: x == 0),
    Choice("binary_cross_entropy_with_logits", "gradient",
           "digits cancel for targets that are no probabilities", lambda x, t: np.abs(t) > 100),
    Choice("kl_div", "gradient", "0 (ln 0 - x) is 0 and flat, for every x", lambda x, t: t == 0),
)  # fmt: skip
