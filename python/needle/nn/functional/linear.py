"""Linear maps, tables of vectors, and dropout."""

from __future__ import annotations

from collections.abc import Sequence

from ... import init
from ...autograd import Tensor
from ...backend.protocol import Outside
from ...ndarray.index.errors import rewrite_index_error, wrong_id
from ...ops import where
from ...ops.index.indexing import FromZero, ids_of
from ...ops.network.dropout import drop
from ..module import IN_OUT

__all__ = ["linear", "embedding", "one_hot", "dropout"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b with W (out, in), as in PyTorch: (..., in) -> (..., out). (nn.Linear keeps Wᵀ.)"""
    if getattr(weight, "layout", None) == IN_OUT:
        raise ValueError(
            "[linear] expected a weight (out, in), got that of an nn.Linear, (in, out) "
            f"{weight.shape}; give weight.T, or use x @ weight."
        )
    if input.shape[-1:] != weight.shape[-1:]:
        raise ValueError(
            f"[linear] expected the last dimension of the input to be {weight.shape[-1]}, got "
            f"{input.shape} with weight {weight.shape} (out, in)."
        )
    y = input @ (weight.transpose() if weight.ndim > 1 else weight)
    return y if bias is None else y + bias


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of weight (V, E) for ids of any shape; row padding_idx gets no gradient."""
    if weight.ndim != 2:
        raise ValueError(
            f"[embedding] expected ids and a weight (rows, width), got {input.shape} and "
            f"{weight.shape}; are they in another order?"
        )
    ids = ids_of(input)
    count = weight.shape[0]

    def words(_: str, outside: Outside) -> str:
        return (
            f"[embedding] expected ids from 0 to {count - 1}, got {wrong_id(outside)}; "
            "give num_embeddings the size of the vocabulary."
        )

    with rewrite_index_error(words):
        rows = weight[FromZero()(ids)]
    if padding_idx is None:
        return rows
    check_padding("embedding", padding_idx, count)
    padded = ids.eq(padding_idx % count).expand_dims(-1)
    return where(padded, rows.detach(), rows)


def check_padding(op: str, padding_idx: int, count: int) -> None:
    """It is a row of the table, counted from either end."""
    if not -count <= padding_idx < count:
        raise ValueError(
            f"[{op}] expected padding_idx from {-count} to {count - 1}, got {padding_idx}."
        )


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at the ids and 0 elsewhere on a new last axis, int64; by default up to the largest id."""
    if num_classes == -1:
        num_classes = int(tensor.max().item()) + 1
    ids = ids_of(tensor)
    places = FromZero()(ids)

    def words(_: str, outside: Outside) -> str:
        return f"[one_hot] expected ids from 0 to {num_classes - 1}, got {wrong_id(outside)}."

    with rewrite_index_error(words):
        return init.one_hot(num_classes, places, device=tensor.device, dtype="int64")


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *,
    mask_shape: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Each element is zero with probability p, else x / (1 - p); x itself when not training.

    One number is drawn for each element of mask_shape (by default x's shape), which broadcasts."""
    if not 0 <= p <= 1:
        raise ValueError(f"[dropout] expected a probability between 0 and 1, got p={p}.")
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0
    shape = input.shape if mask_shape is None else mask_shape
    return drop(input, init.randb(*shape, p=1 - p, device=input.device), 1 - p)
