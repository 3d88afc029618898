"""Dropout: zero some elements in training, scale the rest."""

from __future__ import annotations

from ..autograd import Tensor
from . import functional as F
from .module import Module

__all__ = ["Dropout", "Dropout2d", "Dropout1d"]


class Dropout(Module):
    """Each element is zero with probability p, else x / (1 - p); the identity in eval mode.

    `inplace` changes nothing."""

    def __init__(self, p: float = 0.5, inplace: bool = False):
        if not 0 <= p <= 1:
            raise ValueError(f"[Dropout] expected a probability between 0 and 1, got p={p}.")
        self.p = p

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        """One draw per element."""
        return x.shape

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training, mask_shape=self.mask_shape(x))

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Dropout2d(Dropout):
    """Whole channels of (N, C, H, W) at once."""

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        return (*x.shape[:2], *(1 for _ in x.shape[2:]))


class Dropout1d(Dropout2d):
    """Whole channels of (N, C, L), or of (C, L), at once."""

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[0], 1) if x.ndim == 2 else super().mask_shape(x)
