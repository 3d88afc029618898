"""Distributions made of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import torch
from . import constraints
from .discrete import Categorical
from .distribution import Distribution
from .transforms import ComposeTransform, Transform

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """The sum over the last axes."""
    if not count:
        return value
    return value.reshape((*value.shape[: value.ndim - count], -1)).sum(-1)


class Independent(Distribution):
    """The last batch axes as part of the event."""

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base, count = base_distribution, reinterpreted_batch_ndims
        if count > len(base.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{count} vs {len(base.batch_shape)}"
            )
        self.base_dist = base
        self.reinterpreted_batch_ndims = count
        shape = (*base.batch_shape, *base.event_shape)
        event = len(base.event_shape) + count
        split = len(shape) - event
        super().__init__(shape[:split], shape[split:], validate_args=validate_args)
        self.has_rsample = base.has_rsample

    @property
    def support(self) -> Any:  # type: ignore[override]
        """That of the base, for all elements."""
        base = self.base_dist.support
        return (
            None if base is None else constraints.independent(base, self.reinterpreted_batch_ndims)
        )

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance  # type: ignore[no-any-return]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        inner = self._event_shape[: self.reinterpreted_batch_ndims]
        base = self.base_dist.expand((*batch_shape, *inner))
        return Independent(base, self.reinterpreted_batch_ndims, validate_args=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """f(x) of a distribution's x."""

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms: list[Transform] = (
            [transforms] if isinstance(transforms, Transform) else list(transforms)
        )
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(
                f"transforms must be a Transform or list of Transforms, but was {transforms}"
            )
        self.base_dist = base_distribution
        base = base_distribution
        super().__init__(base.batch_shape, base.event_shape, validate_args=validate_args)
        self.has_rsample = base.has_rsample

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            return ComposeTransform(self.transforms)(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return ComposeTransform(self.transforms)(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        total: Any = 0.0
        event = len(self._event_shape)
        y = value
        for transform in reversed(self.transforms):
            x = transform.inverse(y)
            own = getattr(transform, "event_dim", 0)
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), event - own)
            y = x
        found: Tensor = total + self.base_dist.log_prob(y)
        return found

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inverse(value)
        return self.base_dist.cdf(value)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class MixtureSameFamily(Distribution):
    """One of a distribution's last batch axis, by a Categorical."""

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._mixture = mixture_distribution
        self._component = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an instance of "
                "torch.distributions.Categorical"
            )
        component = component_distribution
        batch = component.batch_shape[:-1]
        super().__init__(batch, component.event_shape, validate_args=validate_args)

    @property
    def mixture_distribution(self) -> Categorical:
        """Which one."""
        return self._mixture

    @property
    def component_distribution(self) -> Any:
        """The distributions."""
        return self._component

    def _shares(self) -> Tensor:
        probs = self._mixture.probs
        found: Tensor = probs.reshape((*probs.shape, *(1,) * len(self._event_shape)))
        return found

    @property
    def mean(self) -> Tensor:
        axis = -1 - len(self._event_shape)
        return (self._shares() * self._component.mean).sum(axis)

    @property
    def variance(self) -> Tensor:
        axis = -1 - len(self._event_shape)
        inside = (self._shares() * self._component.variance).sum(axis)
        off = self._component.mean - self.mean.unsqueeze(axis)
        return inside + (self._shares() * off.pow(2)).sum(axis)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            axis = len(sample_shape) + len(self._batch_shape)
            which = self._mixture.sample(sample_shape)
            every = self._component.sample(sample_shape)
            index = which.reshape((*which.shape, *(1,) * (len(self._event_shape) + 1)))
            index = index.expand((*which.shape, 1, *self._event_shape))
            found: Tensor = every.gather(axis, index).squeeze(axis)
            return found

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = value.unsqueeze(-1 - len(self._event_shape))
        logs = self._component.log_prob(value)
        return torch.logsumexp(logs + torch.log_softmax(self._mixture.logits, -1), -1)
