"""Adam and its kin with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from ..autograd import Tensor
from ..ops.common import zeros_like
from .group import ParamGroup, pair_of_betas
from .optimizer import Optimizer, State

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adaptive moments (Kingma and Ba, 2015):

        g <- g + λ p
        m <- β1 m + (1 - β1) g
        v <- β2 v + (1 - β2) g²
        p <- p - lr (m / (1 - β1^t)) / (√(v / (1 - β2^t)) + eps)

    with m = v = 0 at first and t counted from 1. amsgrad uses the largest v so far. The corrections
    are applied to the numbers, as in the paper's section 2: with c = √(1 - β2^t),

        p <- p - (lr c / (1 - β1^t)) m / (√v + c eps).
    """

    variable = ("lr", "beta1", "beta2", "weight_decay")
    elementwise = True
    decoupled: ClassVar[bool] = False  # is the weight decay outside the moments?

    def __init__(
        self,
        params: Iterable[Tensor | Mapping[str, object]],
        lr: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        betas: tuple[float, float] | None = None,
        amsgrad: bool = False,
    ):
        if isinstance(beta1, (tuple, list)):  # PyTorch's third argument is betas
            betas = beta1
        beta1, beta2 = (beta1, beta2) if betas is None else pair_of_betas(betas)
        super().__init__(
            params,
            lr=lr,
            beta1=beta1,
            beta2=beta2,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
        )

    def init_state(self, p: Tensor, group: ParamGroup) -> State:
        return adam_state(p, group["amsgrad"])

    def rates(self, group: ParamGroup, t: Tensor) -> Sequence[Tensor]:
        lr, beta1, beta2, decay = (group.tensor(name) for name in self.variable)
        if self.decoupled:
            decay = 1 - lr * decay
        return decay, *adam_rates(lr, beta1, beta2, group["eps"], t)

    def update(
        self, p: Tensor, g: Tensor, state: State, group: ParamGroup, rates: Sequence[Tensor]
    ) -> Tensor:
        decay, *moving = rates
        if group.uses("weight_decay"):
            if self.decoupled:
                p = p * decay
            else:
                g = g + decay * p
        return adam_step(p, g, state, moving)


def adam_state(p: Tensor, amsgrad: bool = False) -> State:
    """The moments m and v, and the largest v for amsgrad."""
    state = {"exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}
    if amsgrad:
        state["max_exp_avg_sq"] = zeros_like(p)
    return state


def adam_rates(
    lr: Tensor, beta1: Tensor, beta2: Tensor, eps: float, t: Tensor
) -> tuple[Tensor, ...]:
    """What adam_step needs at step t: the weights of the averages, the step size, eps."""
    correction = (1 - beta2**t).sqrt()
    step_size = lr * correction / (1 - beta1**t)
    return beta1, 1 - beta1, beta2, 1 - beta2, step_size, correction * eps


def adam_step(p: Tensor, g: Tensor, state: State, rates: Sequence[Tensor]) -> Tensor:
    """Move the moments, and p by them."""
    beta1, rest1, beta2, rest2, step_size, eps = rates
    m, v = state["exp_avg"], state["exp_avg_sq"]
    m.data = beta1 * m + rest1 * g
    v.data = beta2 * v + rest2 * g.square()
    if "max_exp_avg_sq" in state:
        largest = state["max_exp_avg_sq"]
        largest.data = largest.maximum(v)
        v = largest
    return p - step_size * m / (v.sqrt() + eps)


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019):

        p <- (1 - lr λ) p, then Adam's step with g itself.

    PyTorch's defaults.
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor | Mapping[str, object]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        *,
        amsgrad: bool = False,
    ):
        super().__init__(
            params, lr, eps=eps, weight_decay=weight_decay, betas=betas, amsgrad=amsgrad
        )
