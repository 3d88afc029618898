"""Adagrad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..autograd import Tensor
from ..ops.common import zeros_like
from .group import ParamGroup
from .optimizer import Optimizer, State

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    """Steps that shrink with all past gradients (Duchi et al., 2011):

        g <- g + λ p
        s <- s + g²
        p <- p - lr / (1 + (t - 1) lr_decay) g / (√s + eps)

    with s = initial_accumulator_value at first. PyTorch's defaults.
    """

    elementwise = True

    def __init__(
        self,
        params: Iterable[Tensor | Mapping[str, object]],
        lr: float = 0.01,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ):
        super().__init__(
            params,
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )

    def init_state(self, p: Tensor, group: ParamGroup) -> State:
        return {"sum": zeros_like(p) + float(group["initial_accumulator_value"])}

    def rates(self, group: ParamGroup, t: Tensor) -> Sequence[Tensor]:
        lr, decay = group.tensor("lr"), group.tensor("weight_decay")
        return lr / (1 + (t - 1) * group["lr_decay"]), decay

    def update(
        self, p: Tensor, g: Tensor, state: State, group: ParamGroup, rates: Sequence[Tensor]
    ) -> Tensor:
        lr, decay = rates
        eps: float = group["eps"]
        if group.uses("weight_decay"):
            g = g + decay * p
        s = state["sum"]
        s.data = s + g.square()
        return p - lr * g / (s.sqrt() + eps)
