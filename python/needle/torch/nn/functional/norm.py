"""Normalisation. N = batch, C = channels; the weight scales and the bias shifts what comes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .... import torch
from ....nn.functional import norm as fused
from .pool import avg_pool2d, avg_pool3d

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm",
]  # fmt: skip


def _trailing(input: Tensor, shape: Sequence[int], *given: Tensor | None) -> tuple[int, ...]:
    """The normalised shape, if the input ends with it and the weights have it."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not sizes or tuple(input.shape[-len(sizes) :]) != sizes:
        raise RuntimeError(
            f"Given normalized_shape={list(sizes)}, expected input with shape "
            f"[*, {', '.join(map(str, sizes))}], but got input of size{list(input.shape)}"
        )
    for tensor in given:
        if tensor is not None and tuple(tensor.shape) != sizes:
            raise RuntimeError(
                "Expected weight to be of same shape as normalized_shape, but got weight of shape "
                f"{list(tensor.shape)} and normalized_shape = {list(sizes)}"
            )
    return sizes


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and deviation 1 over the last axes, which have normalized_shape."""
    sizes = _trailing(input, normalized_shape, weight, bias)
    return fused.layer_norm(input, sizes, weight, bias, eps)  # type: ignore[return-value]


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    """Root mean square 1 over the last axes; eps defaults to the dtype's own."""
    sizes = _trailing(input, normalized_shape, weight)
    return fused.rms_norm(input, sizes, weight, eps)  # type: ignore[return-value]


def _check_count(input: Tensor, axes: Sequence[int]) -> None:
    if math.prod(input.shape[axis] for axis in axes) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}"
        )


def _check_channels(channels: int, **given: Tensor | None) -> None:
    for name, tensor in given.items():
        if tensor is not None and tensor.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {tensor.numel()}")


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(N, C, ...): each channel by the batch's statistics (training) or the running ones."""
    if training:
        _check_count(input, (0, *range(2, input.ndim)))
    channels = input.shape[1]
    _check_channels(
        channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    if training:
        return fused.batch_norm(  # type: ignore[return-value]
            input, running_mean, running_var, weight, bias, True, momentum, eps
        )
    if running_mean is None or running_var is None:
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when training=False"
        )
    column = (channels, *(1,) * (input.ndim - 2))
    scale = (running_var + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -running_mean * scale
    shift = shift if bias is None else shift + bias
    return input * scale.reshape(column) + shift.reshape(column)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(N, C, ...): mean 0 and deviation 1 over each group of channels and all places."""
    if input.ndim < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.ndim}"
        )
    if input.shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(input.shape)} and num_groups={num_groups}"
        )
    if math.prod(input.shape) // num_groups == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size "
            f"{[input.shape[0] * input.shape[1] // num_groups, num_groups, *input.shape[2:]]}"
        )
    return fused.group_norm(input, num_groups, weight, bias, eps)  # type: ignore[return-value]


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(N, C, ...): each channel of each sample over its places, or by the running statistics."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    return fused.instance_norm(  # type: ignore[return-value]
        input, running_mean, running_var, weight, bias, True, momentum, eps
    )


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + α mean of x² over `size` neighbouring channels)^β"""
    if input.ndim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)"
        )
    if input.numel() == 0:
        return input
    squares = (input * input).unsqueeze(1)
    if input.ndim == 3:
        padded = torch.nn.functional.pad(squares, (0, 0, size // 2, (size - 1) // 2))
        mean = avg_pool2d(padded, (size, 1), stride=1).squeeze(1)
    else:
        n, c, h, *_ = input.shape
        squares = squares.reshape(n, 1, c, h, -1)
        padded = torch.nn.functional.pad(squares, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        mean = avg_pool3d(padded, (size, 1, 1), stride=1).squeeze(1).reshape(input.shape)
    return input / (mean * alpha + k).pow(beta)
