"""Losses. `reduction` is "mean", "sum" or "none"; size_average and reduce are its former names."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

from .... import torch
from ....ops.network.activation import softplus
from ....ops.network.loss import (
    binary_cross_entropy_of,
    binary_cross_entropy_of_logits,
    cross_entropy_of_ids,
    mean_cross_entropy,
)

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "ctc_loss",
    "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "nll_loss",
    "poisson_nll_loss", "smooth_l1_loss",
]  # fmt: skip


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction, which the former names may say."""
    if size_average is not None or reduce is not None:
        warnings.warn(
            "size_average and reduce args will be deprecated, please use reduction instead.",
            stacklevel=3,
        )
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    return reduction


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Their mean, their sum, or all of them."""
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction != "none":
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return losses


def _aligned(
    name: str, input: Tensor, target: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Both in one shape; shapes that differ are most often a mistake."""
    if input.shape != target.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )
        input, target = torch.broadcast_tensors(input, target)
    return input, target


# Classes ------------------------------------------------------------------------------------------


def _axis(input: Tensor, target: Tensor) -> int:
    axis = 0 if input.ndim == 1 else 1
    wanted = (*input.shape[:axis], *input.shape[axis + 1 :])
    if input.ndim == 0 or tuple(target.shape) != wanted:
        if input.ndim and target.ndim and len(input) != len(target):
            raise ValueError(
                f"Expected input batch_size ({input.shape[0]}) to match target batch_size "
                f"({target.shape[0]})."
            )
        raise RuntimeError(f"Expected target size {list(wanted)}, got {list(target.shape)}")
    if target.dtype not in (torch.int64, torch.uint8):
        raise RuntimeError(f'expected scalar type Long but found "{target.dtype}"')
    return axis


def _check_weight(weight: Tensor | None, classes: int) -> None:
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )


def _weighed(
    losses: Tensor, target: Tensor, weight: Tensor | None, ignored: int, reduction: str
) -> Tensor:
    """Losses by their classes' weights, 0 where ignored; a mean divides by the weights."""
    kept = target != ignored
    ids = torch.where(kept, target, 0)
    shares = kept.to(losses.dtype) if weight is None else torch.where(kept, weight[ids], 0.0)
    losses = torch.where(kept, losses, 0.0) * shares
    return losses.sum() / shares.sum() if reduction == "mean" else reduced(losses, reduction)


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-x of the target's class, of log-probabilities (N, C, ...)."""
    reduction = reduction_of(size_average, reduce, reduction)
    axis = _axis(input, target)
    _check_weight(weight, input.shape[axis])
    ids = torch.where(target == ignore_index, 0, target)
    losses = -input.gather(axis, ids.unsqueeze(axis)).squeeze(axis)
    if weight is None and reduction == "mean" and ignore_index < 0 and losses.ndim == 0:
        return losses
    return _weighed(losses, target, weight, ignore_index, reduction)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-ln softmax(x) of the target's class, or of probabilities in the shape of the scores."""
    reduction = reduction_of(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input.shape == target.shape and target.is_floating_point():
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    axis = _axis(input, target)
    _check_weight(weight, input.shape[axis])
    plain = weight is None and not label_smoothing
    if plain and reduction == "mean" and input.ndim > 1:
        return mean_cross_entropy(input, target, axis, ignore_index)  # type: ignore[return-value]
    ids = torch.where(target == ignore_index, 0, target)
    losses = cross_entropy_of_ids(input, ids, axis)
    result = _weighed(losses, target, weight, ignore_index, reduction)  # type: ignore[arg-type]
    if not label_smoothing:
        return result
    return _smoothed(
        result, input, target, weight, axis, (ignore_index, reduction, label_smoothing)
    )


def _smoothed(
    result: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, axis: int,
    options: tuple[int, str, float],
) -> Tensor:  # fmt: skip
    """(1 - s) of the class's loss, and s of the mean loss of all classes."""
    ignored, reduction, smoothing = options
    logs = _by_class(-torch.log_softmax(input, axis), weight, axis).sum(axis)
    kept = target != ignored
    logs = torch.where(kept, logs, 0.0)
    if reduction == "mean":
        ids = torch.where(kept, target, 0)
        shares = kept if weight is None else torch.where(kept, weight[ids], 0.0)
        smooth = logs.sum() / shares.sum()
    else:
        smooth = reduced(logs, reduction)
    return result * (1 - smoothing) + smooth * (smoothing / input.shape[axis])


def _by_class(x: Tensor, weight: Tensor | None, axis: int) -> Tensor:
    if weight is None:
        return x
    return x * weight.reshape(-1, *(1,) * (x.ndim - axis - 1))


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    axis = 0 if input.ndim == 1 else 1
    classes = input.shape[axis]
    _check_weight(weight, classes)
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    losses = -_by_class(torch.log_softmax(input, axis) * target, weight, axis).sum(axis)
    if reduction == "mean":
        return losses.sum() / (input.numel() // classes)
    return reduced(losses, reduction)


# Probabilities ------------------------------------------------------------------------------------


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-t ln p - (1 - t) ln(1 - p) for probabilities p; logarithms are -100 at least."""
    reduction = reduction_of(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    if input.dtype != target.dtype:
        raise RuntimeError(f"Found dtype {target.dtype} but expected {input.dtype}")
    try:
        losses: Tensor = binary_cross_entropy_of(input, target)  # type: ignore[assignment]
    except ValueError:
        raise RuntimeError("all elements of input should be between 0 and 1") from None
    return reduced(losses if weight is None else losses * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """binary_cross_entropy(σ(x), t) without overflow; pos_weight weighs the positive class."""
    reduction = reduction_of(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    target = target.to(input.dtype)
    losses: Tensor = binary_cross_entropy_of_logits(input, target)  # type: ignore[assignment]
    if pos_weight is not None:  # -ln σ(x) = softplus(-x)
        losses = losses + (pos_weight - 1) * target * softplus(-input, threshold=math.inf)
    return reduced(losses if weight is None else losses * weight, reduction)


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """t (ln t - x) for log-probabilities x; "batchmean" divides the sum by the batch size."""
    reduction = reduction_of(size_average, reduce, reduction)
    if log_target:
        losses = target.exp() * (target - input)
    else:
        losses = torch.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return losses.sum() / (input.shape[0] if input.ndim else 1)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release.",
            stacklevel=2,
        )
    return reduced(losses, reduction)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
    size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """e^x - t x, or x - t ln x; full: and Stirling's approximation of ln t!"""
    reduction = reduction_of(size_average, reduce, reduction)
    rate = input.exp() if log_input else input
    losses = rate - target * (input if log_input else (input + eps).log())
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        losses = losses + torch.where(target > 1, stirling, 0.0)
    return reduced(losses, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """(ln v + (x - t)² / v) / 2, v at least eps"""
    if isinstance(var, (int, float)):
        var = torch.full_like(input, var)
    sizes, wanted = tuple(var.shape), tuple(input.shape)
    others = [v for v, n in zip(sizes, wanted, strict=False) if v != n]
    if sizes != wanted and not (len(sizes) == len(wanted) and others == [1]):  # one for an axis
        if sizes != wanted[:-1]:
            raise ValueError("var is of incorrect size")
        var = var.unsqueeze(-1)
    if (var < 0).any():
        raise ValueError("var has negative entry/entries")
    raised = torch.where(var.detach() < eps, eps, var.detach())
    var = var + (raised - var.detach())
    losses = 0.5 * (var.log() + (input - target) ** 2 / var)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


# Distances ----------------------------------------------------------------------------------------


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """(x - t)²"""
    reduction = reduction_of(size_average, reduce, reduction)
    input, target = _aligned("mse_loss", input, target)
    return _mean_of((input - target).square(), weight, reduction)


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """|x - t|"""
    reduction = reduction_of(size_average, reduce, reduction)
    input, target = _aligned("l1_loss", input, target)
    return _mean_of((input - target).abs(), weight, reduction)


def _mean_of(losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Losses by weights; their mean divides by the weights."""
    if weight is None:
        return reduced(losses, reduction)
    weight = weight.expand_as(losses)
    losses = losses * weight
    return losses.sum() / weight.sum() if reduction == "mean" else reduced(losses, reduction)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """d² / 2β where |d| < β, else |d| - β/2, with d = x - t"""
    reduction = reduction_of(size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    input, target = _aligned("smooth_l1_loss", input, target)
    d = (input - target).abs()
    if beta == 0:
        return reduced(d, reduction)
    return reduced(torch.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta), reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """d² / 2 where |d| <= δ, else δ (|d| - δ/2), with d = x - t"""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    input, target = _aligned("huber_loss", input, target)
    d = (input - target).abs()
    return _mean_of(
        torch.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta)), weight, reduction
    )


# Sequences ----------------------------------------------------------------------------------------


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
    blank: int = 0, reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """-ln of the probability of all alignments: log_probs (T, N, C), targets (N, S) or flat."""
    is_batched = log_probs.ndim == 3
    if not is_batched:
        log_probs = log_probs.unsqueeze(1)
    if not 0 <= blank < log_probs.shape[2]:
        raise RuntimeError("blank must be in label range")
    inputs, labels = (_lengths(given) for given in (input_lengths, target_lengths))
    losses = []
    start = 0
    for n, (time, count) in enumerate(zip(inputs, labels, strict=True)):
        if time > len(log_probs):
            raise RuntimeError(
                f"Expected input_lengths to have value at most {len(log_probs)}, but got "
                f"value {time}"
            )
        flat = targets.ndim == 1
        ids = (targets[start : start + count] if flat else targets[n, :count]).tolist()
        start += count
        losses.append(_alignments(log_probs[:time, n], ids, blank))
    found = torch.stack(losses)
    if zero_infinity:
        found = torch.where(torch.isinf(found), 0.0, found)
    if reduction == "mean":
        counts = torch.tensor(labels, dtype=found.dtype).clamp(min=1)
        return (found / counts).mean()
    return reduced(found if is_batched or reduction != "none" else found[0], reduction)


def _lengths(given: Tensor | tuple[int, ...]) -> list[int]:
    found = given.tolist() if isinstance(given, torch.Tensor) else list(given)
    return found if isinstance(found, list) else [found]


def _alignments(logs: Tensor, ids: list[int], blank: int) -> Tensor:
    """The forward recursion over blanks and labels in turn, of (T, C)."""
    states = [blank] + [s for i in ids for s in (i, blank)]
    skips = [
        i >= 2 and states[i] != blank and states[i] != states[i - 2] for i in range(len(states))
    ]
    if not len(logs):
        nothing = 0.0 if not ids else math.inf
        return torch.tensor(nothing, dtype=logs.dtype)
    lowest = torch.finfo(logs.dtype).min / 4  # -inf would make the gradient NaN
    emitted = logs[:, torch.tensor(states)]
    is_first = torch.tensor([i < 2 for i in range(len(states))])
    alpha = torch.where(is_first, emitted[0], lowest)
    may_skip = torch.tensor(skips)
    low = torch.full((2,), lowest, dtype=logs.dtype)
    for t in range(1, len(logs)):
        shifted = torch.cat([low, alpha])
        twice = torch.where(may_skip, shifted[: len(states)], lowest)
        before = torch.stack([alpha, shifted[1 : 1 + len(states)], twice])
        alpha = torch.logsumexp(before, 0) + emitted[t]
    total = torch.logsumexp(alpha[-2:], 0)
    return torch.where(total < lowest / 2, math.inf, -total)
