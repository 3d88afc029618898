"""Lion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..autograd import Tensor
from ..ops.common import zeros_like
from .group import ParamGroup, pair_of_betas
from .optimizer import Optimizer, State

__all__ = ["Lion"]


class Lion(Optimizer):
    """Evolved sign momentum (Chen et al., 2023):

        p <- (1 - lr λ) p - lr sign(β1 m + (1 - β1) g)
        m <- β2 m + (1 - β2) g

    The step has the size lr in every element: use a 3 to 10 times smaller lr than AdamW's, and a
    weight decay larger by the same factor.
    """

    variable = ("lr", "beta1", "beta2", "weight_decay")
    elementwise = True

    def __init__(
        self,
        params: Iterable[Tensor | Mapping[str, object]],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ):
        beta1, beta2 = pair_of_betas(betas)
        super().__init__(params, lr=lr, beta1=beta1, beta2=beta2, weight_decay=weight_decay)

    def init_state(self, p: Tensor, group: ParamGroup) -> State:
        return {"exp_avg": zeros_like(p)}

    def rates(self, group: ParamGroup, t: Tensor) -> Sequence[Tensor]:
        lr, beta1, beta2, decay = (group.tensor(name) for name in self.variable)
        return lr, beta1, 1 - beta1, beta2, 1 - beta2, 1 - lr * decay

    def update(
        self, p: Tensor, g: Tensor, state: State, group: ParamGroup, rates: Sequence[Tensor]
    ) -> Tensor:
        lr, beta1, rest1, beta2, rest2, decay = rates
        average = state["exp_avg"]
        m = average.data  # both lines below mean the average of before
        direction = (beta1 * m + rest1 * g).sign()
        average.data = beta2 * m + rest2 * g
        if group.uses("weight_decay"):
            p = p * decay
        return p - lr * direction
