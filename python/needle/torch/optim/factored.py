"""Optimizers that look at whole matrices, or at some rows only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import torch
from .adam import check_betas
from .optimizer import Optimizer
from .rule import check_at_least, number

__all__ = ["Adafactor", "Muon", "SparseAdam"]


class _Plain(Optimizer):
    """A step for each parameter on its own."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        grad = -p.grad if group.get("maximize") else p.grad
                        self._update(p, grad, self.state[p], group)
        return loss

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise NotImplementedError


class Adafactor(_Plain):
    """Adam without momentum, whose second moment is the product of a column and a row."""

    def __init__(
        self, params: Any, lr: Any = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        check_at_least("learning rate", lr)
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if d < 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        check_at_least("weight_decay", weight_decay)
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
            "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
        })  # fmt: skip

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["step"] = torch.tensor(0.0)
            if grad.ndim > 1:
                state["row_var"] = torch.zeros_like(grad.sum(-1, keepdim=True))
                state["col_var"] = torch.zeros_like(grad.sum(-2, keepdim=True))
            else:
                state["variance"] = torch.zeros_like(grad)
        state["step"] += 1
        t, lr = state["step"].item(), number(group["lr"])
        eps1, eps2 = group["eps"]
        eps1 = torch.finfo(p.dtype).eps if eps1 is None else eps1
        share = t ** group["beta2_decay"]
        size = p.norm(2).item() / p.numel() ** 0.5
        alpha = max(eps2, size) * min(lr, 1 / t**0.5)
        if group["weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        squares = grad * grad
        if grad.ndim > 1:
            row, column = state["row_var"], state["col_var"]
            row.lerp_(squares.mean(-1, keepdim=True), share)
            column.lerp_(squares.mean(-2, keepdim=True), share)
            estimate = (row @ column) / row.mean(-2, keepdim=True).clamp(min=eps1)
        else:
            estimate = state["variance"].lerp_(squares, share)
        update = estimate.clamp(min=eps1 * eps1).rsqrt() * grad
        length = update.norm(2).item() / (update.numel() ** 0.5 * group["d"])
        p.add_(update, alpha=-alpha / max(1.0, length))


class Muon(_Plain):
    """Momentum whose matrices are made orthogonal (Newton and Schulz)."""

    def __init__(
        self, params: Any, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (
            3.4445, -4.775, 2.0315
        ), eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_at_least("learning rate", lr)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        })  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.size()}"
                    )

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        buffer = state.setdefault("momentum_buffer", torch.zeros_like(grad))
        buffer.lerp_(grad, 1 - group["momentum"])
        update = grad.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer
        update = self._orthogonal(update, group)
        rows, columns = p.shape
        ratio = math.sqrt(max(1, rows / columns))
        if group["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(rows, columns))
        lr = number(group["lr"])
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(update.to(p.dtype), alpha=-lr * ratio)

    @staticmethod
    def _orthogonal(g: Any, group: dict[str, Any]) -> Any:
        a, b, c = group["ns_coefficients"]
        x = g.to(torch.bfloat16)
        tall = x.shape[0] > x.shape[1]
        x = x.t() if tall else x
        x = x / x.norm().clamp(min=group["eps"])
        for _ in range(group["ns_steps"]):
            gram = x @ x.t()
            x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        return x.t() if tall else x


class SparseAdam(_Plain):
    """Adam that moves only what has a gradient. Gradients are dense here: rows of zeros stay."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        if not number(lr) > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["step"] = 0
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        state["step"] += 1
        beta1, beta2 = map(number, group["betas"])
        t, m, v = state["step"], state["exp_avg"], state["exp_avg_sq"]
        rows = (grad.reshape(len(grad), -1) != 0).any(-1)
        moved = rows.reshape(-1, *(1,) * (p.ndim - 1))
        m.copy_(torch.where(moved, beta1 * m + (1 - beta1) * grad, m))
        v.copy_(torch.where(moved, beta2 * v + (1 - beta2) * grad * grad, v))
        step = number(group["lr"]) * (1 - beta2**t) ** 0.5 / (1 - beta1**t)
        p.sub_(torch.where(moved, step * m / (v.sqrt() + group["eps"]), 0.0))
