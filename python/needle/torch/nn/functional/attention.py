"""Attention: one fused operator, or with the matrix of scores where its weights are asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .... import torch
from ....ops.network.attention import attention
from .dropping import dropout
from .linear import linear

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q kᵀ scale + mask) v: q (..., T, D), k (..., S, D), v (..., S, E)."""
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError("scaled_dot_product_attention expects at least 2-d query, key and value")
    if query.dtype != key.dtype or query.dtype != value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        )
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True"
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            "[scaled_dot_product_attention] expected query (..., T, D), key (..., S, D) and value "
            f"(..., S, E), got {list(query.shape)}, {list(key.shape)} and {list(value.shape)}."
        )
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    if dropout_p == 0:
        return attention(  # type: ignore[return-value]
            query, key, value, attn_mask, scale, is_causal
        )
    probs = _probabilities(query, key, attn_mask, scale, is_causal)
    return dropout(probs, dropout_p) @ value


def _probabilities(q: Tensor, k: Tensor, mask: Tensor | None, scale: float, causal: bool) -> Tensor:
    scores = q @ k.transpose(-2, -1) * scale
    if causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, float("-inf"))
        # A query that sees nothing gets 0, not NaN.
        return torch.where(mask.any(-1, keepdim=True), scores.softmax(-1), 0.0)
    return (scores if mask is None else scores + mask).softmax(-1)


def canonical_mask(mask: Tensor | None, name: str, dtype: torch.dtype) -> Tensor | None:
    """A mask as numbers to add: True (not seen) becomes -inf."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype != torch.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(
        mask, float("-inf")
    )


def _projected(
    q: Tensor, k: Tensor, v: Tensor, width: int, in_proj: Tensor | None, bias: Tensor | None,
    separate: tuple[Tensor, Tensor, Tensor] | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Queries, keys and values by their maps; one product where they are of one input."""
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    if separate is not None:
        weights = separate
    elif in_proj is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    elif q is k and k is v:
        return linear(q, in_proj, bias).chunk(3, -1)  # type: ignore[return-value]
    else:
        weights = in_proj.chunk(3)  # type: ignore[assignment]
    found = zip((q, k, v), weights, biases, strict=True)
    return tuple(linear(x, w, b) for x, w, b in found)  # type: ignore[return-value]


def _check_masks(
    key: Tensor, target: int, source: int, heads: int, batch: int, padding: Tensor | None,
    mask: Tensor | None,
) -> Tensor | None:  # fmt: skip
    if padding is not None and tuple(padding.shape) != (batch, source):
        raise AssertionError(
            f"expecting key_padding_mask shape of {(batch, source)}, but got {padding.shape}"
        )
    if mask is None:
        return None
    wanted = (target, source) if mask.ndim == 2 else (batch * heads, target, source)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(
            f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {wanted}."
        )
    return mask.unsqueeze(0) if mask.ndim == 2 else mask


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of heads: query (T, B, E), key and value (S, B, E) -> (T, B, E), weights (B, T, S).

    Without a batch axis, (T, E)."""
    is_batched = query.ndim == 3
    if not is_batched:
        same = query is key and key is value
        query = query.unsqueeze(1)
        key, value = (query, query) if same else (key.unsqueeze(1), value.unsqueeze(1))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    target, batch, embed = query.shape
    if embed != embed_dim_to_check:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed}"
        )
    if embed % num_heads:
        raise AssertionError(f"embed_dim {embed} not divisible by num_heads {num_heads}")
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    key_padding_mask = canonical_mask(key_padding_mask, "key_padding_mask", query.dtype)
    causal = is_causal and key_padding_mask is None and not need_weights
    attn_mask = None if causal else canonical_mask(attn_mask, "attn_mask", query.dtype)
    separate = None
    if use_separate_proj_weight:
        separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    q, k, v = _projected(
        query,
        key,
        value,
        embed,
        in_proj_weight,
        in_proj_bias,
        separate,  # type: ignore[arg-type]
    )
    attn_mask = _check_masks(key, target, len(k), num_heads, batch, key_padding_mask, attn_mask)
    if bias_k is not None and bias_v is not None:
        k = torch.cat([k, bias_k.expand(1, batch, k.shape[-1])])
        v = torch.cat([v, bias_v.expand(1, batch, v.shape[-1])])
        attn_mask, key_padding_mask = _wider(attn_mask), _wider(key_padding_mask)
    width = embed // num_heads

    def heads(x: Tensor, static: Tensor | None) -> Tensor:  # (T, B, E) -> (B, H, T, D)
        if static is not None:
            return static.reshape(batch, num_heads, static.shape[1], width)
        return x.reshape(len(x), batch, num_heads, width).permute(1, 2, 0, 3)

    q, k, v = heads(q, None), heads(k, static_k), heads(v, static_v)
    if add_zero_attn:
        zeros = torch.zeros((batch, num_heads, 1, width), dtype=k.dtype, device=k.device)
        k, v = torch.cat([k, zeros], 2), torch.cat([v, zeros], 2)
        attn_mask, key_padding_mask = _wider(attn_mask), _wider(key_padding_mask)
    mask = attn_mask
    if mask is not None:  # (B H or 1, T, S) -> (B or 1, H or 1, T, S)
        split = (1, 1) if mask.shape[0] == 1 else (batch, num_heads)
        mask = mask.reshape(*split, *mask.shape[1:])
    if key_padding_mask is not None:
        padding = key_padding_mask.reshape(batch, 1, 1, -1)
        mask = padding if mask is None else mask + padding
    p = dropout_p if training else 0.0
    probs = None
    if need_weights:
        probs = _probabilities(q, k, mask, 1 / math.sqrt(width), False)
        probs = dropout(probs, p) if p > 0 else probs
        out = probs @ v
    else:
        out = scaled_dot_product_attention(q, k, v, mask, p, causal)
    out = out.permute(2, 0, 1, 3).reshape(target, batch, embed)
    out = linear(out, out_proj_weight, out_proj_bias)
    if probs is not None and average_attn_weights:
        probs = probs.mean(1)
    if not is_batched:
        return out.squeeze(1), None if probs is None else probs.squeeze(0)
    return out, probs


def _wider(mask: Tensor | None) -> Tensor | None:
    """One more key, which is seen."""
    return None if mask is None else torch.nn.functional.pad(mask, (0, 1))
