"""Embedding: a table of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import init
from ..autograd import Tensor
from . import functional as F
from .functional.linear import check_padding
from .module import OUT_IN, Module, Parameter, layouts

if TYPE_CHECKING:
    from ..types import DeviceLike, DTypeLike

__all__ = ["Embedding"]


class Embedding(Module):
    """Integer (or float-typed) ids of any shape -> (..., embedding_dim): rows of `weight`.

    Row padding_idx starts as zeros and gets no gradient."""

    _layouts = layouts(weight=OUT_IN)  # of the map from a vector to a score for each id

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
        *,
        padding_idx: int | None = None,
    ):
        if padding_idx is not None:
            check_padding("Embedding", padding_idx, num_embeddings)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        drawn = init.randn(num_embeddings, embedding_dim, device=device, dtype=dtype)
        if padding_idx is not None:
            drawn[padding_idx] = 0.0
        self.weight = Parameter(drawn)

    def forward(self, x: Tensor) -> Tensor:
        return F.embedding(x, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"
