"""Normalisation: subtract a mean, divide by a deviation, scale and shift.

N = batch, C = channels (or features). Constructors draw no random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from .. import init
from ..autograd import Tensor
from . import functional as F
from .functional.norm import values_per_channel
from .module import Module, Parameter

if TYPE_CHECKING:
    from ..types import DeviceLike, DTypeLike, Placed

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "GroupNorm", "LayerNorm", "LayerNorm1d", "RMSNorm",
]  # fmt: skip


def _ones_and_zeros(
    shape: Sequence[int], weight: bool, bias: bool, device: DeviceLike | None, dtype: DTypeLike
) -> tuple[Parameter | None, Parameter | None]:
    options: Placed = {"device": device, "dtype": dtype}
    return (
        Parameter(init.ones(*shape, **options)) if weight else None,
        Parameter(init.zeros(*shape, **options)) if bias else None,
    )


class _ChannelNorm(Module):
    """(N, C, ...) with running statistics of each channel."""

    axes: ClassVar[tuple[int, ...]]  # how many axes an input may have
    places: ClassVar[str]  # what the axes behind the channels are, for error messages

    def __init__(
        self,
        dim: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: DeviceLike | None,
        dtype: DTypeLike,
    ):
        self.dim = dim
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.weight, self.bias = _ones_and_zeros((dim,), affine, affine, device, dtype)
        self.running_mean: Tensor | None = None
        self.running_var: Tensor | None = None
        self.num_batches_tracked: Tensor | None = None
        if track_running_stats:
            self.running_mean = init.zeros(dim, device=device, dtype=dtype)
            self.running_var = init.ones(dim, device=device, dtype=dtype)
            self.num_batches_tracked = init.zeros(device=device, dtype="int64")

    def check(self, x: Tensor) -> None:
        """The shapes that this layer takes."""
        if x.ndim in self.axes and x.shape[1] == self.dim:
            return
        raise ValueError(
            f"[{type(self).__name__}] expected (batch, {self.dim}{self.places}), got {x.shape}; "
            "the channels are axis 1: change their number here, or move them there."
        )

    def extra_repr(self) -> str:
        changed = [
            f"{name}=False" for name in ("affine", "track_running_stats") if not getattr(self, name)
        ]
        return ", ".join([f"{self.dim}, eps={self.eps}, momentum={self.momentum}", *changed])


class BatchNorm1d(_ChannelNorm):
    """(N, C) or (N, C, L): each channel normalised over the batch; running statistics in eval mode.

    The variance is the biased one, also in the running statistics (the course's rule). These are
    moving averages, or with momentum=None the plain average over all batches. The number of
    channels is called dim (the course) or num_features (PyTorch)."""

    axes: ClassVar[tuple[int, ...]] = (2, 3)
    places = "[, L]"

    def __init__(
        self,
        dim: int | None = None,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
        *,
        affine: bool = True,
        track_running_stats: bool = True,
        num_features: int | None = None,
    ):
        given = [n for n in (dim, num_features) if n is not None]
        if len(given) != 1:
            raise TypeError(
                f"[{type(self).__name__}] expected the number of channels, as dim or num_features, "
                f"got {given}."
            )
        super().__init__(given[0], eps, momentum, affine, track_running_stats, device, dtype)

    def share(self) -> float | Tensor:
        """How much of the running statistics this batch is: momentum, or 1/n at batch n (None)."""
        if not self.training or self.num_batches_tracked is None:
            return 0.0
        count = self.num_batches_tracked.data + 1
        self.num_batches_tracked.data = count
        return 1 / count.astype("float64") if self.momentum is None else self.momentum

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        by_batch = self.training or not self.track_running_stats
        if by_batch:
            values_per_channel(x)  # before anything is counted
        return F.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            by_batch,
            self.share(),
            self.eps,
            correction=0,
        )


class BatchNorm2d(BatchNorm1d):
    """(N, C, H, W): each channel normalised over batch and space."""

    axes = (4,)
    places = ", H, W"


class BatchNorm3d(BatchNorm1d):
    """(N, C, D, H, W): each channel normalised over batch and space."""

    axes = (5,)
    places = ", D, H, W"


class InstanceNorm1d(_ChannelNorm):
    """(N, C, L): each channel of each sample normalised over its places."""

    axes = (3,)
    places = ", L"

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        return F.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )


class InstanceNorm2d(InstanceNorm1d):
    """(N, C, H, W): each channel of each sample normalised over its places."""

    axes = (4,)
    places = ", H, W"


class InstanceNorm3d(InstanceNorm1d):
    """(N, C, D, H, W): each channel of each sample normalised over its places."""

    axes = (5,)
    places = ", D, H, W"


class GroupNorm(Module):
    """(N, C, ...): groups of channels of each sample normalised over channels and places."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(
                f"[GroupNorm] expected channels that divide into groups, got {num_channels} "
                f"channels and {num_groups} groups."
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight, self.bias = _ones_and_zeros((num_channels,), affine, affine, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class LayerNorm(Module):
    """The last axes, which have normalized_shape, get mean 0 and deviation 1."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(shape)
        self.eps = eps
        self.weight, self.bias = _ones_and_zeros(
            self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class LayerNorm1d(Module):
    """The course's: each row of (B, C) normalised over its features."""

    def __init__(
        self,
        dim: int,
        eps: float = 1e-5,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        self.dim = dim
        self.eps = eps
        self.weight, self.bias = _ones_and_zeros((dim,), True, True, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1:] != (self.dim,):
            raise ValueError(
                f"[LayerNorm1d] expected the last dimension to be {self.dim}, got {x.shape}."
            )
        return F.layer_norm(x, self.dim, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}"


class RMSNorm(Module):
    """The last axes, which have normalized_shape, get root mean square 1."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(shape)
        self.eps = eps
        self.weight, _ = _ones_and_zeros(
            self.normalized_shape, elementwise_affine, False, device, dtype
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"
