"""Distributions of whole numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ... import torch
from . import constraints
from .distribution import Distribution, ExponentialFamily, broadcast_all

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = [
    "Bernoulli", "Binomial", "Categorical", "Geometric", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Poisson",
]  # fmt: skip


def clamp_probs(probs: Tensor) -> Tensor:
    """Away from 0 and 1, whose logarithms are not finite."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


class _Binary(Distribution):
    """Given by probabilities of 1, or by their logits."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, given = ("probs", probs) if probs is not None else ("logits", logits)
        (self.__dict__[name],) = broadcast_all(given)
        self._param = self.__dict__[name]
        super().__init__(self._param.shape, validate_args=validate_args)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name == "probs" and "logits" in own:
            return torch.sigmoid(own["logits"])
        if name == "logits" and "probs" in own:
            probs = clamp_probs(own["probs"])
            return torch.log(probs) - torch.log1p(-probs)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Bernoulli(_Binary, ExponentialFamily):
    """1 with a probability, else 0."""

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        found = (self.probs >= 0.5).to(self._param.dtype)
        return torch.where(self.probs == 0.5, math.nan, found)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)  # type: ignore[no-any-return]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -torch.nn.functional.binary_cross_entropy_with_logits(
            logits, value, reduction="none"
        )

    def entropy(self) -> Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(
            self.logits, self.probs, reduction="none"
        )

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = torch.arange(2, dtype=self._param.dtype)
        values = values.reshape((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Geometric(_Binary):
    """How many failures there are before a success."""

    support = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs  # type: ignore[no-any-return]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        tiny = torch.finfo(self.probs.dtype).tiny
        with torch.no_grad():
            u = torch.empty(shape, dtype=self.probs.dtype).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = torch.where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        p = self.probs
        return (
            torch.nn.functional.binary_cross_entropy_with_logits(self.logits, p, reduction="none")
            / p
        )


class Categorical(Distribution):
    """One of several classes."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = probs if probs is not None else logits
        if given.ndim < 1:
            raise ValueError("`probs` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
            self._param = self.probs
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
            self._param = self.logits
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name == "probs" and "logits" in own:
            return torch.softmax(own["logits"], -1)
        if name == "logits" and "probs" in own:
            return torch.log(clamp_probs(own["probs"]))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def support(self) -> Any:  # type: ignore[override]
        """The numbers of the classes."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def param_shape(self) -> Any:
        """The shape of the probabilities."""
        return self._param.size()

    @property
    def mean(self) -> Tensor:
        return torch.full(tuple(self._batch_shape), math.nan, dtype=self.probs.dtype)

    variance = mean

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)  # type: ignore[no-any-return]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        count = math.prod(sample_shape)
        flat = self.probs.detach().reshape(-1, self._num_events)
        drawn = torch.multinomial(flat, count, True).t()
        return drawn.reshape((*sample_shape, *self._batch_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = value.to(torch.int64).unsqueeze(-1)
        value, logs = torch.broadcast_tensors(value, self.logits)
        return logs.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)  # type: ignore[no-any-return]

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = torch.arange(self._num_events).reshape((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class OneHotCategorical(Distribution):
    """Categorical, as one-hot vectors."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def mean(self) -> Tensor:
        return self.probs  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)  # type: ignore[no-any-return]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample(sample_shape)
        hot = torch.nn.functional.one_hot(drawn, self._categorical._num_events)
        return hot.to(self._categorical._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Samples with the gradient of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self.sample(sample_shape)
        return drawn + (self.probs - self.probs.detach())  # type: ignore[no-any-return]


class Poisson(ExponentialFamily):
    """How many events with a rate there are."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    variance = mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return torch.xlogy(value, rate) - rate - (value + 1).lgamma()


class Binomial(_Binary):
    """How many of total_count trials succeed."""

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = probs if probs is not None else logits
        count, given = broadcast_all(total_count, given)
        self.total_count = count.to(given.dtype)
        options = {"probs": given} if probs is not None else {"logits": given}
        super().__init__(**options, validate_args=validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        """From 0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        raise NotImplementedError("[torch.distributions.Binomial.sample] is missing.")

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, p = self.total_count, clamp_probs(self.probs)
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * p.log() + (n - value) * (-p).log1p()
