"""Normal vectors with a covariance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ... import torch
from . import constraints
from .distribution import Distribution

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Distribution):
    """Given by a covariance, its inverse, or its lower triangular root."""

    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
        scale_tril: Any = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = {
            "covariance_matrix": covariance_matrix, "scale_tril": scale_tril,
            "precision_matrix": precision_matrix,
        }  # fmt: skip
        named = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(named) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        ((name, matrix),) = named.items()
        if matrix.ndim < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional batch dims")
        batch = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand((*batch, *matrix.shape[-2:]))
        self.loc = loc.expand((*batch, loc.shape[-1]))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if scale_tril is not None:
            self._root = self.__dict__["scale_tril"]
        elif covariance_matrix is not None:
            self._root = torch.linalg.cholesky(self.__dict__["covariance_matrix"])
        else:
            precision = torch.linalg.inv(self.__dict__["precision_matrix"])
            self._root = torch.linalg.cholesky(precision)

    def __getattr__(self, name: str) -> Any:
        root = self.__dict__.get("_root")
        if root is not None and name == "scale_tril":
            return root
        if root is not None and name == "covariance_matrix":
            return root @ root.transpose(-2, -1)
        if root is not None and name == "precision_matrix":
            return torch.linalg.inv(root @ root.transpose(-2, -1))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _expanded(self) -> set[str]:
        return {*super()._expanded(), "_root"}

    @property
    def mean(self) -> Tensor:
        return self.loc  # type: ignore[no-any-return]

    mode = mean

    @property
    def variance(self) -> Tensor:
        return self._root.pow(2).sum(-1)  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        like = {"dtype": self.loc.dtype}
        eps = torch.normal(torch.zeros(shape, **like), torch.ones(shape, **like))
        found: Tensor = self.loc + (self._root @ eps.unsqueeze(-1)).squeeze(-1)
        return found

    def _half_log_det(self) -> Tensor:
        found: Tensor = self._root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return found

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        off = (value - self.loc).unsqueeze(-1)
        root = self._root.expand((*off.shape[:-2], *self._root.shape[-2:]))
        whitened = torch.linalg.solve(root, off).squeeze(-1)
        squares = whitened.pow(2).sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + squares) - (
            self._half_log_det()
        )

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        return 0.5 * n * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
