"""Attention and the course's Transformer.

B = batch, T = time, E = embedding size, H = heads, D = size of a head.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ... import init
from ...autograd import Tensor
from ...ops import softmax
from ..activation import ReLU
from ..container import Residual, Sequential
from ..dropout import Dropout
from ..embedding import Embedding
from ..linear import Linear
from ..module import Module
from ..norm import LayerNorm1d

if TYPE_CHECKING:
    from ...types import DeviceLike, DTypeLike, Placed

__all__ = ["MultiHeadAttention", "AttentionLayer", "TransformerLayer", "Transformer"]


class MultiHeadAttention(Module):
    """softmax(q kᵀ / √D) v for q, k, v (B, H, T, D): returns (result, probabilities)."""

    def __init__(
        self,
        *,
        dropout: float = 0.0,
        causal: bool = False,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        self.device = device
        self.dtype = dtype
        self.causal = causal
        self.dropout = Dropout(dropout)

    def create_causal_mask(self, i: int, j: int, device: DeviceLike) -> Tensor:
        """(1, 1, i, j): the most negative number above the diagonal, else 0."""
        lowest = float(np.finfo(np.float32).min)
        ones = init.ones(i, j, device=device, dtype=self.dtype)
        return (ones.triu(j - i + 1) * lowest).reshape((1, 1, i, j))

    def matmul(self, a: Tensor, b_transpose: Tensor) -> Tensor:
        """a (..., M, K) with b_transpose (..., N, K) -> (..., M, N)."""
        return a @ b_transpose.transpose()

    def softmax(self, logit: Tensor) -> Tensor:
        """Over the last axis."""
        return softmax(logit, -1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if q.ndim != 4 or k.shape != v.shape or q.shape[-1] != k.shape[-1]:
            raise ValueError(
                "[MultiHeadAttention] expected q, k, v (batch, heads, time, head size) with equal "
                f"head sizes, got {q.shape}, {k.shape} and {v.shape}."
            )
        logits = self.matmul(q, k) / math.sqrt(q.shape[-1])  # (B, H, T, T)
        if self.causal:
            logits = logits + self.create_causal_mask(q.shape[2], k.shape[2], q.device)
        probs = self.dropout(self.softmax(logits))
        return probs @ v, probs


class AttentionLayer(Module):
    """Normalise, project to heads, attend, project back: (B, T, E) -> (B, T, out_features)."""

    def __init__(
        self,
        q_features: int,
        num_head: int,
        dim_head: int,
        *,
        k_features: int | None = None,
        v_features: int | None = None,
        out_features: int | None = None,
        dropout: float = 0.0,
        causal: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        k_features = q_features if k_features is None else k_features
        v_features = q_features if v_features is None else v_features
        out_features = q_features if out_features is None else out_features
        options: Placed = {"device": device, "dtype": dtype}
        inner = num_head * dim_head
        self.num_head = num_head
        self.dim_head = dim_head
        self.prenorm_q = LayerNorm1d(q_features, **options)
        self.prenorm_k = LayerNorm1d(k_features, **options)
        self.prenorm_v = LayerNorm1d(v_features, **options)
        self.q_projection = Linear(q_features, inner, bias=False, **options)
        self.k_projection = Linear(k_features, inner, bias=False, **options)
        self.v_projection = Linear(v_features, inner, bias=False, **options)
        self.attn = MultiHeadAttention(dropout=dropout, causal=causal, **options)
        self.out_projection = Linear(inner, out_features, bias=False, **options)

    def _heads(self, x: Tensor, norm: Module, projection: Module) -> Tensor:
        """(B, T, E) -> (B, H, T, D)"""
        batch, time, features = x.shape
        flat = norm(x.reshape((batch * time, features)))
        split = projection(flat).reshape((batch, time, self.num_head, self.dim_head))
        heads: Tensor = split.transpose((1, 2))
        return heads

    def forward(self, q: Tensor, k: Tensor | None = None, v: Tensor | None = None) -> Tensor:
        k = q if k is None else k
        v = q if v is None else v
        batch, time, _ = q.shape
        result, _ = self.attn(
            self._heads(q, self.prenorm_q, self.q_projection),
            self._heads(k, self.prenorm_k, self.k_projection),
            self._heads(v, self.prenorm_v, self.v_projection),
        )
        joined = result.transpose((1, 2)).reshape((batch * time, self.num_head * self.dim_head))
        out: Tensor = self.out_projection(joined).reshape((batch, time, -1))
        return out


class TransformerLayer(Module):
    """x + Dropout(Attention(x)), then x + Dropout(MLP(LayerNorm(x)))."""

    def __init__(
        self,
        q_features: int,
        num_head: int,
        dim_head: int,
        hidden_size: int,
        *,
        dropout: float = 0.0,
        causal: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        options: Placed = {"device": device, "dtype": dtype}
        self.attention = AttentionLayer(
            q_features, num_head, dim_head, dropout=dropout, causal=causal, **options
        )
        self.dropout = Dropout(dropout)
        self.mlp = Residual(
            Sequential(
                LayerNorm1d(q_features, **options),
                Linear(q_features, hidden_size, **options),
                ReLU(),
                Dropout(dropout),
                Linear(hidden_size, q_features, **options),
                Dropout(dropout),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, time, features = x.shape
        x = x + self.dropout(self.attention(x))
        out: Tensor = self.mlp(x.reshape((batch * time, features))).reshape(x.shape)
        return out


class Transformer(Module):
    """A learned position for every step, then layers: (T, B, E) -> (same, zeros like it)."""

    def __new__(cls, *args: object, **options: object) -> Transformer:
        theirs = sorted(options.keys() & {"d_model", "nhead", "num_encoder_layers"})
        if theirs:
            raise TypeError(
                f"[Transformer] this is the course's, one causal stack, got {', '.join(theirs)} of "
                "PyTorch's; use nn.TransformerEncoder(nn.TransformerEncoderLayer(...), n) and "
                "nn.TransformerDecoder(nn.TransformerDecoderLayer(...), n)."
            )
        return super().__new__(cls)

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: DeviceLike | None = None, dtype: DTypeLike = "float32"
    ) -> Tensor:
        """PyTorch's causal mask (T, T): -∞ above the diagonal, else 0."""
        above = init.full((sz, sz), float("-inf"), device=device, dtype=dtype)
        return above.triu(1)

    def __init__(
        self,
        embedding_size: int,
        hidden_size: int,
        num_layers: int,
        *,
        num_head: int = 8,
        dim_head: int = 32,
        dropout: float = 0.0,
        causal: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
        batch_first: bool = False,
        sequence_len: int = 2048,
    ):
        options: Placed = {"device": device, "dtype": dtype}
        self.batch_first = batch_first
        self.positions = Embedding(sequence_len, embedding_size, **options)
        self.layers = [
            TransformerLayer(
                embedding_size,
                num_head,
                dim_head,
                hidden_size,
                dropout=dropout,
                causal=causal,
                **options,
            )
            for _ in range(num_layers)
        ]

    def forward(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if not self.batch_first:
            x = x.transpose((0, 1))  # (B, T, E)
        time = x.shape[1]
        if time > self.positions.num_embeddings:
            raise ValueError(
                f"[Transformer] expected at most {self.positions.num_embeddings} time steps "
                f"(sequence_len), got {time}."
            )
        steps = init.arange(time, device=x.device, dtype="int64")
        x = x + self.positions(steps)
        for layer in self.layers:
            x = layer(x)
        if not self.batch_first:
            x = x.transpose((0, 1))
        return x, init.zeros_like(x)
