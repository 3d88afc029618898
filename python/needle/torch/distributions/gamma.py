"""Gamma, Beta, Dirichlet and Chi2. Samples have no gradient, and are not PyTorch's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import torch
from . import constraints
from .distribution import ExponentialFamily, broadcast_all

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = ["Beta", "Chi2", "Dirichlet", "Gamma"]


def standard_gamma(alpha: Tensor) -> Tensor:
    """Samples for rate 1, by rejection (Marsaglia and Tsang, 2000); below 1 from α + 1."""
    small = alpha < 1
    d = torch.where(small, alpha + 1, alpha) - 1.0 / 3.0
    c = 1.0 / (9.0 * d).sqrt()
    found = torch.zeros_like(alpha)
    pending = torch.ones_like(alpha, dtype=torch.bool)
    while bool(pending.any()):
        x, u = torch.randn_like(alpha), torch.rand_like(alpha)
        v = (1 + c * x) ** 3
        safe = torch.where(v > 0, v, 1.0)
        good = (v > 0) & (u.log() < 0.5 * x * x + d - d * v + d * safe.log())
        found = torch.where(pending & good, d * v, found)
        pending = pending & ~good
    power = torch.rand_like(alpha) ** (1.0 / alpha)
    return torch.where(small, found * power, found).clamp(min=torch.finfo(alpha.dtype).tiny)


class Gamma(ExponentialFamily):
    """x^(α - 1) e^(-β x)"""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)
            return standard_gamma(self.concentration.expand(shape).clone()) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration, self.rate
        return torch.xlogy(a, b) + torch.xlogy(a - 1, value) - b * value - torch.lgamma(a)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + torch.lgamma(a) + (1.0 - a) * torch.digamma(a)


class Chi2(Gamma):
    """The sum of df squares of normal numbers."""

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """How many squares."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Shares that add up to 1."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        found: Tensor = self.concentration / self.concentration.sum(-1, keepdim=True)
        return found

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        found: Tensor = (
            self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))
        )
        return found

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)
            parts = standard_gamma(self.concentration.expand(shape).clone())
            return parts / parts.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        found: Tensor = (
            torch.xlogy(a - 1.0, value).sum(-1)
            + torch.lgamma(a.sum(-1)) - torch.lgamma(a).sum(-1)
        )  # fmt: skip
        return found

    def entropy(self) -> Tensor:
        a = self.concentration
        k, total = a.shape[-1], a.sum(-1)
        found: Tensor = (
            torch.lgamma(a).sum(-1) - torch.lgamma(total) - (k - total) * torch.digamma(total)
            - ((a - 1.0) * torch.digamma(a)).sum(-1)
        )  # fmt: skip
        return found


class Beta(ExponentialFamily):
    """x^(α - 1) (1 - x)^(β - 1)"""

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        one, zero = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(torch.stack([one, zero], -1), validate_args=validate_args)
        super().__init__(one.shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """α"""
        return self._dirichlet.concentration[..., 0]  # type: ignore[no-any-return]

    @property
    def concentration0(self) -> Tensor:
        """β"""
        return self._dirichlet.concentration[..., 1]  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.sample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(torch.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()
