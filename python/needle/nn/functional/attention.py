"""Attention, and rotating positions into queries and keys."""

from __future__ import annotations

import math

from ...autograd import Tensor
from ...dtype import dtype_of
from ...ops import concatenate, stack
from ...ops.network.attention import attention, attention_by_definition
from .linear import dropout

__all__ = ["scaled_dot_product_attention", "apply_rotary"]


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
    """softmax(q kᵀ scale + mask) v: q (..., H, T, D), k (..., H, S, D), v (..., H, S, E).

    attn_mask broadcasts to (..., T, S): bool (True: this key is seen), or numbers to add. is_causal
    lets query i see the keys up to i. scale is 1/√D by default. With enable_gqa, groups of query
    heads share one key and value head. The matrix of scores is never made, unless there is dropout,
    which draws one number for each of its elements."""
    if attn_mask is not None and is_causal:
        raise ValueError(
            "[scaled_dot_product_attention] expected attn_mask or is_causal, got both; leave one "
            "away, or put the causal mask into attn_mask."
        )
    return attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The same where a key must be seen by both the mask and the causal rule."""
    _check(query, key, value, enable_gqa)
    if attn_mask is not None:
        _check_sizes(attn_mask, (query.shape[-2], key.shape[-2]))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    shape = (*query.shape[:-1], value.shape[-1])
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        groups = (key.shape[-3], query.shape[-3] // key.shape[-3])
        query = query.reshape((*query.shape[:-3], *groups, *query.shape[-2:]))
        key, value = key.expand_dims(-3), value.expand_dims(-3)
        attn_mask = None if attn_mask is None else _grouped(attn_mask, groups)
    if dropout_p > 0:
        _, _, probs = attention_by_definition(
            query, key, value, attn_mask, scale=scale, causal=is_causal
        )
        out = dropout(probs, dropout_p) @ value
    else:
        out = attention(query, key, value, attn_mask, scale, is_causal)
    return out.reshape(shape) if enable_gqa else out


def _grouped(mask: Tensor, groups: tuple[int, int]) -> Tensor:
    """(..., H, T, S) -> (..., heads of keys, their queries, T, S); one for all heads stays so."""
    if mask.ndim < 3:
        return mask
    *front, heads, queries, keys = mask.shape
    return mask.reshape((*front, *(groups if heads > 1 else (1, 1)), queries, keys))


def _check(q: Tensor, k: Tensor, v: Tensor, grouped: bool) -> None:
    op = "scaled_dot_product_attention"
    shapes = f"{q.shape}, {k.shape} and {v.shape}"
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"[{op}] expected query (..., T, D), key (..., S, D) and value (..., S, E), got "
            f"{shapes}."
        )
    if not grouped:
        return
    if min(q.ndim, k.ndim, v.ndim) < 3 or k.shape[-3] != v.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(
            f"[{op}] expected a number of query heads (axis -3) that key and value heads divide, "
            f"got {shapes}."
        )


def _check_sizes(mask: Tensor, sizes: tuple[int, int]) -> None:
    op = "scaled_dot_product_attention"
    fits = zip(mask.shape[::-1], sizes[::-1], strict=False)
    if any(n not in (1, size) for n, size in fits):
        raise ValueError(
            f"[{op}] expected a mask (..., {sizes[0]}, {sizes[1]}) for {sizes[0]} queries and "
            f"{sizes[1]} keys, got {mask.shape}."
        )
    check_mask(op, "a mask", mask, mask.shape)


def check_mask(op: str, name: str, mask: Tensor, *shapes: tuple[int, ...]) -> None:
    """A mask has one of these shapes, and says for certain what it means: 0 and 1 do not."""
    if mask.shape not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"[{op}] expected {name} of shape {expected}, got {mask.shape}.")
    if dtype_of(mask.dtype).is_integer:
        raise ValueError(
            f"[{op}] expected {name} of truth values or floats, got {mask.dtype}; use mask.bool()."
        )


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Pairs of features (a, b) turned by an angle: (a cos - b sin, b cos + a sin).

    x (..., T, D), cos and sin (T, D/2). Feature i is paired with i + D/2, or with its neighbour
    (interleaved)."""
    if x.shape[-1] != 2 * cos.shape[-1]:
        raise ValueError(
            f"[apply_rotary] expected {2 * cos.shape[-1]} features for angles {cos.shape}, got "
            f"{x.shape}."
        )
    half = x.shape[-1] // 2
    if interleaved:
        pairs = x.reshape((*x.shape[:-1], half, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        return stack([a * cos - b * sin, b * cos + a * sin], x.ndim).reshape(x.shape)
    a, b = x[..., :half], x[..., half:]
    return concatenate([a * cos - b * sin, b * cos + a * sin], -1)
