"""Losses as modules."""

from __future__ import annotations

from ..autograd import Tensor
from ..ops.network.loss import mean_cross_entropy
from . import functional as F
from .module import Module

__all__ = [
    "SoftmaxLoss", "CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "MSELoss",
    "L1Loss", "SmoothL1Loss", "HuberLoss", "KLDivLoss", "CosineEmbeddingLoss",
    "TripletMarginLoss", "CosineSimilarity",
]  # fmt: skip

NO_ID = -(1 << 62)  # no class has it: a loss that ignores it ignores nothing


class SoftmaxLoss(Module):
    """The course's loss: mean of ln Σ e^logits - logits[y] for logits (B, C), class ids y (B,)."""

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        if logits.ndim != 2 or y.shape != logits.shape[:1]:
            raise ValueError(
                "[SoftmaxLoss] expected logits (batch, classes) and class ids (batch,), got "
                f"{logits.shape} and {y.shape}."
            )
        return mean_cross_entropy(logits, y, 1, ignored=NO_ID)


class _Loss(Module):
    """A loss with a reduction."""

    def __init__(self, *, reduction: str = "mean"):
        self.reduction = reduction

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"


class CrossEntropyLoss(_Loss):
    """-log softmax(scores) of class ids or probabilities: scores (C,), (N, C) or (N, C, ...)."""

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        super().__init__(reduction=reduction)
        self.weight = weight
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_Loss):
    """Minus the log-probability of the target class."""

    def __init__(
        self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean"
    ):
        super().__init__(reduction=reduction)
        self.weight = weight
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class BCELoss(_Loss):
    """-t ln p - (1 - t) ln(1 - p) for probabilities p."""

    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean"):
        super().__init__(reduction=reduction)
        self.weight = weight

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """BCELoss of σ(x), without overflow."""

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ):
        super().__init__(reduction=reduction)
        self.weight = weight
        self.pos_weight = pos_weight

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class MSELoss(_Loss):
    """(x - t)²"""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """|x - t|"""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """d² / 2β where |d| < β, else |d| - β/2, with d = x - t"""

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0):
        super().__init__(reduction=reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """d² / 2 where |d| <= δ, else δ (|d| - δ/2), with d = x - t"""

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
    """t (ln t - x) for log-probabilities x; "batchmean" divides the sum by the batch size."""

    def __init__(self, *, reduction: str = "mean", log_target: bool = False):
        super().__init__(reduction=reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class CosineEmbeddingLoss(_Loss):
    """1 - cos where the target is 1, max(cos - margin, 0) where it is -1."""

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean"):
        super().__init__(reduction=reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(
            input1, input2, target, self.margin, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """max(|a - p| - |a - n| + margin, 0), of an anchor, one of its kind and one of another"""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        *,
        reduction: str = "mean",
    ):
        super().__init__(reduction=reduction)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        options = (self.margin, self.p, self.eps, self.swap)
        return F.triplet_margin_loss(anchor, positive, negative, *options, reduction=self.reduction)


class CosineSimilarity(Module):
    """x1·x2 / (|x1| |x2|) along dim"""

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
