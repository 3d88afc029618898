"""Clipping gradients, in place."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .... import torch

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm",
]  # fmt: skip


def _listed(parameters: Any) -> list[Tensor]:
    return [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The norm of all elements together."""
    norms = [torch.norm(t.detach(), norm_type) for t in _listed(tensors)]
    if not norms:
        return torch.tensor(0.0)
    total = torch.norm(torch.stack(norms), norm_type)
    if error_if_nonfinite and not bool(torch.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients so that a total norm becomes max_norm, if it is more."""
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    with torch.no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.mul_(factor)


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale the gradients to a norm of max_norm at most; returns the norm that they had."""
    parameters = _listed(parameters)
    grads = [p.grad for p in parameters if p.grad is not None]
    total = get_total_norm(grads, float(norm_type), error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(parameters: Any, max_norm: float, *args: Any, **kwargs: Any) -> Tensor:
    """`clip_grad_norm_`, as it was called."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, *args, **kwargs)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Elements of gradients between ± clip_value."""
    value = float(clip_value)
    grads: Iterable[Any] = (p.grad for p in _listed(parameters))
    with torch.no_grad():
        for grad in grads:
            if grad is not None:
                grad.clamp_(-value, value)
