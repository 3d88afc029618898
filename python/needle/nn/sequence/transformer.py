"""Transformers with PyTorch's names and options (the course's are in attention.py).

B = batch, T = time of queries, S = of keys, E = embedding size, H = heads, D = E / H. Weights are
(in, out), as in Linear.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import init
from ...autograd import Tensor
from ...dtype import dtype_of
from ...ops import add, chunk, concatenate, logical_not, logical_or, where
from ...ops.network.attention import attention_by_definition
from .. import functional as F
from ..dropout import Dropout
from ..functional.attention import attend, check_mask
from ..linear import Linear
from ..module import DEEP_ROW, IN_OUT, Module, Parameter, layouts
from ..norm import LayerNorm

if TYPE_CHECKING:
    from ...types import DeviceLike, DTypeLike, Placed, TensorLike

__all__ = [
    "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer",
    "TransformerEncoder", "TransformerDecoder", "RotaryEmbedding",
]  # fmt: skip

Activation = str | Callable[[Tensor], Tensor]


class MultiheadAttention(Module):
    """Project to heads, attend, project back: (T, B, E), (S, B, kdim), (S, B, vdim) -> (T, B, E).

    With batch_first the batch comes first; without a batch, inputs are (T, E). In masks True means
    that a key is *not* seen, and numbers are added to the scores (PyTorch's rule here)."""

    _layouts = layouts(
        in_proj_weight=IN_OUT, q_proj_weight=IN_OUT, k_proj_weight=IN_OUT, v_proj_weight=IN_OUT,
        bias_k=DEEP_ROW, bias_v=DEEP_ROW,
    )  # fmt: skip

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(
                "[MultiheadAttention] expected embed_dim to divide into num_heads, got "
                f"{embed_dim} and {num_heads}."
            )
        options: Placed = {"device": device, "dtype": dtype}
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.add_zero_attn = add_zero_attn
        self.batch_first = batch_first
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = Parameter(
                init.xavier_uniform(embed_dim, 3 * embed_dim, **options)
            )
        else:
            self.q_proj_weight = Parameter(init.xavier_uniform(embed_dim, embed_dim, **options))
            self.k_proj_weight = Parameter(init.xavier_uniform(self.kdim, embed_dim, **options))
            self.v_proj_weight = Parameter(init.xavier_uniform(self.vdim, embed_dim, **options))
        self.in_proj_bias = Parameter(init.zeros(3 * embed_dim, **options)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, **options)
        if self.out_proj.bias is not None:
            self.out_proj.bias.data = init.zeros_like(self.out_proj.bias)
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            self.bias_k = Parameter(init.xavier_normal(1, embed_dim, **options))
            self.bias_v = Parameter(init.xavier_normal(1, embed_dim, **options))

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """q, k, v (B, T or S, E)"""
        if hasattr(self, "in_proj_weight"):
            if query is key is value:
                joint = query @ self.in_proj_weight
                joint = joint if self.in_proj_bias is None else joint + self.in_proj_bias
                return chunk(joint, 3, -1)
            weights = chunk(self.in_proj_weight, 3, -1)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        projected = [x @ w for x, w in zip((query, key, value), weights, strict=True)]
        if self.in_proj_bias is not None:
            biases = chunk(self.in_proj_bias, 3, -1)
            projected = [x + b for x, b in zip(projected, biases, strict=True)]
        return tuple(projected)

    def _extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values with a learned one and one of zeros behind, where they are wanted."""
        row = (k.shape[0], 1, self.embed_dim)
        if self.bias_k is not None and self.bias_v is not None:
            k = concatenate([k, self.bias_k.broadcast_to(row)], 1)
            v = concatenate([v, self.bias_v.broadcast_to(row)], 1)
        if self.add_zero_attn:
            zeros = init.zeros(*row, device=k.device, dtype=k.dtype)
            k, v = concatenate([k, zeros], 1), concatenate([v, zeros], 1)
        return k, v

    def _heads(self, x: Tensor) -> Tensor:
        """(B, T, E) -> (B, H, T, D)"""
        batch, time, _ = x.shape
        shape = (batch, time, self.num_heads, self.embed_dim // self.num_heads)
        return x.reshape(shape).transpose((1, 2))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        self._check(query, key, value)
        unbatched = query.ndim == 2
        arranged = _batch_first([query, key, value], unbatched, self.batch_first)
        q, k, v = self._project(*arranged)
        keys = k.shape[1]
        k, v = self._extended(k, v)
        extra = k.shape[1] - keys
        hides_later, is_causal = is_causal and extra > 0, is_causal and not extra
        mask = self._mask(attn_mask, key_padding_mask, hides_later, unbatched, q, keys, extra)
        q, k, v = (self._heads(x) for x in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scale = 1 / math.sqrt(q.shape[-1])
            _, _, probs = attention_by_definition(q, k, v, mask, scale=scale, causal=is_causal)
            probs = F.dropout(probs, dropout)  # (B, H, T, S)
            out, weights = probs @ v, probs.mean(1) if average_attn_weights else probs
        else:
            out = attend(q, k, v, mask, dropout, is_causal)
        batch, _, time, _ = out.shape
        out = self.out_proj(out.transpose((1, 2)).reshape((batch, time, self.embed_dim)))
        if unbatched:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return (out if self.batch_first else out.transpose((0, 1))), weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        dims = (self.embed_dim, self.kdim, self.vdim)
        given = [(x.ndim, x.shape[-1]) for x in (query, key, value)]
        if query.ndim not in (2, 3) or given != [(query.ndim, size) for size in dims]:
            raise ValueError(
                "[MultiheadAttention] expected query, key and value with 3 axes (2 without a "
                f"batch) and {dims} features, got {query.shape}, {key.shape} and {value.shape}."
            )
        batch = 0 if self.batch_first else 1
        batches = {x.shape[batch] for x in (query, key, value) if x.ndim == 3}
        if len(batches) > 1 or key.shape[:-1] != value.shape[:-1]:
            raise ValueError(
                f"[MultiheadAttention] expected one batch size (axis {batch}; batch_first decides) "
                f"and as many keys as values, got {query.shape}, {key.shape} and {value.shape}."
            )

    def _mask(
        self,
        attn_mask: Tensor | None,
        padding: Tensor | None,
        hides_later: bool,
        unbatched: bool,
        q: Tensor,
        keys: int,
        extra: int,
    ) -> Tensor | None:
        """All masks as one for attention, (B, H, T, S): True where a key is seen, or numbers."""
        batch, time, _ = q.shape
        masks = []
        if attn_mask is not None:
            per_head = (batch * self.num_heads, time, keys)
            check_mask("MultiheadAttention", "attn_mask", attn_mask, (time, keys), per_head)
            if attn_mask.ndim == 3:
                attn_mask = attn_mask.reshape((batch, self.num_heads, time, keys))
            masks.append(attn_mask)
        if padding is not None:
            shape = (keys,) if unbatched else (batch, keys)
            check_mask("MultiheadAttention", "key_padding_mask", padding, shape)
            masks.append(padding.reshape((batch, 1, 1, keys)))
        if hides_later:
            masks.append(init.ones(time, keys, device=q.device, dtype="bool").triu(1))
        if extra:  # what is behind the keys is always seen
            masks = [m.pad([*((0, 0),) * (m.ndim - 1), (0, extra)]) for m in masks]
        if not masks:
            return None
        if all(m.dtype == "bool" for m in masks):
            return logical_not(reduce(logical_or, masks))
        hidden = [
            where(m, -math.inf, 0.0).astype(q.dtype) if m.dtype == "bool" else m for m in masks
        ]
        return reduce(add, hidden)

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, {self.num_heads}, dropout={self.dropout}"


def _batch_first(inputs: list[Tensor], unbatched: bool, already: bool) -> list[Tensor]:
    """(T, E) or (T, B, E) as (B, T, E); one tensor given twice stays one."""
    if already and not unbatched:
        return inputs
    turned: dict[int, Tensor] = {}
    for x in inputs:
        turned[id(x)] = x.expand_dims(0) if unbatched else x.transpose((0, 1))
    return [turned[id(x)] for x in inputs]


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        raise ValueError(
            f"[Transformer] activation must be 'relu', 'gelu' or a function, got {activation!r}."
        )
    return F.relu if activation == "relu" else F.gelu


class _TransformerBlock(Module):
    """What encoder and decoder layers share: the two linear maps with an activation between, and
    how steps follow each other."""

    norm_first: bool

    def _add_feed_forward(
        self,
        d_model: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        bias: bool,
        options: Placed,
    ) -> None:
        self.linear1 = Linear(d_model, dim_feedforward, bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **options)
        self.activation = _activation(activation)

    def _feed_forward(self, x: Tensor) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _in_turn(self, x: Tensor, *steps: tuple[Module, Callable[[Tensor], Any]]) -> Tensor:
        """Each step added to its input, which is normalised after that, or (norm_first) before the
        step."""
        for norm, step in steps:
            x = x + step(norm(x)) if self.norm_first else norm(x + step(x))
        return x


class TransformerEncoderLayer(_TransformerBlock):
    """x + attention(x), then x + feed-forward(x); normalised after each, or (norm_first) before."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        options: Placed = {"device": device, "dtype": dtype}
        self.norm_first = norm_first
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **options
        )
        self._add_feed_forward(d_model, dim_feedforward, dropout, activation, bias, options)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def to_itself(x: Tensor) -> Any:
            out, _ = self.self_attn(
                x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal
            )
            return self.dropout1(out)

        def feed_forward(x: Tensor) -> Any:
            return self.dropout2(self._feed_forward(x))

        return self._in_turn(src, (self.norm1, to_itself), (self.norm2, feed_forward))


class TransformerDecoderLayer(_TransformerBlock):
    """An encoder layer that also attends to the memory, between its two steps."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        options: Placed = {"device": device, "dtype": dtype}
        self.norm_first = norm_first
        self.self_attn, self.multihead_attn = (
            MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **options)
            for _ in range(2)
        )
        self._add_feed_forward(d_model, dim_feedforward, dropout, activation, bias, options)
        self.norm1, self.norm2, self.norm3 = (
            LayerNorm(d_model, layer_norm_eps, bias=bias, **options) for _ in range(3)
        )
        self.dropout1, self.dropout2, self.dropout3 = (Dropout(dropout) for _ in range(3))

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def to_itself(x: Tensor) -> Any:
            out, _ = self.self_attn(
                x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal
            )
            return self.dropout1(out)

        def to_memory(x: Tensor) -> Any:
            mask, padding = memory_mask, memory_key_padding_mask
            out, _ = self.multihead_attn(
                x, memory, memory, padding, False, mask, is_causal=memory_is_causal
            )
            return self.dropout2(out)

        def feed_forward(x: Tensor) -> Any:
            return self.dropout3(self._feed_forward(x))

        steps = ((self.norm1, to_itself), (self.norm2, to_memory), (self.norm3, feed_forward))
        return self._in_turn(tgt, *steps)


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other, and a norm at the end if one is given.

    enable_nested_tensor and mask_check are for PyTorch's scripts, and change nothing."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ):
        self.layers = [copy.deepcopy(encoder_layer) for _ in range(num_layers)]
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = src
        for layer in self.layers:
            x = layer(x, mask, src_key_padding_mask, is_causal)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other, and a norm at the end if one is given."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        self.layers = [copy.deepcopy(decoder_layer) for _ in range(num_layers)]
        self.norm = norm

    def forward(
        self, tgt: Tensor, memory: Tensor, *masks: Tensor | None, **options: Tensor | bool | None
    ) -> Tensor:
        """The masks are those of TransformerDecoderLayer, in its order or by name."""
        x = tgt
        for layer in self.layers:
            x = layer(x, memory, *masks, **options)
        return x if self.norm is None else self.norm(x)


class RotaryEmbedding(Module):
    """Positions as rotations of pairs of features (Su et al., 2021): (..., T, dim) -> the same.

    Pair i turns by position / base^(2i / dim). A product of query and key then depends on the
    distance of their positions only. Apply it to both."""

    def __init__(self, dim: int, base: float = 10000.0, interleaved: bool = False):
        if dim % 2:
            raise ValueError(f"[RotaryEmbedding] expected an even number of features, got {dim}.")
        self.dim = dim
        self.base = base
        self.interleaved = interleaved

    def angles(self, positions: TensorLike, like: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin (T, dim/2) for positions (T,), computed in float64."""
        frequencies = self.base ** (-np.arange(0, self.dim, 2) / self.dim)
        turned = np.asarray(positions, np.float64)[..., None] * frequencies
        dtype = dtype_of(like.dtype)
        cos, sin = (init.tensor(f(turned), dtype, like.device) for f in (np.cos, np.sin))
        return cos, sin

    def forward(self, x: Tensor, offset: int = 0, positions: Tensor | None = None) -> Tensor:
        """Positions offset, offset + 1, ... along axis -2, or those that are given."""
        if positions is None:
            steps: Any = np.arange(offset, offset + x.shape[-2])
        else:
            steps = positions.numpy()
        return F.apply_rotary(x, *self.angles(steps, x), interleaved=self.interleaved)

    def extra_repr(self) -> str:
        return f"{self.dim}, base={self.base}"
