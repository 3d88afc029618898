"""PyTorch's functions that give an existing weight new values: `nn.init.normal_(w, std=0.02)`.

They draw as needle.init does. A weight is (out, in, *kernel), whose fans count the kernel's places,
as in PyTorch; that of a layer which keeps it in another order, such as Linear's (in, out), is known
by that, also as `layer.weight.data`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import init
from ..autograd import Tensor, no_grad
from ..ops import where
from .module import IN_OUT, KERNEL_IN_OUT

GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}


def _give(weight: Tensor, values: Tensor) -> Tensor:
    with no_grad():
        weight[...] = values  # into its memory, as it may be a view: `layer.weight.data`
    return weight


def _like(weight: Tensor) -> dict[str, Any]:
    return {"device": weight.device, "dtype": weight.dtype}


def uniform_(weight: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Even between a and b."""
    if not a <= b:
        raise ValueError(f"[uniform_] expected a <= b, got {a} and {b}.")
    return _give(weight, init.rand(*weight.shape, low=a, high=b, **_like(weight)))


def normal_(weight: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal numbers."""
    if not std >= 0:
        raise ValueError(f"[normal_] expected std >= 0, got {std}.")
    return _give(weight, init.randn(*weight.shape, mean=mean, std=std, **_like(weight)))


def trunc_normal_(
    weight: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0
) -> Tensor:
    """Normal numbers between a and b: those outside are drawn again."""
    if not a < b or mean < a - 2 * std or mean > b + 2 * std:
        raise ValueError(
            "[trunc_normal_] expected a < b, and a mean at most 2 std outside of them, got "
            f"a={a}, b={b}, mean={mean}, std={std}."
        )
    normal_(weight, mean, std)
    while (outside := (weight.detach() < a) | (weight.detach() > b)).any():
        drawn = init.randn(*weight.shape, mean=mean, std=std, **_like(weight))
        _give(weight, where(outside, drawn, weight.detach()))
    return weight


def constant_(weight: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    return _give(weight, init.constant(*weight.shape, c=val, **_like(weight)))


def ones_(weight: Tensor) -> Tensor:
    """1 everywhere."""
    return constant_(weight, 1.0)


def zeros_(weight: Tensor) -> Tensor:
    """0 everywhere."""
    return constant_(weight, 0.0)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """What a nonlinearity takes away from the deviation; param is leaky_relu's slope."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in GAINS:
        known = ", ".join((*GAINS, "leaky_relu"))
        raise ValueError(f"[calculate_gain] expected one of {known}, got {nonlinearity!r}.")
    return GAINS[nonlinearity]


def _fans(op: str, weight: Tensor) -> tuple[int, int]:
    """How many numbers go into each output, and out of each input; 1 where there is none."""
    shape = weight.shape
    if len(shape) < 2:
        raise ValueError(f"[{op}] expected a weight with at least 2 axes, got {shape}.")
    layout = getattr(weight, "layout", None)
    if layout == IN_OUT:
        shape = shape[::-1]
    elif layout == KERNEL_IN_OUT:
        shape = (*shape[:-3:-1], *shape[:-2])
    places = math.prod(shape[2:])
    return max(shape[1] * places, 1), max(shape[0] * places, 1)


def xavier_uniform_(weight: Tensor, gain: float = 1.0) -> Tensor:
    """Even between ±gain √(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(6 / sum(_fans("xavier_uniform_", weight)))
    return uniform_(weight, -bound, bound)


def xavier_normal_(weight: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with deviation gain √(2 / (fan_in + fan_out))."""
    return normal_(weight, 0.0, gain * math.sqrt(2 / sum(_fans("xavier_normal_", weight))))


def _kaiming(op: str, weight: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """The deviation: gain / √fan."""
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"[{op}] mode must be 'fan_in' or 'fan_out', got {mode!r}.")
    fan = _fans(op, weight)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    weight: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Even, with deviation gain / √fan."""
    bound = math.sqrt(3) * _kaiming("kaiming_uniform_", weight, a, mode, nonlinearity)
    return uniform_(weight, -bound, bound)


def kaiming_normal_(
    weight: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Normal, with deviation gain / √fan."""
    return normal_(weight, 0.0, _kaiming("kaiming_normal_", weight, a, mode, nonlinearity))


def orthogonal_(weight: Tensor, gain: float = 1.0) -> Tensor:
    """Rows (axis 0), or columns if they are fewer, that are orthogonal and of length gain."""
    if weight.ndim < 2:
        raise ValueError(
            f"[orthogonal_] expected a weight with 2 axes or more, got {weight.shape}."
        )
    rows, columns = weight.shape[0], weight.size // max(weight.shape[0], 1)
    tall = init.randn(max(rows, columns), min(rows, columns), dtype="float64").numpy()
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diagonal(r))  # evenly distributed: QR alone favours some signs
    values = gain * (q if rows >= columns else q.T)
    return _give(weight, init.tensor(values.reshape(weight.shape), **_like(weight)))
