"""Losses as layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from .. import functional as F
from ..base.module import Module
from ..functional.loss import reduction_of

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss",
    "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
    "NLLLoss", "NLLLoss2d", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Module):
    """A function of inputs and targets; `_options` are attributes that it is given."""

    __constants__ = ["reduction"]
    _function: ClassVar[Callable[..., Tensor]]
    _options: ClassVar[tuple[str, ...]] = ()
    reduction: str

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = reduction_of(size_average, reduce, reduction)

    def forward(self, *inputs: Any) -> Tensor:
        options = {name: getattr(self, name) for name in self._options}
        return type(self)._function(*inputs, reduction=self.reduction, **options)


class _WeightedLoss(_Loss):
    """A loss with a weight, a buffer."""

    _options: ClassVar[tuple[str, ...]] = ("weight",)

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """|x - t|"""

    _function = staticmethod(F.l1_loss)


class MSELoss(_Loss):
    """(x - t)²"""

    _function = staticmethod(F.mse_loss)


class SoftMarginLoss(_Loss):
    """ln(1 + e^(-t x))"""

    _function = staticmethod(F.soft_margin_loss)


class MultiLabelMarginLoss(_Loss):
    """The mean over classes of Σ max(1 - x_t + x_i, 0)"""

    _function = staticmethod(F.multilabel_margin_loss)


class BCELoss(_WeightedLoss):
    """-t ln p - (1 - t) ln(1 - p) for probabilities p"""

    _function = staticmethod(F.binary_cross_entropy)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of -t ln σ(x) - (1 - t) ln σ(-x)"""

    _function = staticmethod(F.multilabel_soft_margin_loss)


class BCEWithLogitsLoss(_Loss):
    """BCELoss of σ(x), without overflow."""

    _function = staticmethod(F.binary_cross_entropy_with_logits)
    _options = ("weight", "pos_weight")

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)


class NLLLoss(_WeightedLoss):
    """-x of the target's class, of log-probabilities."""

    __constants__ = ["ignore_index", "reduction"]
    _function = staticmethod(F.nll_loss)
    _options = ("weight", "ignore_index")

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index


class NLLLoss2d(NLLLoss):
    """NLLLoss, as it was called for images."""


class CrossEntropyLoss(_WeightedLoss):
    """-ln softmax(x) of the target's class."""

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]
    _function = staticmethod(F.cross_entropy)
    _options = ("weight", "ignore_index", "label_smoothing")

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing


class PoissonNLLLoss(_Loss):
    """e^x - t x, or x - t ln x"""

    __constants__ = ["log_input", "full", "eps", "reduction"]
    _function = staticmethod(F.poisson_nll_loss)
    _options = ("log_input", "full", "eps")

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: bool | None = None,
        eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps


class GaussianNLLLoss(_Loss):
    """(ln v + (x - t)² / v) / 2"""

    __constants__ = ["full", "eps", "reduction"]
    _function = staticmethod(F.gaussian_nll_loss)
    _options = ("full", "eps")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps


class KLDivLoss(_Loss):
    """t (ln t - x) for log-probabilities x"""

    _function = staticmethod(F.kl_div)
    _options = ("log_target",)

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", log_target: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target


class SmoothL1Loss(_Loss):
    """d² / 2β where |d| < β, else |d| - β/2"""

    _function = staticmethod(F.smooth_l1_loss)
    _options = ("beta",)

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", beta: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.beta = beta


class HuberLoss(_Loss):
    """d² / 2 where |d| <= δ, else δ (|d| - δ/2)"""

    __constants__ = ["reduction", "delta"]
    _function = staticmethod(F.huber_loss)
    _options = ("delta",)

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta


class _MarginLoss(_Loss):
    """A loss with a margin, its first argument."""

    __constants__ = ["margin", "reduction"]
    _options = ("margin",)

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class CosineEmbeddingLoss(_MarginLoss):
    """1 - cos where the target is 1, max(cos - margin, 0) where it is -1"""

    _function = staticmethod(F.cosine_embedding_loss)


class MarginRankingLoss(_MarginLoss):
    """max(-t (x1 - x2) + margin, 0)"""

    _function = staticmethod(F.margin_ranking_loss)


class HingeEmbeddingLoss(_MarginLoss):
    """x where the target is 1, max(margin - x, 0) where it is -1"""

    _function = staticmethod(F.hinge_embedding_loss)

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(margin, size_average, reduce, reduction)


class MultiMarginLoss(_WeightedLoss):
    """The mean over classes of max(margin - x_t + x_i, 0)^p"""

    __constants__ = ["p", "margin", "reduction"]
    _function = staticmethod(F.multi_margin_loss)
    _options = ("p", "margin", "weight")

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.ndim != 1:
            raise ValueError("weight must be 1-D")
        self.p = p
        self.margin = margin


class TripletMarginLoss(_Loss):
    """max(|a - p| - |a - n| + margin, 0)"""

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]
    _function = staticmethod(F.triplet_margin_loss)
    _options = ("margin", "p", "eps", "swap")

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginLoss: expected margin to be greater than 0, got {margin}"
            )
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with any distance."""

    __constants__ = ["margin", "swap", "reduction"]
    _function = staticmethod(F.triplet_margin_with_distance_loss)
    _options = ("distance_function", "margin", "swap")

    def __init__(
        self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0, swap: bool = False, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin}"
            )
        chosen = F.pairwise_distance if distance_function is None else distance_function
        self.distance_function = chosen
        self.margin = margin
        self.swap = swap


class CTCLoss(_Loss):
    """-ln of the probability of all alignments of the targets."""

    __constants__ = ["blank", "reduction"]
    _function = staticmethod(F.ctc_loss)
    _options = ("blank", "zero_infinity")

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity
