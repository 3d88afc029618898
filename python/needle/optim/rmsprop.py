"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..autograd import Tensor
from ..ops.common import zeros_like
from .group import ParamGroup
from .optimizer import Optimizer, State

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Gradients over their root mean square (Hinton's lecture 6e):

        g <- g + λ p
        v <- α v + (1 - α) g²
        a <- α a + (1 - α) g,   σ = √(v - a²)     if centered, else σ = √v
        u <- μ u + g / (σ + eps)
        p <- p - lr u

    with v = a = u = 0 at first. PyTorch's defaults.
    """

    variable = ("lr", "alpha", "momentum", "weight_decay")
    elementwise = True

    def __init__(
        self,
        params: Iterable[Tensor | Mapping[str, object]],
        lr: float = 0.01,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ):
        super().__init__(
            params,
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
        )

    def init_state(self, p: Tensor, group: ParamGroup) -> State:
        state = {"square_avg": zeros_like(p)}
        if group.uses("momentum"):
            state["momentum_buffer"] = zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = zeros_like(p)
        return state

    def rates(self, group: ParamGroup, t: Tensor) -> Sequence[Tensor]:
        lr, alpha, momentum, decay = (group.tensor(name) for name in self.variable)
        return lr, alpha, 1 - alpha, momentum, decay

    def update(
        self, p: Tensor, g: Tensor, state: State, group: ParamGroup, rates: Sequence[Tensor]
    ) -> Tensor:
        lr, alpha, rest, momentum, decay = rates
        eps: float = group["eps"]
        if group.uses("weight_decay"):
            g = g + decay * p
        v = state["square_avg"]
        v.data = alpha * v + rest * g.square()
        sigma = v.sqrt()
        if group["centered"]:
            a = state["grad_avg"]
            a.data = alpha * a + rest * g
            sigma = (v - a.square()).sqrt()
        scaled = g / (sigma + eps)
        if group.uses("momentum"):
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = zeros_like(p)
            u = state["momentum_buffer"]
            u.data = momentum * u + scaled
            scaled = u
        return p - lr * scaled
