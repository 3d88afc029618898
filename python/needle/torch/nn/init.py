"""Starting values of weights, in place; the numbers are PyTorch's for the same seed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import torch

if TYPE_CHECKING:
    from ...autograd import Tensor

LINEAR = (
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "sigmoid",
)  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity's input should be spread."""
    if nonlinearity in LINEAR:
        return 1
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity not in gains:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return gains[nonlinearity]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers between a and b."""
    with torch.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal numbers."""
    with torch.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Normal numbers, drawn again until they lie between a and b."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    with torch.no_grad():
        if _cdf((b - mean) / std) - _cdf((a - mean) / std) <= 0.3:
            return _by_rejection(tensor, mean, std, (a, b), generator)
        low, high = (torch.tensor(x, dtype=tensor.dtype).item() for x in (a, b))
        found = tensor.normal_(mean, std, generator=generator)
        while (outside := (found < low) | (found > high)).any():
            again = torch.empty_like(found).normal_(mean, std, generator=generator)
            found = torch.where(outside, again, found)
        return tensor if found is tensor else tensor.copy_(found)


def _by_rejection(
    tensor: Tensor, mean: float, std: float, bounds: tuple[float, float], generator: Any
) -> Tensor:
    """Even numbers between the bounds, kept as often as the density says."""
    mode = max(bounds[0], min(mean, bounds[1]))
    peak = -0.5 * ((mode - mean) / std) ** 2

    def density(x: Tensor) -> Tensor:
        return ((x - mean) / std) ** 2 * -0.5 - peak

    def refused(x: Tensor) -> Tensor:
        return torch.empty_like(x).uniform_(generator=generator).log() > density(x)

    found = tensor.uniform_(*bounds, generator=generator)
    pending = refused(found)
    while pending.any():
        again = torch.empty_like(tensor).uniform_(*bounds, generator=generator)
        found = torch.where(pending, again, found)
        pending = torch.where(pending, refused(again), pending)
    return tensor if found is tensor else tensor.copy_(found)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    with torch.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with torch.no_grad():
        return tensor.copy_(torch.eye(*tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight that passes as many channels as it can."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *space = tensor.shape
    if outputs % groups:
        raise ValueError("dim 0 must be divisible by groups")
    each = outputs // groups
    middle = tuple(n // 2 for n in space)
    with torch.no_grad():
        tensor.zero_()
        for group in range(groups):
            for i in range(min(each, inputs)):
                tensor[(group * each + i, i, *middle)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output sees, and how many outputs an input."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Even between ± gain √(6 / (fan_in + fan_out))"""
    bound = (
        math.sqrt(3.0) * gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    )
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with deviation gain √(2 / (fan_in + fan_out))"""
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    return normal_(tensor, 0.0, std, generator)


def _is_empty(tensor: Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Even between ± gain √(3 / fan)"""
    if _is_empty(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    bound = math.sqrt(3.0) * (calculate_gain(nonlinearity, a) / math.sqrt(fan))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Normal with deviation gain / √fan"""
    if _is_empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return normal_(tensor, 0.0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Rows, or columns, that are orthogonal."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    with torch.no_grad():
        flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = torch.linalg.qr(flat.t() if rows < columns else flat)
        q = q * torch.diag(r, 0).sign()
        q = q.t() if rows < columns else q
        return tensor.copy_(q.reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal numbers, of which a share of each column is zero."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with torch.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[torch.randperm(rows)[:zeros], column] = 0
    return tensor


def _former(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The name without an underscore, which is deprecated."""
    name = function.__name__[:-1]

    def initialize(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    initialize.__name__ = name
    return initialize


uniform, normal, constant = _former(uniform_), _former(normal_), _former(constant_)
eye, dirac = _former(eye_), _former(dirac_)
sparse, orthogonal = _former(sparse_), _former(orthogonal_)
xavier_uniform, xavier_normal = _former(xavier_uniform_), _former(xavier_normal_)
kaiming_uniform, kaiming_normal = _former(kaiming_uniform_), _former(kaiming_normal_)
