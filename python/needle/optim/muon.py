"""Muon."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ..autograd import Tensor
from ..ops.common import zeros_like
from .adam import adam_rates, adam_state, adam_step
from .group import ParamGroup, pair_of_betas
from .optimizer import Optimizer, State

__all__ = ["Muon"]


class Muon(Optimizer):
    """Momentum with an orthogonalized step for matrices (Jordan et al., 2024):

        u <- μ u + (1 - μ) g
        o = orthogonalize(μ u + (1 - μ) g if nesterov else u)
        p <- (1 - lr λ) p - s lr o

    s makes the steps of unlike shapes alike, for a matrix (n, m): √max(1, n/m) with
    adjust_lr_fn="original" (None), 0.2 √max(n, m) with "match_rms_adamw".

    Only 2-D parameters are updated so. All others (biases, norms, convolution kernels), and groups
    with `use_muon=False` (where embeddings and the output layer belong), get AdamW's step with
    `betas`, `eps` and the same weight decay; its learning rate is lr * adamw_lr_ratio, so that one
    schedule moves both. PyTorch's defaults; PyTorch's Muon takes 2-D parameters only.
    """

    variable = ("lr", "weight_decay", "momentum", "beta1", "beta2")
    not_in_pytorch = frozenset({"beta1", "beta2", "adamw_lr_ratio", "use_muon"})

    def __init__(
        self,
        params: Iterable[Tensor | Mapping[str, object]],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        *,
        betas: tuple[float, float] = (0.9, 0.95),
        adamw_lr_ratio: float = 1.0,
        use_muon: bool = True,
    ):
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                "[Muon] adjust_lr_fn must be None, 'original' or 'match_rms_adamw', "
                f"got {adjust_lr_fn!r}."
            )
        beta1, beta2 = pair_of_betas(betas)
        super().__init__(
            params,
            lr=lr,
            weight_decay=weight_decay,
            momentum=momentum,
            nesterov=nesterov,
            ns_coefficients=ns_coefficients,
            eps=eps,
            ns_steps=ns_steps,
            adjust_lr_fn=adjust_lr_fn,
            beta1=beta1,
            beta2=beta2,
            adamw_lr_ratio=adamw_lr_ratio,
            use_muon=use_muon,
        )

    def init_state(self, p: Tensor, group: ParamGroup) -> State:
        if _by_matrix(p, group):
            return {"momentum_buffer": zeros_like(p)}
        return adam_state(p)

    def rates(self, group: ParamGroup, t: Tensor) -> Sequence[Tensor]:
        lr, decay, momentum, beta1, beta2 = (group.tensor(name) for name in self.variable)
        adam_lr = lr * group["adamw_lr_ratio"]
        adam = adam_rates(adam_lr, beta1, beta2, group["eps"], t)
        return lr, momentum, 1 - momentum, 1 - lr * decay, 1 - adam_lr * decay, *adam

    def update(
        self, p: Tensor, g: Tensor, state: State, group: ParamGroup, rates: Sequence[Tensor]
    ) -> Tensor:
        lr, momentum, rest, decay, adam_decay, *adam = rates
        if not _by_matrix(p, group):
            return adam_step(p * adam_decay, g, state, adam)
        u = state["momentum_buffer"]
        u.data = momentum * u + rest * g
        direction = momentum * u + rest * g if group["nesterov"] else u
        o = orthogonalize(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        return p * decay - lr * _adjustment(p.shape, group["adjust_lr_fn"]) * o


def orthogonalize(
    matrix: Tensor, coefficients: Sequence[float], steps: int = 5, eps: float = 1e-7
) -> Tensor:
    """U Vᵀ of the singular value decomposition U Σ Vᵀ, nearly, by Newton-Schulz iteration:

        x <- a x + (b x xᵀ + c (x xᵀ)²) x,    x = matrix / max(‖matrix‖, eps) at first

    Each iteration maps every singular value σ to a σ + b σ³ + c σ⁵, which drives it towards 1. It
    runs in the matrix's dtype, on the orientation with fewer rows.
    """
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.transpose() if tall else matrix
    x = x / x.norm().maximum(eps)
    for _ in range(steps):
        gram = x @ x.transpose()
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.transpose() if tall else x


def _by_matrix(p: Tensor, group: ParamGroup) -> bool:
    return p.ndim == 2 and bool(group["use_muon"])


def _adjustment(shape: tuple[int, ...], rule: str | None) -> float:
    rows, columns = shape
    if rule == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / max(columns, 1)))
