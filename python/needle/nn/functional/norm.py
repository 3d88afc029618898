"""Normalisation. N = batch, C = channels; the weight scales and the bias shifts what comes out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...autograd import Tensor
from ...dtype import bfloat16, dtype_of, float32, float64
from ...ops import norm
from ...ops.normalization.batch_norm import batch_norm as norm_of_batch
from ...ops.normalization.group_norm import group_norm as norm_of_groups
from ...ops.normalization.layer_norm import affine_norm, apply_affine, layer_norm as normalized
from ...ops.reduce import accumulator, averaged

__all__ = ["layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm", "normalize"]


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and deviation 1 over the last axes, which have normalized_shape."""
    n_axes = _trailing("layer_norm", input, normalized_shape)
    return affine_norm(input, n_axes, eps, True, weight, bias)


def rms_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Root mean square 1 over the last axes; eps defaults to the dtype's own."""
    n_axes = _trailing("rms_norm", input, normalized_shape)
    eps = _epsilon(input) if eps is None else eps
    return affine_norm(input, n_axes, eps, False, weight, None)


def _trailing(op: str, x: Tensor, shape: int | Sequence[int]) -> int:
    """How many axes are normalised: the last ones, if they have this shape."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not sizes or x.shape[-len(sizes) :] != sizes:
        raise ValueError(
            f"[{op}] expected an input whose last dimensions are {sizes}, got {x.shape}; change "
            "normalized_shape, or move the normalised axes last."
        )
    return len(sizes)


def _epsilon(x: Tensor) -> float:
    dtype = averaged(dtype_of(x.dtype))  # of integers, that of their mean
    return 2.0**-7 if dtype is bfloat16 else float(np.finfo(dtype.storage).eps)


def _per_channel(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """y weight + bias with one of each for each channel of (N, C, ...)."""
    return apply_affine(y, *(None if p is None else _column(p, y.ndim) for p in (weight, bias)))


def _column(p: Tensor, ndim: int) -> Tensor:
    """(C,) -> (C, 1, 1...), which broadcasts against (N, C, ...)."""
    return p.reshape((p.size, *(1,) * (ndim - 2)))


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
    *,
    correction: int = 1,
) -> Tensor:
    """(N, C, ...): each channel by the batch's statistics (training) or the running ones.

    Training moves the running statistics towards the batch's, in place; `correction=0` tracks the
    biased variance instead of the unbiased one."""
    _check_channels("batch_norm", input, 2, running_mean, weight, bias)
    if not eps > 0:
        raise ValueError(f"[batch_norm] expected eps > 0, got {eps}.")
    axes = (0, *range(2, input.ndim))
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("[batch_norm] expected running_mean and running_var in eval mode.")
        scale = (running_var + eps).rsqrt()
        centred = input - _column(running_mean, input.ndim)
        return _per_channel(centred, scale if weight is None else scale * weight, bias)
    count = values_per_channel(input)
    whole = _as_one(input, weight, bias)
    if whole is None:
        y, mean, var = normalized(input, axes, eps)
        y = _per_channel(y, weight, bias)
    else:
        y, mean, var = norm_of_batch(input, axes, eps, *whole)
    _track(running_mean, mean, momentum)
    _track(running_var, var * (count / (count - correction)), momentum)
    return y


def values_per_channel(x: Tensor) -> int:
    """Over how many values a batch's statistics go: of one, the deviation is 0 and all is lost."""
    count = math.prod(x.shape[:1] + x.shape[2:])
    if count <= 1:
        raise ValueError(
            f"[batch_norm] expected more than 1 value per channel in training, got {x.shape}; use "
            "a larger batch (drop_last=True leaves out a short last one), or eval()."
        )
    return count


def _as_one(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Weight and bias with x's axes, if there is one operator for the three; else None."""
    if weight is None or bias is None or x.dtype not in (float32, float64):
        return None
    if weight.dtype != x.dtype or bias.dtype != x.dtype:
        return None
    shape = (1, x.shape[1], *(1,) * (x.ndim - 2))
    return weight.reshape(shape), bias.reshape(shape)


def _track(running: Tensor | None, batch: Tensor, momentum: float | Tensor) -> None:
    """running = (1 - momentum) running + momentum batch, outside the graph"""
    if running is None:
        return
    new = batch.detach().reshape(running.shape) * momentum
    running.data = (running.data * (1 - momentum) + new).astype(running.dtype)


def _check_channels(op: str, x: Tensor, least: int, *per_channel: Tensor | None) -> None:
    if x.ndim < least:
        raise ValueError(f"[{op}] expected (batch, channels, ...), got {x.shape}.")
    for p in per_channel:
        if p is not None and p.shape != x.shape[1:2]:
            raise ValueError(
                f"[{op}] expected {p.shape[0] if p.shape else 1} channels (axis 1 of the input), "
                f"got {x.shape}; change their number, or move the channels to axis 1."
            )


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(N, C, ...): mean 0 and deviation 1 over each group of channels and all places."""
    _check_channels("group_norm", input, 2, weight, bias)
    batch, channels, *rest = input.shape
    if num_groups < 1 or channels % num_groups:
        raise ValueError(
            f"[group_norm] expected the channels to divide into {num_groups} groups, got "
            f"{channels} in {input.shape}."
        )
    each = channels // num_groups
    if batch * each * math.prod(rest) == 1:
        raise ValueError(
            f"[group_norm] expected more than one value per group, got {input.shape} with "
            f"{num_groups} groups."
        )
    whole = _as_one(input, weight, bias)
    if whole is None:
        grouped = input.reshape((batch, num_groups, each, *rest))
        y, _, _ = normalized(grouped, range(2, grouped.ndim), eps)
        return _per_channel(y.reshape(input.shape), weight, bias)
    grouped = input.reshape((batch, num_groups, each, math.prod(rest)))
    affine = (p.reshape((1, num_groups, each, 1)) for p in whole)
    return norm_of_groups(grouped, eps, *affine).reshape(input.shape)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(N, C, ...): each channel of each sample over its places, or by the running statistics."""
    _check_channels("instance_norm", input, 3, running_mean, weight, bias)
    if not eps > 0:
        raise ValueError(f"[instance_norm] expected eps > 0, got {eps}.")
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    axes = range(2, input.ndim)
    count = math.prod(input.shape[2:])
    if count <= 1:
        raise ValueError(
            f"[instance_norm] expected more than one value per channel, got {input.shape}."
        )
    y, mean, var = normalized(input, axes, eps)
    _track(running_mean, mean.mean(0), momentum)
    _track(running_var, var.mean(0) * (count / (count - 1)), momentum)
    return _per_channel(y, weight, bias)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x divided by its p-norm along dim, but by eps at least"""
    x = input.astype(accumulator(input.dtype))  # eps is no float16
    y = x / norm(x, p, dim, keepdims=True).clip(eps)
    return y.astype(averaged(input.dtype))
