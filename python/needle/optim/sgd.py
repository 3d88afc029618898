"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..autograd import Tensor
from ..ops.common import zeros_like
from .group import ParamGroup
from .optimizer import Optimizer, State

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent with momentum:

        g <- g + λ p
        u <- μ u + (1 - τ) g        u = 0 at first
        p <- p - lr u               nesterov: p - lr (g + μ u)

    λ is weight_decay, μ momentum. dampening=None sets τ = μ: u is then an average of gradients.
    With a number for dampening, τ is that and u starts as the first gradient: PyTorch's momentum,
    whose default is dampening=0. nesterov is PyTorch's too, and sets τ = 0 if nothing is given.
    """

    variable = ("lr", "momentum", "weight_decay")
    elementwise = True

    def __init__(
        self,
        params: Iterable[Tensor | Mapping[str, object]],
        lr: float = 0.01,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float | None = None,
        nesterov: bool = False,
    ):
        if nesterov and momentum <= 0:
            raise ValueError(f"[SGD] nesterov needs momentum above 0, got {momentum}.")
        if nesterov and dampening is None:
            dampening = 0
        super().__init__(
            params,
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            dampening=dampening,
            nesterov=nesterov,
        )

    def init_state(self, p: Tensor, group: ParamGroup) -> State:
        return {"momentum_buffer": zeros_like(p)} if group.uses("momentum") else {}

    def rates(self, group: ParamGroup, t: Tensor) -> Sequence[Tensor]:
        lr, decay, momentum = (group.tensor(x) for x in ("lr", "weight_decay", "momentum"))
        dampening = group["dampening"]
        # PyTorch's dampening does not count at the first step, where u = g: 2 - t is 1 there.
        gain = 1 - momentum
        if dampening is not None:
            gain = 1 - dampening * (1 - (2 - t).maximum(0))
        return lr, decay, momentum, gain

    def update(
        self, p: Tensor, g: Tensor, state: State, group: ParamGroup, rates: Sequence[Tensor]
    ) -> Tensor:
        lr, decay, momentum, gain = rates
        if group.uses("weight_decay"):
            g = g + decay * p
        if group.uses("momentum"):
            if "momentum_buffer" not in state:
                state.update(self.init_state(p, group))
            u = state["momentum_buffer"]
            u.data = momentum * u + gain * g
            g = g + momentum * u if group["nesterov"] else u
        return p - lr * g
