"""Activation functions as modules."""

from __future__ import annotations

from ..autograd import Tensor
from .module import Module


class ReLU(Module):
    """max(x, 0)"""

    def forward(self, x: Tensor) -> Tensor:
        return x.relu()


class Sigmoid(Module):
    """1 / (1 + e^-x)"""

    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid()


class Tanh(Module):
    """tanh x"""

    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()
