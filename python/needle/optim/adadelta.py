"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..autograd import Tensor
from ..ops.common import zeros_like
from .group import ParamGroup
from .optimizer import Optimizer, State

__all__ = ["Adadelta"]


class Adadelta(Optimizer):
    """Steps as large as the past ones, relative to past gradients (Zeiler, 2012):

        g <- g + λ p
        s <- ρ s + (1 - ρ) g²
        d <- √(a + eps) / √(s + eps) g
        a <- ρ a + (1 - ρ) d²
        p <- p - lr d

    with s = a = 0 at first. PyTorch's defaults.
    """

    elementwise = True

    def __init__(
        self,
        params: Iterable[Tensor | Mapping[str, object]],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ):
        super().__init__(params, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)

    def init_state(self, p: Tensor, group: ParamGroup) -> State:
        return {"square_avg": zeros_like(p), "acc_delta": zeros_like(p)}

    def rates(self, group: ParamGroup, t: Tensor) -> Sequence[Tensor]:
        return group.tensor("lr"), group.tensor("weight_decay")

    def update(
        self, p: Tensor, g: Tensor, state: State, group: ParamGroup, rates: Sequence[Tensor]
    ) -> Tensor:
        lr, decay = rates
        rho: float = group["rho"]
        eps: float = group["eps"]
        if group.uses("weight_decay"):
            g = g + decay * p
        s, a = state["square_avg"], state["acc_delta"]
        s.data = rho * s + (1 - rho) * g.square()
        d = (a + eps).sqrt() / (s + eps).sqrt() * g
        a.data = rho * a + (1 - rho) * d.square()
        return p - lr * d
