"""Activation functions, with forms that change their input (`relu_`, `inplace=True`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .... import torch
from ....nn.functional import activation as needle_functions
from ....ops.network import activation as fused

if TYPE_CHECKING:
    from ....autograd import Tensor

SELU_ALPHA = needle_functions.SELU_ALPHA
SELU_SCALE = needle_functions.SELU_SCALE


def changed(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    """The result; inplace: the input, which has become it."""
    return input.copy_(result) if inplace else result


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)"""
    return input.relu_() if inplace else input.relu()


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else value"""
    return changed(input, torch.where(input > threshold, input, value), inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x between two bounds, else the bound."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    outside = (input <= min_val) | (input >= max_val)
    return changed(
        input, torch.where(outside, input.detach().clamp(min_val, max_val), input), inplace
    )


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)"""
    return hardtanh(input, 0.0, 6.0, inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha (e^x - 1)"""
    return changed(input, fused.elu(input, alpha), inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu scaled so that deep networks keep mean 0 and variance 1"""
    return changed(input, fused.elu(input, SELU_ALPHA) * SELU_SCALE, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(x, 0) + min(alpha (e^(x / alpha) - 1), 0)"""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return changed(input, fused.elu(input / alpha, 1.0) * alpha, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else negative_slope x"""
    return changed(input, fused.leaky_relu(input, negative_slope), inplace)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """leaky_relu with a slope that is drawn for each element in training, else the middle."""
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = torch.ones_like(input.detach())
    negative = input.detach() <= 0
    slope[negative] = torch.empty(int(negative.sum()), dtype=input.dtype).uniform_(lower, upper)
    return changed(input, input * slope, inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, else w x; weight (1,), or (C,) for input (N, C, ...)"""
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.numel() not in (1, channels) or weight.ndim > 1:
        raise RuntimeError(
            f"[prelu] expected a weight of 1 or {channels} elements for input "
            f"{tuple(input.shape)}, got {tuple(weight.shape)}."
        )
    if weight.numel() == 1:
        slope = weight.reshape(())
    else:
        slope = weight.reshape(-1, *[1] * (input.ndim - 2))
    positive = input > 0
    return torch.where(positive, input, torch.where(positive, 0.0, input) * slope)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x σ(x)"""
    return changed(input, fused.silu(input), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(ln(1 + e^x))"""
    return changed(input, input * fused.softplus(input).tanh(), inplace)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x Φ(x), or its approximation by tanh"""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return fused.gelu(input, approximate)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """ln(1 + e^(βx)) / β; x itself where βx > threshold"""
    return fused.softplus(input, beta, threshold)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2, between 0 and 1"""
    inside = (input > -3) & (input < 3)
    clipped = torch.where(inside, input, input.detach().clamp(-3.0, 3.0))
    return changed(input, clipped / 6 + 0.5, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """0 up to -3, x from 3 on, x (x + 3) / 6 between"""
    x = input.clamp(-3.0, 3.0)  # an infinite one times a gradient of 0 would be NaN
    inner = torch.where(input < 3, x * (x + 3) / 6, input)
    return changed(input, torch.where(input <= -3, 0.0, inner), inplace)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x where |x| > λ, else 0"""
    return torch.where((input >= -lambd) & (input <= lambd), 0.0, input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved by λ towards 0, and 0 where |x| <= λ"""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    below = torch.where(input < -lambd, input + lambd, input * 0)
    return torch.where(input > lambd, input - lambd, below)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)"""
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)"""
    return input / (input.abs() + 1)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + e^-x)"""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """tanh(x)"""
    return input.tanh()


def logsigmoid(input: Tensor) -> Tensor:
    """ln σ(x) = -ln(1 + e^-x)"""
    return -fused.softplus(-input, threshold=float("inf"))


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a σ(b), where a and b are the halves of x along dim"""
    if input.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    size = input.shape[dim]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


def _dim(name: str, input: Tensor, dim: int | None) -> int:
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=4,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """e^x / Σ e^x along dim"""
    return torch.softmax(input, _dim("softmax", input, dim), dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """softmax(-x)"""
    return torch.softmax(-input, _dim("softmin", input, dim), dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """ln softmax(x), without overflow"""
    return torch.log_softmax(input, _dim("log_softmax", input, dim), dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draws of classes that have a gradient: softmax((x + g) / tau), g = -ln e, e exponential.

    hard: one-hot draws, with the gradient of the soft ones."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -torch.empty_like(logits.detach()).exponential_().log()
    soft = torch.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    chosen = torch.zeros_like(soft.detach()).scatter_(dim, index, 1.0)
    return chosen - soft.detach() + soft


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def changes(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, inplace=True, **kwargs)

    changes.__name__ = f"{function.__name__}_"
    changes.__doc__ = f"`{function.__name__}`, in place"
    return changes


relu_ = _in_place(relu)
threshold_ = _in_place(threshold)
hardtanh_ = _in_place(hardtanh)
elu_ = _in_place(elu)
selu_ = _in_place(selu)
celu_ = _in_place(celu)
leaky_relu_ = _in_place(leaky_relu)
rrelu_ = _in_place(rrelu)

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid",
    "hardswish", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid",
    "mish", "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid",
    "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink",
    "threshold", "threshold_",
]  # fmt: skip
