"""Linear maps, tables of vectors, distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import torch

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "bilinear", "cosine_similarity", "embedding", "embedding_bag", "linear", "normalize",
    "one_hot", "pairwise_distance", "pdist",
]  # fmt: skip


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b with W (out, in)"""
    if input.shape[-1:] != weight.shape[-1:]:
        raise RuntimeError(
            f"[linear] expected the last dimension of the input to be {weight.shape[-1]}, got "
            f"{tuple(input.shape)} with weight {tuple(weight.shape)} (out, in)."
        )
    y = input @ (weight.t() if weight.ndim > 1 else weight)
    return y if bias is None else y + bias


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y_o = x1ᵀ W_o x2 + b_o with W (out, in1, in2)"""
    y = torch.einsum("...i,oij,...j->...o", input1, weight, input2)
    return y if bias is None else y + bias


def _limit(weight: Tensor, ids: Tensor, max_norm: float, norm_type: float) -> None:
    """Rows that are used get a norm of max_norm at most, in place."""
    with torch.no_grad():
        rows = ids.reshape(-1).unique()
        used = weight[rows]
        norms = used.norm(norm_type, -1, keepdim=True)
        weight[rows] = torch.where(norms > max_norm, used * (max_norm / (norms + 1e-7)), used)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight (V, E) for ids of any shape; row padding_idx gets no gradient.

    The gradient is dense; it holds the same numbers with sparse."""
    if padding_idx is not None:
        if not -len(weight) <= padding_idx < len(weight):
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= len(weight)
    if max_norm is not None:
        _limit(weight, input, max_norm, norm_type)
    if input.dtype not in (torch.int64, torch.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {input.dtype} instead (while checking arguments for embedding)"
        )
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    rows = torch.index_select(weight, 0, input.reshape(-1)).reshape((*input.shape, weight.shape[1]))
    if padding_idx is not None:
        rows = torch.where((input == padding_idx).unsqueeze(-1), rows.detach(), rows)
    if scale_grad_by_freq and rows.requires_grad:
        counts = torch.bincount(input.reshape(-1), minlength=len(weight))[input].unsqueeze(-1)
        rows.register_hook(lambda grad: grad / counts)
    return rows


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of weight, for bags of ids: (B, N), or flat with offsets."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None")
        bags, width = input.shape
        bag = torch.arange(bags).repeat_interleave(width)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    else:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        starts = offsets.tolist()
        ends = starts[1:] if include_last_offset else [*starts[1:], len(input)]
        bags = len(ends)
        counts = [end - start for start, end in zip(starts, ends, strict=False)]
        bag = torch.arange(bags).repeat_interleave(torch.tensor(counts, dtype=torch.int64))
    rows = embedding(input, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    return _bagged(rows, input, bag, bags, mode, per_sample_weights, padding_idx)


def _bagged(
    rows: Tensor, ids: Tensor, bag: Tensor, bags: int, mode: str, shares: Tensor | None,
    padding_idx: int | None,
) -> Tensor:  # fmt: skip
    if padding_idx is not None:
        kept = (ids != padding_idx).nonzero().reshape(-1)
        rows, bag = rows[kept], bag[kept]
        shares = None if shares is None else shares[kept]
    if mode == "max":
        index = bag.unsqueeze(-1).expand(rows.shape)
        empty = torch.zeros((bags, rows.shape[1]), dtype=rows.dtype)
        return empty.scatter_reduce(0, index, rows, "amax", include_self=False)
    if shares is not None:
        rows = rows * shares.unsqueeze(-1)
    total = torch.zeros((bags, rows.shape[1]), dtype=rows.dtype).index_add(0, bag, rows)
    if mode == "sum":
        return total
    counts = torch.bincount(bag, minlength=bags).clamp(min=1).unsqueeze(-1)
    return total / counts


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at the ids and 0 elsewhere on a new last axis, int64."""
    if tensor.dtype != torch.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return torch.zeros((*tensor.shape, num_classes), dtype=torch.int64)
    if int(tensor.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = int(tensor.max())
    if num_classes == -1:
        num_classes = largest + 1
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    classes = torch.arange(num_classes, device=tensor.device)
    return (tensor.unsqueeze(-1) == classes).to(torch.int64)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x divided by its p-norm along dim, but by eps at least"""
    lengths = input.norm(p, dim, keepdim=True).clamp_min(eps)
    return torch.div(input, lengths.expand_as(input), out=out)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1·x2 / (|x1| |x2|) along dim, each length at least eps"""
    x1, x2 = torch.broadcast_tensors(x1, x2)
    lengths = [torch.norm(x, 2, dim, True).clamp(min=eps) for x in (x1, x2)]
    return ((x1 / lengths[0]) * (x2 / lengths[1])).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """|x1 - x2 + eps| in the p-norm, of the last axis"""
    return torch.norm(x1 - x2 + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows, those of the first row first."""
    rows, columns = torch.triu_indices(len(input), len(input), 1)
    return torch.norm(input[rows] - input[columns], p, -1)
