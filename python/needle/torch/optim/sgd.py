"""Stochastic gradient descent, and its averaged and resilient forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import torch
from ...tile.program import where
from .rule import ElementwiseOptimizer, Group, Key, State, averages, check_at_least, number

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = ["ASGD", "SGD", "Rprop"]


class SGD(ElementwiseOptimizer):
    """g += λ p;  u = μ u + (1 - τ) g;  p -= lr u, or with nesterov lr (g + μ u)"""

    counts = False

    def __init__(
        self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: Any = 0, nesterov: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_at_least("learning rate", lr)
        check_at_least("momentum value", momentum)
        check_at_least("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name in ("nesterov", "maximize", "differentiable"):
                group.setdefault(name, False)

    def first_state(self, p: Tensor, group: Group) -> State:
        return {"momentum_buffer": None} if group["momentum"] else {}

    def rates(self, group: Group, t: float) -> Sequence[float]:
        momentum, dampening = number(group["momentum"]), group["dampening"]
        return number(group["lr"]), momentum, 1 - dampening, number(group["weight_decay"])

    def flags(self, group: Group) -> Key:
        return bool(group["weight_decay"]), bool(group["momentum"]), group["nesterov"]

    def _run(self, group: Group, t: float, names: tuple[str, ...], members: list[Any]) -> None:
        if group["momentum"] and "momentum_buffer" not in names:  # the first one is the gradient
            for p in members:
                first = p.grad.detach().to(p.dtype)
                first = -first if group["maximize"] else first.clone()
                if group["weight_decay"]:
                    first = first.add(p.detach(), alpha=number(group["weight_decay"]))
                self.state[p]["momentum_buffer"] = first.contiguous()
            self._run_first(group, members)
            return
        super()._run(group, t, names, members)

    def _run_first(self, group: Group, members: list[Any]) -> None:
        factor = 1 + number(group["momentum"]) if group["nesterov"] else 1.0
        with torch.no_grad():
            for p in members:
                p.add_(self.state[p]["momentum_buffer"], alpha=-number(group["lr"]) * factor)

    @staticmethod
    def rule(p: Any, g: Any, s: State, flags: Key, rates: Sequence[Any]) -> Any:
        lr, momentum, rest, decay = rates
        decays, has_momentum, nesterov = flags
        if decays:
            g = g + decay * p
        if has_momentum:
            u = s["momentum_buffer"]
            u.data = momentum * u + rest * g
            g = g + momentum * u if nesterov else u
        return p - lr * g


class ASGD(ElementwiseOptimizer):
    """SGD with decay, and the average of the parameters, `ax`."""

    def __init__(
        self, params: Any, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
        t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        check_at_least("learning rate", lr)
        check_at_least("weight_decay value", weight_decay)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })  # fmt: skip

    compiles = False

    def first_state(self, p: Tensor, group: Group) -> State:
        eta = torch.tensor(number(group["lr"]))
        return {"eta": eta, "mu": torch.ones(()), **averages(p, "ax")}

    @staticmethod
    def _averages(state: State) -> list[str]:
        return ["ax"]

    def rates(self, group: Group, t: float) -> Sequence[float]:
        lr, before = number(group["lr"]), t - 1
        decayed = lr / (1 + group["lambd"] * lr * before) ** group["alpha"]
        eta = decayed if before else lr
        mu = 1 / max(1, before - group["t0"]) if before else 1.0
        return eta, 1 - group["lambd"] * eta, mu, group["weight_decay"]

    def flags(self, group: Group) -> Key:
        return (bool(group["weight_decay"]),)

    def _run(self, group: Group, t: float, names: tuple[str, ...], members: list[Any]) -> None:
        super()._run(group, t, names, members)
        lr = number(group["lr"])
        for p in members:
            state = self.state[p]
            state["eta"].fill_(lr / (1 + group["lambd"] * lr * t) ** group["alpha"])
            state["mu"].fill_(1 / max(1, t - group["t0"]))

    @staticmethod
    def rule(p: Any, g: Any, s: State, flags: Key, rates: Sequence[Any]) -> Any:
        eta, kept, mu, decay = rates
        if flags[0]:
            g = g + decay * p
        p = kept * p - eta * g
        s["ax"].data = s["ax"] + mu * (p - s["ax"])
        return p


class Rprop(ElementwiseOptimizer):
    """A step size for each element, which grows while the gradient keeps its sign."""

    def __init__(
        self, params: Any, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_at_least("learning rate", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def first_state(self, p: Tensor, group: Group) -> State:
        size = torch.full_like(p.detach(), number(group["lr"]))
        return {**averages(p, "prev"), "step_size": size}

    def rates(self, group: Group, t: float) -> Sequence[float]:
        return *group["etas"], *group["step_sizes"]

    def flags(self, group: Group) -> Key:
        return ()

    @staticmethod
    def rule(p: Any, g: Any, s: State, flags: Key, rates: Sequence[Any]) -> Any:
        minus, plus, least, most = rates
        same = g * s["prev"]
        factor = where(same > 0, plus + 0 * g, where(same < 0, minus + 0 * g, 1 + 0 * g))
        size = (s["step_size"] * factor).maximum(least)
        size = where(size > most, most + 0 * size, size)
        s["step_size"].data = size
        g = where(same < 0, 0 * g, g)
        s["prev"].data = g
        return p - where(g > 0, size, where(g < 0, -size, 0 * g))
