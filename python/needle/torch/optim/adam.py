"""Adam and its kin. m, v are the moments; t counts the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import torch
from .rule import ElementwiseOptimizer, Group, Key, State, averages, check_at_least, number

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]


def check_betas(betas: Sequence[Any]) -> None:
    """Both lie between 0 and 1."""
    for i, beta in enumerate(betas):
        if not 0.0 <= number(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


class _Moments(ElementwiseOptimizer):
    """What all of them have."""

    def __init__(self, params: Any, lr: Any, betas: Any, defaults: dict[str, Any]) -> None:
        check_at_least("learning rate", lr)
        check_at_least("epsilon value", defaults["eps"])
        check_betas(betas)
        check_at_least("weight_decay value", defaults["weight_decay"])
        super().__init__(params, {"lr": lr, "betas": betas, **defaults})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                if value is None or value is False:
                    group.setdefault(name, value)

    def first_state(self, p: Tensor, group: Group) -> State:
        return averages(p, "exp_avg", "exp_avg_sq")

    def flags(self, group: Group) -> Key:
        decay = group["weight_decay"] != 0
        return decay, bool(group.get("decoupled_weight_decay", False))


def _decayed(p: Any, g: Any, flags: Key, decay: Any, kept: Any) -> tuple[Any, Any]:
    """p and g with weight decay: λ p in the gradient, or p (1 - lr λ)."""
    if not flags[0]:
        return p, g
    return (p * kept, g) if flags[1] else (p, g + decay * p)


class Adam(_Moments):
    """p -= lr (m / (1 - β1^t)) / (√(v / (1 - β2^t)) + eps)"""

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
        fused: bool | None = None, decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, {
            "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def first_state(self, p: Tensor, group: Group) -> State:
        more = ["max_exp_avg_sq"] if group["amsgrad"] else []
        return averages(p, "exp_avg", "exp_avg_sq", *more)

    def rates(self, group: Group, t: float) -> Sequence[float]:
        lr, decay = number(group["lr"]), group["weight_decay"]
        beta1, beta2 = map(number, group["betas"])
        root = (1 - beta2**t) ** 0.5
        step = lr / (1 - beta1**t)
        return (
            decay,
            1 - lr * decay,
            beta1,
            1 - beta1,
            beta2,
            1 - beta2,
            step * root,
            (group["eps"] * root),
        )

    def flags(self, group: Group) -> Key:
        return *super().flags(group), group["amsgrad"]

    @staticmethod
    def rule(p: Any, g: Any, s: State, flags: Key, rates: Sequence[Any]) -> Any:
        decay, kept, beta1, rest1, beta2, rest2, step, eps = rates
        p, g = _decayed(p, g, flags, decay, kept)
        m, v = s["exp_avg"], s["exp_avg_sq"]
        m.data = beta1 * m + rest1 * g
        v.data = beta2 * v + rest2 * g.square()
        if flags[2]:
            largest = s["max_exp_avg_sq"]
            largest.data = largest.maximum(v)
            v = largest
        return p - step * m / (v.sqrt() + eps)


class AdamW(Adam):
    """Adam with decoupled weight decay."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class Adamax(_Moments):
    """u = max(β2 u, |g| + eps);  p -= lr / (1 - β1^t) m / u"""

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
        differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, {
            "eps": eps, "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def first_state(self, p: Tensor, group: Group) -> State:
        return averages(p, "exp_avg", "exp_inf")

    def rates(self, group: Group, t: float) -> Sequence[float]:
        beta1, beta2 = group["betas"]
        step = number(group["lr"]) / (1 - beta1**t)
        return group["weight_decay"], 1.0, beta1, 1 - beta1, beta2, group["eps"], step

    @staticmethod
    def rule(p: Any, g: Any, s: State, flags: Key, rates: Sequence[Any]) -> Any:
        decay, kept, beta1, rest1, beta2, eps, step = rates
        p, g = _decayed(p, g, flags, decay, kept)
        m, u = s["exp_avg"], s["exp_inf"]
        m.data = beta1 * m + rest1 * g
        u.data = (beta2 * u).maximum(g.maximum(-g) + eps)
        return p - step * m / u


class NAdam(_Moments):
    """Adam with Nesterov's momentum."""

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_at_least("momentum_decay value", momentum_decay)
        super().__init__(params, lr, betas, {
            "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
        })  # fmt: skip

    compiles = False

    def first_state(self, p: Tensor, group: Group) -> State:
        return {"mu_product": torch.ones(()), **super().first_state(p, group)}

    @staticmethod
    def _averages(state: State) -> list[str]:
        return ["exp_avg", "exp_avg_sq"]

    def _run(self, group: Group, t: float, names: tuple[str, ...], members: list[Any]) -> None:
        for p in members:  # they share t, but not always the product of momenta so far
            product = self.state[p]["mu_product"]
            product *= self._momentum(group, t)
            self._product = number(product)
            super()._run(group, t, names, [p])

    @staticmethod
    def _momentum(group: Group, t: float) -> float:
        beta1: float = group["betas"][0]
        return beta1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"]))

    def rates(self, group: Group, t: float) -> Sequence[float]:
        lr, decay = number(group["lr"]), group["weight_decay"]
        beta1, beta2 = group["betas"]
        mu, after = self._momentum(group, t), self._momentum(group, t + 1)
        by_g = lr * (1.0 - mu) / (1.0 - self._product)
        by_m = lr * after / (1.0 - self._product * after)
        moving = (beta1, 1 - beta1, beta2, 1 - beta2)
        return decay, 1 - lr * decay, *moving, 1 / (1 - beta2**t), group["eps"], by_g, by_m

    @staticmethod
    def rule(p: Any, g: Any, s: State, flags: Key, rates: Sequence[Any]) -> Any:
        decay, kept, beta1, rest1, beta2, rest2, corrected, eps, by_g, by_m = rates
        p, g = _decayed(p, g, flags, decay, kept)
        m, v = s["exp_avg"], s["exp_avg_sq"]
        m.data = beta1 * m + rest1 * g
        v.data = beta2 * v + rest2 * g.square()
        return p - (by_g * g + by_m * m) / ((v * corrected).sqrt() + eps)


class RAdam(_Moments):
    """Adam, rectified: without v as long as its variance is not known."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, {
            "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        })  # fmt: skip

    def rates(self, group: Group, t: float) -> Sequence[float]:
        lr, decay = number(group["lr"]), group["weight_decay"]
        beta1, beta2 = group["betas"]
        step = lr / (1 - beta1**t)
        end = 2 / (1 - beta2) - 1
        length = end - 2 * t * beta2**t / (1 - beta2**t)
        by_v = 0.0
        if length > 5.0:
            ratio = (length - 4) * (length - 2) * end / ((end - 4) * (end - 2) * length)
            by_v, step = step * ratio**0.5 * (1 - beta2**t) ** 0.5, 0.0
        moving = (beta1, 1 - beta1, beta2, 1 - beta2)
        return decay, 1 - lr * decay, *moving, step, by_v, group["eps"]

    @staticmethod
    def rule(p: Any, g: Any, s: State, flags: Key, rates: Sequence[Any]) -> Any:
        decay, kept, beta1, rest1, beta2, rest2, step, by_v, eps = rates
        p, g = _decayed(p, g, flags, decay, kept)
        m, v = s["exp_avg"], s["exp_avg_sq"]
        m.data = beta1 * m + rest1 * g
        v.data = beta2 * v + rest2 * g.square()
        return p - m * (step + by_v / (v.sqrt() + eps))
