"""Embedding: a table of vectors."""

from __future__ import annotations

from typing import Any

from .. import init
from ..autograd import Tensor
from .module import Module, Parameter


class Embedding(Module):
    """Integer (or float-typed) ids of any shape -> (..., embedding_dim): rows of `weight`."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        device: Any = None,
        dtype: Any = "float32",
    ):
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.weight = Parameter(
            init.randn(num_embeddings, embedding_dim, device=device, dtype=dtype)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.weight[x.astype("int64")]

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"
