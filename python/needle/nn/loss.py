"""Losses."""

from __future__ import annotations

from ..autograd import Tensor
from ..ops import logsumexp, take_along_axis
from .module import Module


class SoftmaxLoss(Module):
    """Mean of ln Σ e^logits - logits[y] over a batch: logits (B, C), class ids y (B,)."""

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        if logits.ndim != 2 or y.shape != logits.shape[:1]:
            raise ValueError(
                "[SoftmaxLoss] expected logits (batch, classes) and class ids (batch,), got "
                f"{logits.shape} and {y.shape}."
            )
        ids = y.astype("int64").reshape((y.shape[0], 1))
        picked = take_along_axis(logits, ids, 1).reshape((y.shape[0],))
        return (logsumexp(logits, 1) - picked).sum() / logits.shape[0]
