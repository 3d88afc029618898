"""Which values parameters and samples may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import torch

__all__ = [
    "Constraint", "boolean", "greater_than", "integer_interval", "interval", "lower_cholesky",
    "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite", "real",
    "real_vector", "simplex", "unit_interval",
]  # fmt: skip


class Constraint:
    """A test of values; the last event_dim axes are one event."""

    def __init__(
        self, name: str, check: Callable[[Any], Any], event_dim: int = 0, is_discrete: bool = False
    ) -> None:
        self.name, self.event_dim, self.is_discrete = name, event_dim, is_discrete
        self._check = check

    def check(self, value: Any) -> Any:
        """Which events are allowed."""
        return self._check(value)

    def __repr__(self) -> str:
        return self.name


def greater_than(lower_bound: Any) -> Constraint:
    """x > the bound"""
    return Constraint(f"GreaterThan(lower_bound={lower_bound})", lambda x: lower_bound < x)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Between two bounds, or at them."""
    return Constraint(
        f"Interval(lower_bound={lower_bound}, upper_bound={upper_bound})",
        lambda x: (lower_bound <= x) & (x <= upper_bound),
    )


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """A whole number between two bounds, or at them."""
    return Constraint(
        f"IntegerInterval(lower_bound={lower_bound}, upper_bound={upper_bound})",
        lambda x: (x % 1 == 0) & (lower_bound <= x) & (x <= upper_bound),
        is_discrete=True,
    )


def independent(base: Constraint, count: int) -> Constraint:
    """The base for all elements of the last `count` axes."""
    if not count:
        return base

    def check(x: Any) -> Any:
        allowed = base.check(x)
        return allowed.reshape((*allowed.shape[: allowed.ndim - count], -1)).all(-1)

    return Constraint(repr(base), check, base.event_dim + count, base.is_discrete)


def _is_simplex(x: Any) -> Any:
    return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6)


def _is_lower_cholesky(x: Any) -> Any:
    lower = (x.tril() == x).reshape((*x.shape[:-2], -1)).all(-1)
    return lower & (x.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def _is_positive_definite(x: Any) -> Any:
    symmetric = torch.isclose(x, x.transpose(-2, -1), atol=1e-6).all(-1).all(-1)
    return symmetric & (torch.linalg.eigvalsh(x) > 0).all(-1)


real = Constraint("Real()", lambda x: x == x)
positive = Constraint("GreaterThan(lower_bound=0.0)", lambda x: x > 0)
nonnegative = Constraint("GreaterThanEq(lower_bound=0.0)", lambda x: x >= 0)
unit_interval = interval(0.0, 1.0)
boolean = Constraint("Boolean()", lambda x: (x == 0) | (x == 1), is_discrete=True)
nonnegative_integer = Constraint(
    "IntegerGreaterThan(lower_bound=0)", lambda x: (x % 1 == 0) & (x >= 0), is_discrete=True
)
simplex = Constraint("Simplex()", _is_simplex, 1)
one_hot = Constraint(
    "OneHot()", lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), 1, True
)
real_vector = Constraint("IndependentConstraint(Real(), 1)", lambda x: (x == x).all(-1), 1)
lower_cholesky = Constraint("LowerCholesky()", _is_lower_cholesky, 2)
positive_definite = Constraint("PositiveDefinite()", _is_positive_definite, 2)
