"""Tensor parallel layers: one matrix product, divided over the ranks.

A column-parallel layer gives each rank some of the outputs, a row-parallel layer takes them and
sums over the ranks: a pair of them exchanges one sum forward and one backward. What lies outside of
the pair is the same on every rank, and counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..autograd import Tensor, TensorOp
from ..mpi.group import Group, world
from ..nn.linear import Linear
from ..nn.module import Module, Parameter
from ..ops.compare import where
from ..ops.index.along_axis import take_along_axis
from ..ops.shape.movement import transpose
from .collectives import AllGather, AllReduce, all_reduce

if TYPE_CHECKING:
    from ..types import Gradients, NDArray

__all__ = [
    "ColumnParallelLinear", "RowParallelLinear", "vocabulary_parallel_cross_entropy",
]  # fmt: skip


class Copied(TensorOp):
    """y = x, which each rank uses in its own way; dx = Σ_r dy_r"""

    linear = True

    def __init__(self, group: Group):
        self.group = group

    def compute(self, a: NDArray) -> NDArray:
        return a

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return summed(out_grad, self.group)


class Summed(AllReduce):
    """y = Σ_r x_r, with which all ranks go on alike; dx_r = dy"""

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        return Copied(self.group)(out_grad)


class Gathered(AllGather):
    """y = x_0, x_1, ..., with which all ranks go on alike; dx_r = part r of dy"""

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        rows = node.inputs[0].shape[0]
        part = slice(self.group.rank * rows, (self.group.rank + 1) * rows)
        return Copied(self.group)(out_grad)[part]


def copied(x: Tensor, group: Group) -> Tensor:
    """Where a value that all ranks have is used by each in its own way."""
    return x if group.size == 1 else Copied(group)(x)


def summed(x: Tensor, group: Group) -> Tensor:
    """Where the ranks' parts become one value that all have."""
    return x if group.size == 1 else Summed(group, "sum")(x)


def part_of(x: Tensor, axis: int, group: Group) -> Parameter:
    """This rank's part of a weight."""
    n = x.shape[axis]
    if n % group.size:
        raise ValueError(
            f"[tensor parallel] expected features that {group.size} ranks divide, got {n}."
        )
    size = n // group.size
    index = (slice(None),) * axis + (slice(group.rank * size, (group.rank + 1) * size),)
    return Parameter(x.detach()[index].clone())


class ColumnParallelLinear(Module):
    """y = x W + b with the outputs divided over the ranks: (..., in) -> (..., out / ranks).

    Weights are drawn as those of `Linear` and cut, so that the same seed on every rank gives the
    same layer for any number of ranks. With `gather` every rank gets all outputs."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        gather: bool = False,
        group: Group | None = None,
    ):
        self._group = group or world()
        whole = Linear(in_features, out_features, bias)
        self.weight = part_of(whole.weight, 1, self._group)
        self.bias = None if whole.bias is None else part_of(whole.bias, 1, self._group)
        self.gather = gather

    def forward(self, x: Tensor) -> Tensor:
        y = copied(x, self._group) @ self.weight
        y = y if self.bias is None else y + self.bias.reshape((self.bias.size,))
        if not self.gather or self._group.size == 1:
            return y
        return transpose(Gathered(self._group)(transpose(y, (0, -1))), (0, -1))


class RowParallelLinear(Module):
    """y = x W + b with the inputs divided over the ranks: (..., in / ranks) -> (..., out)."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        group: Group | None = None,
    ):
        self._group = group or world()
        whole = Linear(in_features, out_features, bias)
        self.weight = part_of(whole.weight, 0, self._group)
        self.bias = whole.bias

    def forward(self, x: Tensor) -> Tensor:
        y = summed(x @ self.weight, self._group)
        return y if self.bias is None else y + self.bias.reshape((self.bias.size,))


def vocabulary_parallel_cross_entropy(
    scores: Tensor, target: Tensor, group: Group | None = None
) -> Tensor:
    """The mean cross entropy of ids (N,) by scores whose columns are divided over the ranks:
    (N, classes / ranks) here. The scores are never gathered."""
    group = group or world()
    size = scores.shape[1]
    highest = all_reduce(scores.detach().max(1, keepdims=True), "max", group)  # (N, 1)
    total = summed((scores - highest).exp().sum(1, keepdims=True), group)
    local = target.astype("int64").reshape((scores.shape[0], 1)) - group.rank * size
    is_here = (local >= 0) & (local < size)
    picked = take_along_axis(scores, where(is_here, local, local * 0), 1)
    chosen = summed(where(is_here, picked, picked * 0), group)
    return (total.log() + highest - chosen).mean()
