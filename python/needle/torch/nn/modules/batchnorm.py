"""Batch and instance normalisation, with running statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .... import torch
from .. import functional as F, init
from ..base.lazy import LazyModuleMixin
from ..base.module import Module
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "SyncBatchNorm",
]  # fmt: skip


class _NormBase(Module):
    """Weight and bias, running mean and variance, and how many batches there were."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    _dims: ClassVar[tuple[int, ...]] = ()  # how many axes an input has
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        place = {"device": device, "dtype": dtype}
        self.register_parameter("weight", self._new(place) if affine else None)
        self.register_parameter("bias", self._new(place) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", self._statistic(place) if tracked else None)
        self.register_buffer("running_var", self._statistic(place) if tracked else None)
        count = torch.tensor(0, dtype=torch.long, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def _new(self, place: dict[str, Any]) -> Parameter:
        return Parameter(torch.empty(self.num_features, **place))

    def _statistic(self, place: dict[str, Any]) -> Tensor:
        return torch.zeros(self.num_features, **place)

    def reset_running_stats(self) -> None:
        """Mean 0 and variance 1."""
        if self.track_running_stats:
            assert self.running_mean is not None and self.running_var is not None
            assert self.num_batches_tracked is not None
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight 1 and bias 0, and fresh statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if self._dims and input.ndim not in self._dims:
            expected = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(f"expected {expected} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        has_bias = self._parameters.get("bias") is not None
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={has_bias}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *more: Any
    ) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            state_dict[key] = torch.tensor(0, dtype=torch.long)  # as files of old had none
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *more)


class _BatchNorm(_NormBase):
    """Each channel by the batch's statistics, or in eval mode by the running ones."""

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches
                factor = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        tracks = not self.training or self.track_running_stats
        return F.batch_norm(
            input, self.running_mean if tracks else None, self.running_var if tracks else None,
            self.weight, self.bias, by_batch, factor, self.eps,
        )  # fmt: skip


class BatchNorm1d(_BatchNorm):
    """Each channel of (N, C) or (N, C, L)."""

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of (N, C, H, W)."""

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Each channel of (N, C, D, H, W)."""

    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm over the batches of all processes: here there is one."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: Any = None,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        options = (eps, momentum, affine, track_running_stats, device, dtype)
        super().__init__(num_features, *options, bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        if self.training:
            raise ValueError("SyncBatchNorm expected input tensor to be on GPU")
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module, with every BatchNorm below it as a SyncBatchNorm."""
        found = module
        if isinstance(module, _BatchNorm):
            found = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group,
            )  # fmt: skip
            for store in ("_parameters", "_buffers"):
                found.__dict__[store].update(module.__dict__[store])
            found.training = module.training
        for name, child in module.named_children():
            found.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return found


class _InstanceNorm(_NormBase):
    """Each channel of each sample over its places."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        options = (eps, momentum, affine, track_running_stats, device, dtype)
        super().__init__(num_features, *options, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        alone = input.ndim == self._dims[0]
        x = input.unsqueeze(0) if alone else input
        if self.affine and x.shape[1] != self.num_features:
            raise ValueError(
                f"expected input's size at dim={0 if alone else 1} to match num_features "
                f"({self.num_features}), but got: {x.shape[1]}."
            )
        by_input = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        y = F.instance_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, by_input, momentum,
            self.eps,
        )  # fmt: skip
        return y.squeeze(0) if alone else y


class InstanceNorm1d(_InstanceNorm):
    """Each channel of (N, C, L) or (C, L)."""

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Each channel of (N, C, H, W) or (C, H, W)."""

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Each channel of (N, C, D, H, W) or (C, D, H, W)."""

    _dims = (4, 5)


class _LazyNorm(LazyModuleMixin, _NormBase):
    """A norm with num_features from the first input."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(0, *args, **kwargs)

    def _new(self, place: dict[str, Any]) -> Parameter:
        return UninitializedParameter(**place)

    def _statistic(self, place: dict[str, Any]) -> Tensor:
        return UninitializedBuffer(**place)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if not self.has_uninitialized_params():
            return
        alone = isinstance(self, _InstanceNorm) and input.ndim == self._dims[0]
        self.num_features = input.shape[0 if alone else 1]
        for store in (self._parameters, self._buffers):
            for name, tensor in store.items():
                if tensor is not None and name != "num_batches_tracked":
                    tensor.materialize((self.num_features,))  # type: ignore[attr-defined]
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """BatchNorm1d, with num_features from the first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """BatchNorm2d, with num_features from the first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """BatchNorm3d, with num_features from the first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """InstanceNorm1d, with num_features from the first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """InstanceNorm2d, with num_features from the first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """InstanceNorm3d, with num_features from the first input."""

    cls_to_become = InstanceNorm3d
