"""Losses with margins: pairs, triplets, and hinges."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .... import torch
from .activation import logsigmoid
from .linear import pairwise_distance
from .loss import reduced, reduction_of

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(-t (x1 - x2) + margin, 0)"""
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    losses = (-target * (input1 - input2) + margin).clamp(min=0)
    return reduced(losses, reduction_of(size_average, reduce, reduction))


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """x where the target is 1, max(margin - x, 0) where it is -1"""
    apart = torch.where(target != 1, (margin - input).clamp(min=0), 0.0)
    near = torch.where(target != -1, input, 0.0)
    return reduced(apart + near, reduction_of(size_average, reduce, reduction))


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """ln(1 + e^(-t x))"""
    losses = torch.log1p((-target * input).exp())
    return reduced(losses, reduction_of(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over classes of -t ln σ(x) - (1 - t) ln σ(-x)"""
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    losses = losses if weight is None else losses * weight
    return reduced(losses.mean(-1), reduction_of(size_average, reduce, reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos where the target is 1, max(cos - margin, 0) where it is -1: (N, D) or (D,)."""
    if target.ndim not in (0, 1) or input1.ndim != target.ndim + 1 or input2.ndim != input1.ndim:
        raise RuntimeError(
            "0D or 1D target tensor expected, with inputs of one more dimension, but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape}"
        )
    eps = 1e-12
    squares = (input1.square().sum(-1) + eps) * (input2.square().sum(-1) + eps)
    cosine = (input1 * input2).sum(-1) / squares.sqrt()
    apart = torch.where(target == -1, (cosine - margin).clamp(min=0), 0.0)
    losses = torch.where(target == 1, 1 - cosine, 0.0) + apart
    return reduced(losses, reduction_of(size_average, reduce, reduction))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(|a - p| - |a - n| + margin, 0)"""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return _triplet(
        (anchor, positive, negative), distance, margin, swap,
        reduction_of(size_average, reduce, reduction),
    )  # fmt: skip


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """triplet_margin_loss with any distance."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet((anchor, positive, negative), distance, margin, swap, reduction)


def _triplet(
    triplet: tuple[Tensor, Tensor, Tensor], distance: Callable[[Tensor, Tensor], Tensor],
    margin: float, swap: bool, reduction: str,
) -> Tensor:  # fmt: skip
    anchor, positive, negative = triplet
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    return reduced((near - far + margin).clamp_min(0), reduction)


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over classes of max(margin - x_t + x_i, 0)^p, i other than the target's class t"""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    x = input if input.ndim == 2 else input.unsqueeze(0)
    ids = target.reshape(-1, 1)
    excess = (margin - x.gather(1, ids) + x).clamp(min=0)
    excess = excess if p == 1 else excess * excess
    excess = excess if weight is None else excess * weight[ids]
    others = torch.arange(x.shape[1]) != ids
    losses = torch.where(others, excess, 0.0).sum(1) / x.shape[1]
    losses = losses if input.ndim == 2 else losses.squeeze(0)
    return reduced(losses, reduction_of(size_average, reduce, reduction))


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over classes of Σ max(1 - x_t + x_i, 0), t the targets before the first -1"""
    if input.shape != target.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    x = input if input.ndim == 2 else input.reshape(1, -1)
    ids = target.reshape(x.shape)
    is_label = (ids < 0).to(torch.int64).cumsum(1) == 0
    safe = torch.where(is_label, ids, 0)
    chosen = torch.zeros_like(ids).scatter_add(1, safe, is_label.to(ids.dtype)) > 0
    excess = (1 - x.gather(1, safe).unsqueeze(2) + x.unsqueeze(1)).clamp(min=0)  # (N, t, i)
    counted = is_label.unsqueeze(2) & ~chosen.unsqueeze(1)
    losses = torch.where(counted, excess, 0.0).sum((1, 2)) / x.shape[1]
    losses = losses if input.ndim == 2 else losses.squeeze(0)
    return reduced(losses, reduction_of(size_average, reduce, reduction))
