"""Linear maps and reshaping layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import init
from ..autograd import Tensor
from .module import IN_OUT, ROW, Module, Parameter, layouts

if TYPE_CHECKING:
    from ..types import DeviceLike, DTypeLike, Placed

__all__ = ["Identity", "Linear", "Flatten", "Unflatten"]


class Identity(Module):
    """y = x"""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Linear(Module):
    """y = x W + b, with W (in, out) and b (1, out): (..., in) -> (..., out)."""

    _layouts = layouts(weight=IN_OUT, bias=ROW)

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        self.in_features = in_features
        self.out_features = out_features
        options: Placed = {"device": device, "dtype": dtype}
        self.weight = Parameter(init.kaiming_uniform(in_features, out_features, **options))
        self.bias = None
        if bias:
            drawn = init.kaiming_uniform(out_features, 1, **options)
            self.bias = Parameter(drawn.reshape((1, out_features)))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        if x.shape[-1:] != weight.shape[:1]:
            if x.shape[-1:] == weight.shape[1:] == (self.in_features,):
                raise ValueError(
                    f"[Linear] expected a weight (in, out) {weight.shape[::-1]}, got "
                    f"{weight.shape}, as PyTorch has it; if it is shared with an embedding, use "
                    "F.linear(x, embedding.weight)."
                )
            raise ValueError(
                f"[Linear] expected the last dimension of the input to be {weight.shape[0]}, got "
                f"{x.shape} with weight {weight.shape}; change in_features, or flatten or "
                "transpose the input."
            )
        y = x @ weight  # (..., out)
        return y if self.bias is None else y + self.bias.reshape((self.bias.size,))

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Flatten(Module):
    """(B, ...) -> (B, product of the rest): the axes from start_dim to end_dim as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 1 and self.start_dim == 1:
            return x.reshape((x.shape[0], 1))  # the course's: a batch of single numbers
        return x.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """(..., n, ...) -> (..., *unflattened_size, ...) on one axis."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]):
        self.dim = dim
        self.sizes = tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(self.dim, self.sizes)
