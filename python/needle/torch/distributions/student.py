"""Student's t distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ... import torch
from . import constraints
from .distribution import Distribution, broadcast_all
from .gamma import Chi2

if TYPE_CHECKING:
    from ...autograd import Tensor

__all__ = ["StudentT"]


class StudentT(Distribution):
    """loc + scale N / sqrt(χ²(df) / df). Samples are not PyTorch's numbers."""

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return torch.where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        found = self.scale.pow(2) * self.df / (self.df - 2)
        return torch.where(self.df > 2, found, torch.where(self.df > 1, math.inf, math.nan))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            x = torch.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
            z = Chi2(self.df).sample(sample_shape)
            return self.loc + self.scale * x * (self.df / z).sqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        scale = self.scale.log() + 0.5 * (self.df * math.pi).log()
        scale = scale + (0.5 * self.df).lgamma() - (0.5 * (self.df + 1)).lgamma()
        return -0.5 * (self.df + 1) * (y**2 / self.df).log1p() - scale
