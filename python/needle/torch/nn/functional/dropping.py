"""Dropout and its kin: the masks are those that PyTorch draws from the same seed."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from .... import torch
from ....ops.network.dropout import drop
from .activation import SELU_ALPHA, SELU_SCALE, changed

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
]  # fmt: skip


def _check(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _kept(input: Tensor, p: float, features: bool) -> Tensor:
    """1 with probability 1 - p: for each element, or for each channel of (N, C, ...)."""
    if features:
        shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
        return _drawn(shape, input, p)
    order = _drawing_order(input)
    if order is None:
        return _drawn(tuple(input.shape), input, p)
    kept = _drawn(tuple(input.shape[axis] for axis in order), input, p)
    return kept.permute(*(order.index(axis) for axis in range(input.ndim)))


def _drawn(shape: tuple[int, ...], input: Tensor, p: float) -> Tensor:
    noise = torch.empty(shape, dtype=input.dtype, device=input.device)
    found: Tensor = noise.bernoulli_(1 - p)
    return found


def _drawing_order(input: Tensor) -> list[int] | None:
    """The order of axes in which PyTorch draws, if it is not that of the axes: the one in memory.

    Channels-last results of convolutions and pools are contiguous in PyTorch."""
    if input.is_contiguous():
        return None
    strides = input.stride()
    order = sorted(range(input.ndim), key=lambda axis: -strides[axis])
    if order == [0, *range(2, input.ndim), 1]:
        return None
    return order if input.permute(*order).is_contiguous() else None


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element is zero with probability p, else x / (1 - p)."""
    _check(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return changed(input, input * torch.zeros_like(input), inplace)
    return changed(input, drop(input, _kept(input, p, False).bool(), 1 - p), inplace)


def _feature_dropout(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return changed(input, input * torch.zeros_like(input), inplace)
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return changed(input, input * (_kept(input, p, True) / (1 - p)), inplace)


def _of_channels(
    name: str, rank: int, input: Tensor, p: float, training: bool, inplace: bool
) -> Tensor:
    _check(p)
    if input.ndim not in (rank + 1, rank + 2):
        warnings.warn(
            f"{name}: Received a {input.ndim}-D input, which is deprecated and will result in an "
            "error in a future release.",
            stacklevel=3,
        )
    if input.ndim == rank + 1 and rank != 2:
        found = _feature_dropout(input.unsqueeze(0), p, training, False).squeeze(0)
        return changed(input, found, inplace)
    return _feature_dropout(input, p, training, inplace)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (N, C, L) or (C, L)."""
    return _of_channels("dropout1d", 1, input, p, training, inplace)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (N, C, H, W)."""
    return _of_channels("dropout2d", 2, input, p, training, inplace)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return _of_channels("dropout3d", 3, input, p, training, inplace)


def _alpha(input: Tensor, p: float, training: bool, inplace: bool, features: bool) -> Tensor:
    """Elements become -α scale with probability p; then mean and variance are restored."""
    _check(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return changed(input, input * torch.zeros_like(input), inplace)
    alpha = SELU_ALPHA * SELU_SCALE
    a = 1.0 / (((alpha**2) * p + 1) * (1 - p)) ** 0.5
    noise = _kept(input, p, features)
    b = (noise - 1) * (alpha * a) + alpha * a * p
    return changed(input, input * (noise * a) + b, inplace)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean 0 and variance 1, for selu."""
    return _alpha(input, p, training, inplace, features=False)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """alpha_dropout of whole channels."""
    return _alpha(input, p, training, inplace, features=True)
