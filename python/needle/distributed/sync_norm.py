"""Batch norm whose statistics are those of all ranks' batches together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..autograd import Tensor, no_grad
from ..mpi.group import Group, world
from ..nn.norm import BatchNorm1d
from .collectives import all_reduce

if TYPE_CHECKING:
    from ..nn.module import Module

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(BatchNorm1d):
    """(N, C, ...): as BatchNorm, over the batches of all ranks, which are equally large."""

    axes = (2, 3, 4, 5)
    places = ", ..."
    _group: Group | None = None

    def forward(self, x: Tensor) -> Tensor:
        group = self._group or world()
        if not self.training or group.size == 1:
            return super().forward(x)
        self.check(x)
        axes = (0, *range(2, x.ndim))
        column = (1, self.dim, *(1,) * (x.ndim - 2))
        mean = all_reduce(x.mean(axes), "mean", group)
        centred = x - mean.reshape(column)
        var = all_reduce(centred.square().mean(axes), "mean", group)
        y = centred * (var + self.eps).rsqrt().reshape(column)
        self._track(mean.detach(), var.detach())
        if self.weight is None or self.bias is None:
            return y
        return y * self.weight.reshape(column) + self.bias.reshape(column)

    def _track(self, mean: Tensor, var: Tensor) -> None:
        share = self.share()
        if self.running_mean is None or self.running_var is None:
            return
        with no_grad():
            for running, new in ((self.running_mean, mean), (self.running_var, var)):
                old = running.detach()
                running.data = (old + (new - old) * share).astype(old.dtype)

    @classmethod
    def convert(cls, module: Module, group: Group | None = None) -> Module:
        """Every batch norm of a model becomes one of all ranks, with the same parameters."""
        for each in module.modules():
            if isinstance(each, BatchNorm1d) and not isinstance(each, cls):
                each.__class__ = cls
        for each in module.modules():
            if isinstance(each, cls):
                each._group = group
        return module
