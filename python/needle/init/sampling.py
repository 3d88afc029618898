"""Samples by probabilities that a tensor has."""

from __future__ import annotations

from ..autograd import Tensor
from ..dtype import dtype_of
from ..ndarray import random
from ..ndarray.index.errors import checked_by
from ..ops import isfinite, logical_not, topk, where
from ..ops.common import check_tensor, whole_number
from ..ops.reduce import accumulator
from ..tracing import is_tracing
from .basic import rand

__all__ = ["multinomial", "bernoulli"]


def multinomial(
    probabilities: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: random.RandomSource | None = None,
) -> Tensor:
    """Positions drawn by weights (C,) or (N, C), which need not sum to 1: (..., num_samples).

    The largest of w / e, with e exponentially distributed, is position i with probability w_i / Σ w
    (and so on for those that are left); with replacement, each sample has draws of its own."""
    weights, kind = check_tensor("multinomial", probabilities).detach(), probabilities.dtype
    if weights.ndim not in (1, 2) or not dtype_of(kind).is_floating:
        raise ValueError(
            f"[multinomial] expected floating weights (C,) or (N, C), got {kind} {weights.shape}."
        )
    count = whole_number("multinomial", "num_samples", num_samples)
    possible = (weights > 0).sum(-1).min().item() if weights.size else 0
    is_weight = (weights >= 0) & isfinite(weights)
    if not is_weight.all() or count < 1 or possible < (1 if replacement else count):
        raise ValueError(
            f"[multinomial] expected finite weights >= 0, of which at least "
            f"{'one is' if replacement else f'{count} are'} not 0, and num_samples >= 1."
        )
    weights = weights.astype(accumulator(kind))  # halves have too few numbers to draw from
    weights = weights / weights.max(-1, keepdims=True)
    rounds = (count, *weights.shape) if replacement else weights.shape
    even = rand(*rounds, device=weights.device, dtype=weights.dtype, generator=generator)
    first = weights / (1 - even).log().abs()  # 0 / 0 can come only from a weight of 0
    first = where(weights > 0, first, -1.0)
    if replacement:
        drawn = first.argmax(-1)  # (samples, ...)
        return drawn.permute((*range(1, drawn.ndim), 0))
    return topk(first, count)[1]


def bernoulli(probabilities: Tensor, *, generator: random.RandomSource | None = None) -> Tensor:
    """1 with the probability that each element says, else 0; in the same shape and dtype.

    There is no gradient."""
    p, kind = check_tensor("bernoulli", probabilities).detach(), dtype_of(probabilities.dtype)
    if not kind.is_floating:
        raise TypeError(f"[bernoulli] expected floating probabilities, got {kind}; cast them.")
    if is_tracing():
        p = _with_checked_probabilities(p)
    elif not ((p >= 0) & (p <= 1)).all():
        raise ValueError(
            f"[bernoulli] expected probabilities from 0 to 1, got {p.min().item():.4g} to "
            f"{p.max().item():.4g}."
        )
    # Halves have too few numbers to draw from.
    even = rand(*p.shape, device=p.device, dtype=accumulator(kind), generator=generator)
    return (even < p).astype(kind)


def _with_checked_probabilities(p: Tensor) -> Tensor:
    """p, which a compiled program checks when it runs."""
    is_wrong = logical_not((p >= 0) & (p <= 1)).any().astype("int64")
    text = "[bernoulli] expected probabilities from 0 to 1, got others."
    arrays = (is_wrong.realize_cached_data(), p.realize_cached_data())
    return Tensor.make_const(checked_by(*arrays, lambda *_: ValueError(text)))
