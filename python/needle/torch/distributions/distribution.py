"""What every distribution is: shapes, samples, densities."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ... import torch
from .constraints import Constraint

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = ["Distribution", "ExponentialFamily"]


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors and numbers in one shape; numbers take the tensors' dtype."""
    given = next((v for v in values if isinstance(v, torch.Tensor)), None)
    dtype = torch.get_default_dtype() if given is None else given.dtype
    tensors = [v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=dtype) for v in values]
    return tuple(torch.broadcast_tensors(*tensors))


class Distribution:
    """Subclasses define sample or rsample, log_prob, and what moments they have."""

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    arg_constraints: dict[str, Constraint] = {}
    support: Any = None

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked where nothing is said."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = torch.Size(batch_shape)
        self._event_shape = torch.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_arguments()

    def _check_arguments(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if name not in self.__dict__:  # computed from another argument
                continue
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    @property
    def batch_shape(self) -> Any:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one event."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples without a gradient."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples with a gradient to the parameters."""
        raise NotImplementedError(
            f"[torch.distributions.{type(self).__name__}.rsample] is missing; use sample()."
        )

    def sample_n(self, n: int) -> Tensor:
        """n samples."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, 2)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of what is not larger."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """e to the entropy."""
        return torch.exp(self.entropy())

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same with a larger batch shape."""
        shape = torch.Size(batch_shape)
        found = type(self).__new__(type(self))
        found.__dict__.update(self.__dict__)
        for name, value in self.__dict__.items():
            if isinstance(value, torch.Tensor) and name in self._expanded():
                event = tuple(value.shape[len(self._batch_shape) :])
                found.__dict__[name] = value.expand((*shape, *event))
        found._batch_shape = shape
        return found

    def _expanded(self) -> set[str]:
        """The attributes that have the batch shape."""
        return {*self.arg_constraints, "_param", "_unbroadcasted_scale_tril"}

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return torch.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        if not self._validate_args:
            return
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        wanted = (*self._batch_shape, *self._event_shape)
        for given, size in zip(reversed(value.shape), reversed(wanted), strict=False):
            if given != size and 1 not in (given, size):
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs "
                    f"{torch.Size(wanted)}."
                )
        if self.support is not None and not bool(self.support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape "
                f"{tuple(value.shape)}) to "
                f"be within the support ({self.support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        parts = []
        for name in names:
            value = self.__dict__[name]
            shown = value if value.numel() == 1 else value.size()
            parts.append(f"{name}: {shown}")
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """Distributions whose density is e to a linear function of statistics."""
