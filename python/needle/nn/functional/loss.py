"""Losses. `reduction` is "mean", "sum", or "none" for one loss per element or position."""

from __future__ import annotations

import math

from ...autograd import Tensor
from ...backend.protocol import Outside
from ...dtype import DType, dtype_of, promote, widened
from ...ndarray.index.errors import rewrite_index_error, wrong_id
from ...ndarray.layout import broadcast_shapes
from ...ops import gather, logsoftmax, minimum, norm, where
from ...ops.index.indexing import ids_of
from ...ops.network.activation import softplus
from ...ops.network.loss import (
    binary_cross_entropy_of,
    binary_cross_entropy_of_logits,
    cross_entropy_of_ids,
    mean_cross_entropy,
)
from ...ops.reduce import averaged

__all__ = [
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "kl_div", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cosine_similarity",
    "cosine_embedding_loss", "triplet_margin_loss",
]  # fmt: skip

REDUCTIONS = ("mean", "sum", "none")


def _check_reduction(op: str, reduction: str, *more: str) -> None:
    allowed = (*REDUCTIONS, *more)
    if reduction not in allowed:
        raise ValueError(f"[{op}] reduction must be one of {allowed}, got {reduction!r}.")


def _reduced(op: str, loss: Tensor, reduction: str) -> Tensor:
    _check_reduction(op, reduction)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def _check_alike(op: str, input: Tensor, target: Tensor) -> None:
    """Broadcasting here is nearly always a mistake: (N,) against (N, 1) would be N x N losses."""
    if input.shape != target.shape:
        raise ValueError(
            f"[{op}] expected input and target of one shape, got {input.shape} and {target.shape}; "
            "reshape one of them."
        )


# Classes ----------------------------------------------------------------------------------------


def _class_axis(op: str, input: Tensor, target: Tensor) -> int:
    axis = 0 if input.ndim == 1 else 1
    ids_shape = (*input.shape[:axis], *input.shape[axis + 1 :])
    if input.ndim == 0 or target.shape != ids_shape:
        raise ValueError(
            f"[{op}] expected scores (N, C, ...) and class ids (N, ...), got {input.shape} and "
            f"{target.shape}."
        )
    return axis


def _kept(target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Which ids count, and ids that are valid also where they do not."""
    ids = ids_of(target)
    kept = ids.ne(ignore_index)
    return kept, where(kept, ids, 0)


def _weigh(loss: Tensor, kept: Tensor, ids: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """Losses of the classes by their weights, 0 where ignored; and what a mean divides by."""
    shares = kept.astype(loss.dtype)
    if weight is not None:
        shares = shares * weight[ids]
    return where(kept, loss * shares, 0.0), shares


def _finish(losses: Tensor, shares: Tensor, reduction: str) -> Tensor:
    if reduction != "mean":
        return losses if reduction == "none" else losses.sum()
    wide = widened(dtype_of(losses.dtype))  # the sums of a mean may be too large for halves
    mean = losses.astype(wide).sum() / shares.astype(wide).sum()
    return mean.astype(losses.dtype)


def _check_weight(op: str, weight: Tensor | None, classes: int) -> None:
    if weight is not None and weight.shape != (classes,):
        raise ValueError(
            f"[{op}] expected one weight for each of {classes} classes, got {weight.shape}."
        )


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(scores) of the target class: scores (C,), (N, C) or (N, C, ...).

    The target holds class ids (N, ...), or probabilities in the shape of the scores. A mean over
    ids divides by the sum of the weights of those that are not ignored."""
    _check_reduction("cross_entropy", reduction)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(
            f"[cross_entropy] expected label_smoothing in 0 to 1, got {label_smoothing}."
        )
    if target.shape == input.shape and input.ndim:
        if not dtype_of(target.dtype).is_floating:
            raise TypeError(
                "[cross_entropy] expected probabilities as floats in the shape of the scores, got "
                f"{target.dtype} of shape {target.shape}; class ids have shape (N, ...), without "
                "the classes."
            )
        if ignore_index != -100:
            raise ValueError(
                "[cross_entropy] expected no ignore_index beside probabilities, which are of no "
                f"class, got {ignore_index}."
            )
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    axis = _class_axis("cross_entropy", input, target)
    classes = input.shape[axis]
    _check_weight("cross_entropy", weight, classes)
    if weight is None and reduction == "mean" and not label_smoothing:
        return mean_cross_entropy(input, target, axis, ignore_index)
    kept, ids = _kept(target, ignore_index)
    losses, shares = _weigh(cross_entropy_of_ids(input, ids, axis), kept, ids, weight)
    result = _finish(losses, shares, reduction)
    if not label_smoothing:
        return result
    everywhere = -_weighted(logsoftmax(input, axis), weight, axis).mean(axis)
    smooth = _finish(where(kept, everywhere, 0.0), shares, reduction)
    return result * (1 - label_smoothing) + smooth * label_smoothing


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    """Against probabilities; a mean divides by the number of positions."""
    axis = 0 if input.ndim == 1 else 1
    classes = input.shape[axis]
    _check_weight("cross_entropy", weight, classes)
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    losses = -(_weighted(logsoftmax(input, axis), weight, axis) * target).sum(axis)
    return _reduced("cross_entropy", losses, reduction)


def _weighted(scores: Tensor, weight: Tensor | None, axis: int) -> Tensor:
    if weight is None:
        return scores
    return scores * weight.reshape((weight.size, *(1,) * (scores.ndim - 1 - axis)))


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability of the target class: (C,), (N, C) or (N, C, ...) and class ids."""
    _check_reduction("nll_loss", reduction)
    axis = _class_axis("nll_loss", input, target)
    classes = input.shape[axis]
    _check_weight("nll_loss", weight, classes)
    kept, ids = _kept(target, ignore_index)

    def words(_: str, outside: Outside) -> str:
        return f"[nll_loss] expected class ids from 0 to {classes - 1}, got {wrong_id(outside)}."

    with rewrite_index_error(words):
        picked = gather(input, axis, ids.expand_dims(axis)).squeeze(axis)
    losses, shares = _weigh(-picked, kept, ids, weight)
    return _finish(losses, shares, reduction)


# Probabilities ----------------------------------------------------------------------------------


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-t ln p - (1 - t) ln(1 - p) for probabilities p; logarithms are -100 at least."""
    _check_alike("binary_cross_entropy", input, target)
    losses = binary_cross_entropy_of(input, target)
    return _reduced(
        "binary_cross_entropy", losses if weight is None else losses * weight, reduction
    )


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy(σ(x), t) without overflow; pos_weight weighs the positive class."""
    _check_alike("binary_cross_entropy_with_logits", input, target)
    losses = binary_cross_entropy_of_logits(input, target)
    if pos_weight is not None:  # -ln σ(x) = softplus(-x)
        losses = losses + (pos_weight - 1) * target * softplus(-input, threshold=math.inf)
    losses = losses if weight is None else losses * weight
    return _reduced("binary_cross_entropy_with_logits", losses, reduction)


def kl_div(
    input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """t (ln t - x) for log-probabilities x; "batchmean" divides the sum by the batch size."""
    _check_reduction("kl_div", reduction, "batchmean")
    _check_alike("kl_div", input, target)
    if log_target:
        losses = target.exp() * (target - input)
    else:
        some = target.ne(0)  # 0 ln 0 = 0
        losses = target * where(some, where(some, target, 1.0).log() - input, 0.0)
    if reduction == "batchmean":
        return losses.sum() / max(input.shape[0], 1)
    return _reduced("kl_div", losses, reduction)


# Distances --------------------------------------------------------------------------------------


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """(x - t)² of input x and target t of one shape: their mean, sum, or ("none") all of them."""
    _check_alike("mse_loss", input, target)
    return _reduced("mse_loss", (input - target).square(), reduction)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """|x - t| of input x and target t of one shape: their mean, sum, or ("none") all of them."""
    _check_alike("l1_loss", input, target)
    return _reduced("l1_loss", (input - target).abs(), reduction)


def smooth_l1_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """d² / 2β where |d| < β, else |d| - β/2, with d = x - t"""
    if not beta >= 0:
        raise ValueError(f"[smooth_l1_loss] expected beta >= 0, got {beta}.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    _check_alike("smooth_l1_loss", input, target)
    losses = _huber(input, target, beta)
    return _reduced("smooth_l1_loss", losses if beta == 1 else losses / beta, reduction)


def huber_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """d² / 2 where |d| <= δ, else δ (|d| - δ/2), with d = x - t"""
    if not delta > 0:
        raise ValueError(f"[huber_loss] expected delta > 0, got {delta}.")
    _check_alike("huber_loss", input, target)
    return _reduced("huber_loss", _huber(input, target, delta), reduction)


def _huber(input: Tensor, target: Tensor, bound: float) -> Tensor:
    """c (|d| - c/2) with c = min(|d|, bound): no square of a large d"""
    d = (input - target).abs()
    c = d.clip(max=bound)
    return c * (d - c / 2)


def _for_squares(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor, DType]:
    """Both in the type that holds the squares of halves, and the type of the result."""
    dtype = averaged(promote(dtype_of(x1.dtype), dtype_of(x2.dtype)))
    return x1.astype(widened(dtype)), x2.astype(widened(dtype)), dtype


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1·x2 / (|x1| |x2|) along dim, each length at least eps"""
    shape = broadcast_shapes("cosine_similarity", x1.shape, x2.shape)
    x1, x2 = (x if x.shape == shape else x.broadcast_to(shape) for x in (x1, x2))
    x1, x2, dtype = _for_squares(x1, x2)
    lengths = norm(x1, 2, dim).clip(eps) * norm(x2, 2, dim).clip(eps)
    return ((x1 * x2).sum(dim) / lengths).astype(dtype)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    *,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where the target is 1, max(cos - margin, 0) where it is -1: (N, D) or (D,)."""
    _check_alike("cosine_embedding_loss", input1, input2)
    if input1.ndim not in (1, 2) or target.shape != input1.shape[:-1]:
        raise ValueError(
            "[cosine_embedding_loss] expected inputs (N, D) and a target (N,), or (D,) and (), got "
            f"{input1.shape} and {target.shape}."
        )
    tiny = 1e-12
    x1, x2, dtype = _for_squares(input1, input2)
    products = ((x1 * x1).sum(-1) + tiny) * ((x2 * x2).sum(-1) + tiny)
    cosine = ((x1 * x2).sum(-1) / products.sqrt()).astype(dtype)
    apart = where(target.eq(-1), (cosine - margin).relu(), 0.0)
    losses = where(target.eq(1), 1 - cosine, apart)
    return _reduced("cosine_embedding_loss", losses, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """max(|a - p| - |a - n| + margin, 0) in the p-norm, of (N, D) or (D,).

    swap: |p - n| instead of |a - n|, where that is less."""
    if not margin > 0:
        raise ValueError(f"[triplet_margin_loss] expected margin > 0, got {margin}.")
    for other in (positive, negative):
        _check_alike("triplet_margin_loss", anchor, other)
    near, far = (norm(anchor - x + eps, p, -1) for x in (positive, negative))
    if swap:
        far = minimum(far, norm(positive - negative + eps, p, -1))
    return _reduced("triplet_margin_loss", (near - far + margin).relu(), reduction)
