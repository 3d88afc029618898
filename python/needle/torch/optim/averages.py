"""Optimizers that divide by averages of squared gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import torch
from .rule import ElementwiseOptimizer, Group, Key, State, averages, check_at_least, number

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = ["Adadelta", "Adagrad", "RMSprop"]


class RMSprop(ElementwiseOptimizer):
    """v = α v + (1 - α) g²;  p -= lr g / (√v + eps)"""

    def __init__(
        self, params: Any, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0, momentum: float = 0, centered: bool = False,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        for name, value in (
            ("learning rate", lr), ("epsilon value", eps), ("momentum value", momentum),
            ("weight_decay value", weight_decay), ("alpha value", alpha),
        ):  # fmt: skip
            check_at_least(name, value)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable,
        })  # fmt: skip

    def first_state(self, p: Tensor, group: Group) -> State:
        names = ["square_avg"]
        names += ["momentum_buffer"] if group["momentum"] > 0 else []
        names += ["grad_avg"] if group["centered"] else []
        return averages(p, *names)

    def rates(self, group: Group, t: float) -> Sequence[float]:
        alpha = group["alpha"]
        options = (group["eps"], group["momentum"], group["weight_decay"])
        return number(group["lr"]), alpha, 1 - alpha, *options

    def flags(self, group: Group) -> Key:
        return bool(group["weight_decay"]), group["momentum"] > 0, group["centered"]

    @staticmethod
    def rule(p: Any, g: Any, s: State, flags: Key, rates: Sequence[Any]) -> Any:
        lr, alpha, rest, eps, momentum, decay = rates
        decays, has_momentum, centered = flags
        if decays:
            g = g + decay * p
        v = s["square_avg"]
        v.data = alpha * v + rest * g.square()
        spread = v
        if centered:
            mean = s["grad_avg"]
            mean.data = alpha * mean + rest * g
            spread = v - mean.square()
        scaled = g / (spread.sqrt() + eps)
        if has_momentum:
            u = s["momentum_buffer"]
            u.data = momentum * u + scaled
            scaled = u
        return p - lr * scaled


class Adagrad(ElementwiseOptimizer):
    """v += g²;  p -= lr / (1 + (t - 1) η) g / (√v + eps)"""

    def __init__(
        self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        for name, value in (
            ("learning rate", lr), ("lr_decay value", lr_decay),
            ("weight_decay value", weight_decay),
            ("initial_accumulator_value value", initial_accumulator_value),
            ("epsilon value", eps),
        ):  # fmt: skip
            check_at_least(name, value)
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused,
        })  # fmt: skip
        for group in self.param_groups:  # as PyTorch: before the first step
            for p in group["params"]:
                self.state[p] = {"step": torch.tensor(0.0), **self.first_state(p, group)}

    def first_state(self, p: Tensor, group: Group) -> State:
        return {"sum": torch.full_like(p.detach(), group["initial_accumulator_value"])}

    def share_memory(self) -> None:
        """Move the averages to memory that processes share."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def rates(self, group: Group, t: float) -> Sequence[float]:
        lr = number(group["lr"]) / (1 + (t - 1) * group["lr_decay"])
        return lr, group["eps"], group["weight_decay"]

    def flags(self, group: Group) -> Key:
        return (bool(group["weight_decay"]),)

    @staticmethod
    def rule(p: Any, g: Any, s: State, flags: Key, rates: Sequence[Any]) -> Any:
        lr, eps, decay = rates
        if flags[0]:
            g = g + decay * p
        v = s["sum"]
        v.data = v + g.square()
        return p - lr * g / (v.sqrt() + eps)


class Adadelta(ElementwiseOptimizer):
    """v = ρ v + (1 - ρ) g²;  d = √(u + eps) / √(v + eps) g;  u = ρ u + (1 - ρ) d²;  p -= lr d"""

    def __init__(
        self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_at_least("learning rate", lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_at_least("epsilon value", eps)
        check_at_least("weight_decay value", weight_decay)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })  # fmt: skip

    def first_state(self, p: Tensor, group: Group) -> State:
        return averages(p, "square_avg", "acc_delta")

    def rates(self, group: Group, t: float) -> Sequence[float]:
        rho = group["rho"]
        return number(group["lr"]), rho, 1 - rho, group["eps"], group["weight_decay"]

    def flags(self, group: Group) -> Key:
        return (bool(group["weight_decay"]),)

    @staticmethod
    def rule(p: Any, g: Any, s: State, flags: Key, rates: Sequence[Any]) -> Any:
        lr, rho, rest, eps, decay = rates
        if flags[0]:
            g = g + decay * p
        v, u = s["square_avg"], s["acc_delta"]
        v.data = rho * v + rest * g.square()
        d = (u + eps).sqrt() / (v + eps).sqrt() * g
        u.data = rho * u + rest * d.square()
        return p - lr * d
