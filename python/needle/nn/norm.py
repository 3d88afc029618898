"""Normalisation: subtract a mean, divide by a deviation, scale and shift."""

from __future__ import annotations

from typing import Any

from .. import init
from ..autograd import Tensor
from .module import Module, Parameter


class BatchNorm1d(Module):
    """(B, C): each feature normalised over the batch; running statistics in eval mode.

    The variance is the biased one, also in the running statistics (the course's rule)."""

    def __init__(
        self,
        dim: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        device: Any = None,
        dtype: Any = "float32",
    ):
        self.dim = dim
        self.eps = eps
        self.momentum = momentum
        options = {"device": device, "dtype": dtype}
        self.weight = Parameter(init.ones(dim, **options))
        self.bias = Parameter(init.zeros(dim, **options))
        self.running_mean = init.zeros(dim, **options)
        self.running_var = init.ones(dim, **options)

    def _track(self, running: Tensor, batch: Tensor) -> None:
        running.data = (1 - self.momentum) * running.data + self.momentum * batch.detach()

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(
                f"[{type(self).__name__}] expected (batch, {self.dim}) features, got {x.shape}."
            )
        if self.training:
            mean = x.mean(0)  # (C,)
            centred = x - mean
            var = (centred * centred).mean(0)
            self._track(self.running_mean, mean)
            self._track(self.running_var, var)
        else:
            var = self.running_var
            centred = x - self.running_mean
        return self.weight * (centred / (var + self.eps).sqrt()) + self.bias

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm2d(BatchNorm1d):
    """(N, C, H, W): each channel normalised over batch and space."""

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 4:
            raise ValueError(f"[BatchNorm2d] expected (batch, channels, H, W), got {x.shape}.")
        n, c, h, w = x.shape
        rows = x.permute((0, 2, 3, 1)).reshape((n * h * w, c))
        return super().forward(rows).reshape((n, h, w, c)).permute((0, 3, 1, 2))


class LayerNorm1d(Module):
    """(B, C): each row normalised over its features."""

    def __init__(self, dim: int, eps: float = 1e-5, device: Any = None, dtype: Any = "float32"):
        self.dim = dim
        self.eps = eps
        self.weight = Parameter(init.ones(dim, device=device, dtype=dtype))
        self.bias = Parameter(init.zeros(dim, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.dim:
            raise ValueError(
                f"[LayerNorm1d] expected the last dimension to be {self.dim}, got {x.shape}."
            )
        centred = x - x.mean(-1, keepdims=True)
        var = (centred * centred).mean(-1, keepdims=True)
        return self.weight * (centred / (var + self.eps).sqrt()) + self.bias

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}"
