"""Gradient clipping: by the norm of all gradients together, or element by element."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..autograd import Tensor, no_grad
from ..ops.reduce import accumulator

__all__ = ["clip_grad_norm_", "clip_grad_value_", "total_norm"]


def clip_grad_norm_(
    params: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """g <- g min(1, max_norm / (‖g‖ + 1e-6)), where ‖g‖ is the norm of all gradients as one vector.

    Gradients are replaced, not changed in place. Returns ‖g‖ before clipping.
    """
    if not max_norm >= 0:
        raise ValueError(f"[clip_grad_norm_] expected max_norm >= 0, got {max_norm}.")
    owners = _with_gradient(params)
    with no_grad():
        total: Any = total_norm([p.grad for p in owners], norm_type)
        if error_if_nonfinite and not math.isfinite(float(total)):
            raise ValueError(
                f"[clip_grad_norm_] the norm of the gradients is {float(total)}; lower the "
                "learning rate, or pass error_if_nonfinite=False."
            )
        scale = (float(max_norm) / (total + 1e-6)).minimum(1.0)
        for p in owners:
            g: Any = p.grad.detach()
            # Halves are scaled in float32: the factor may be less than their smallest number.
            p.grad = (g * scale.to(g.device, accumulator(g.dtype))).astype(g.dtype)
    norm: Tensor = total
    return norm


def clip_grad_value_(params: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """g <- min(max(g, -clip_value), clip_value). Gradients are replaced, not changed in place."""
    limit = float(clip_value)
    if not limit >= 0:
        raise ValueError(f"[clip_grad_value_] expected clip_value >= 0, got {clip_value}.")
    with no_grad():
        for p in _with_gradient(params):
            p.grad = p.grad.detach().clip(-limit, limit)


def total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0) -> Any:
    """(Σ |x|^p)^(1/p) over all elements of all tensors; the largest |x| for p = inf."""
    order = float(norm_type)
    if not order > 0:
        raise ValueError(f"[total_norm] norm_type must be above 0, got {norm_type}.")
    total: Any = None
    for x in tensors:
        part = _power_sum(x.detach(), order)
        if total is None:
            total = part
        elif order == math.inf:
            total = total.maximum(part.to(total.device))
        else:
            total = total + part.to(total.device)
    if total is None:
        return Tensor(0.0, requires_grad=False)
    if order == math.inf:
        return total
    return total.sqrt() if order == 2 else total ** (1 / order)


def _power_sum(x: Tensor, order: float) -> Tensor:
    """Σ |x|^p of one tensor, or its largest |x|; of halves in float32, where squares have room."""
    x = x.astype(accumulator(x.dtype))
    if order == math.inf:
        return x.abs().max()
    return (x.square() if order == 2 else x.abs() ** order).sum()


def _with_gradient(params: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given = [params] if isinstance(params, Tensor) else [*params]
    for p in given:
        if not isinstance(p, Tensor):
            raise TypeError(f"[clip_grad] expected Tensors, got {type(p).__name__}.")
    return [p for p in given if p.grad is not None]
