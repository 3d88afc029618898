"""Activation functions.

`inplace` is for PyTorch's scripts, and changes nothing: the result has its own memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...autograd import Tensor
from ...ops import chunk, logsoftmax, sigmoid, softmax as _softmax, tanh, where
from ...ops.common import check_tensor
from ...ops.network.activation import (
    elu as _elu,
    gelu as gelu,
    leaky_relu as _leaky_relu,
    silu as _silu,
    softplus as softplus,
)

if TYPE_CHECKING:
    from ...types import DTypeLike

SELU_ALPHA = 1.6732632423543772848170429916717  # Klambauer et al., 2017
SELU_SCALE = 1.0507009873554804934193349852946


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)"""
    return input.relu()


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6); the derivative at both ends is 0."""
    return hardtanh(input, 0.0, 6.0)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x between two bounds, else the bound."""
    if not min_val <= max_val:
        raise ValueError(f"[hardtanh] expected min_val <= max_val, got {min_val} and {max_val}.")
    outside = (input <= min_val) | (input >= max_val)
    return where(outside, input.detach().clip(min_val, max_val), input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha (e^x - 1)"""
    return _elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu scaled so that deep networks keep mean 0 and variance 1"""
    return elu(input, SELU_ALPHA) * SELU_SCALE


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else negative_slope x"""
    return _leaky_relu(input, negative_slope)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, else w x; weight (1,), or (C,) for input (N, C, ...)"""
    ndim = check_tensor("prelu", input).ndim
    channels = input.shape[1] if ndim > 1 else 1
    if weight.ndim > 1 or weight.size not in (1, channels):
        wanted = f"1 or {channels} elements" if channels != 1 else "1 element"
        raise ValueError(
            f"[prelu] expected a weight of {wanted} for input {input.shape}, got {weight.shape}."
        )
    slope = weight.reshape(-1, *[1] * (ndim - 2)) if ndim > 1 else weight.reshape((1,) * ndim)
    positive = input > 0
    # 0 there first: w x of an infinite x times a gradient of 0 would be NaN.
    return where(positive, input, where(positive, 0.0, input) * slope)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x σ(x)"""
    return _silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(ln(1 + e^x))"""
    return input * softplus(input).tanh()


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2, between 0 and 1"""
    inside = (input > -3) & (input < 3)
    return where(inside, input, input.detach().clip(-3.0, 3.0)) / 6 + 0.5


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """0 up to -3, x from 3 on, x (x + 3) / 6 between"""
    x = input.clip(-3.0, 3.0)  # an infinite one times a gradient of 0 would be NaN
    return where(input <= -3, 0.0, where(input < 3, x * (x + 3) / 6, input))


def logsigmoid(input: Tensor) -> Tensor:
    """ln σ(x) = -ln(1 + e^-x)"""
    return -softplus(-input, threshold=float("inf"))  # 20 would cost float64 half of its digits


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)"""
    return input / (input.abs() + 1)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a σ(b), where a and b are the halves of x along dim"""
    size = input.shape[dim]
    if size % 2:
        raise ValueError(f"[glu] expected an even size along dim {dim}, got {input.shape}.")
    a, b = chunk(input, 2, dim)
    return a * b.sigmoid()


def softmax(input: Tensor, dim: int = -1, *, dtype: DTypeLike | None = None) -> Tensor:
    """e^x / Σ e^x along dim"""
    return _softmax(input if dtype is None else input.astype(dtype), dim)


def log_softmax(input: Tensor, dim: int = -1, *, dtype: DTypeLike | None = None) -> Tensor:
    """ln softmax(x) along dim, without overflow"""
    return logsoftmax(input if dtype is None else input.astype(dtype), dim)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Tensor:
    """Draws of classes that have a gradient: softmax((x + g) / tau), with g = -ln(-ln u).

    hard: one-hot draws, with the gradient of the soft ones (Jang et al., 2017)."""
    even = check_tensor("gumbel_softmax", logits).detach().clone().uniform_()
    # -ln u is not 0: the largest number below 1 has 6e-8.
    noise = -(-(even.clip(1e-20, 1 - 6e-8)).log()).log()
    soft = _softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdims=True)
    chosen = (soft.detach() * 0).scatter(dim, index, 1.0)
    return chosen - soft.detach() + soft


__all__ = [
    "elu", "gelu", "glu", "gumbel_softmax", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
    "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "selu", "sigmoid", "silu",
    "softmax", "softplus", "softsign", "tanh",
]  # fmt: skip
