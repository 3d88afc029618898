"""Sequences of different lengths: packed (those of a step side by side) and padded."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from .... import torch

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Packed):
    """data (Σ lengths, ...), and how many sequences each step has; how they were sorted."""

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> PackedSequence:  # fmt: skip
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move and cast the data."""
        return self._replace(data=self.data.to(*args, **kwargs))

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """`to("cuda")`"""
        return self._replace(data=self.data.cuda(*args, **kwargs))

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """`to("cpu")`"""
        return self

    def double(self) -> PackedSequence:
        """Data as float64."""
        return self.to(torch.float64)

    def float(self) -> PackedSequence:
        """Data as float32."""
        return self.to(torch.float32)

    @property
    def is_cuda(self) -> bool:
        """Is the data on a GPU?"""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """Is the data in pinned memory?"""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Where each item went."""
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """(T, B, ...) without what lies beyond each sequence's length."""
    if not isinstance(lengths, torch.Tensor):
        lengths = torch.as_tensor(lengths, dtype=torch.int64)
    order = None
    if not enforce_sorted:
        lengths, order = torch.sort(lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    counts = lengths.tolist()
    if any(a < b for a, b in itertools.pairwise(counts)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    x = input.transpose(0, 1) if batch_first else input
    if len(counts) != x.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} (batch_size="
            f"{x.shape[1]})"
        )
    if counts[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    sizes = [sum(n > t for n in counts) for t in range(counts[0])]
    data, start = [], 0
    while start < len(sizes):  # steps of as many sequences at a time
        end = start
        while end < len(sizes) and sizes[end] == sizes[start]:
            end += 1
        part = x[start:end, : sizes[start]]
        data.append(part.reshape(-1, *part.shape[2:]))
        start = end
    return PackedSequence(torch.cat(data), torch.tensor(sizes), order, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(T, B, ...) with padding_value beyond each sequence's length, and the lengths."""
    sizes = sequence.batch_sizes.tolist()
    if total_length is not None and total_length < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but "
            f"got total_length={total_length} and max sequence length being {len(sizes)}"
        )
    lengths = torch.tensor([sum(n > b for n in sizes) for b in range(sizes[0])])
    steps, start = [], 0
    for size in sizes:
        step = sequence.data[start : start + size]
        start += size
        if size < sizes[0]:
            rest = (sizes[0] - size, *step.shape[1:])
            step = torch.cat([step, torch.full(rest, padding_value, dtype=step.dtype)])
        steps.append(step)
    for _ in range((total_length or 0) - len(sizes)):
        steps.append(torch.full_like(steps[0].detach(), padding_value))
    padded = torch.stack(steps, 1 if batch_first else 0)
    back = sequence.unsorted_indices
    if back is not None:
        return padded.index_select(0 if batch_first else 1, back), lengths[back]
    return padded, lengths


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:  # fmt: skip
    """Tensors (L, ...) filled up to the longest: (L, B, ...), or (B, L, ...) with batch_first."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side must be one of 'left' or 'right', got {padding_side!r}")
    parts = list(sequences)
    longest = max(len(x) for x in parts)
    filled = []
    for x in parts:
        rest = torch.full((longest - len(x), *x.shape[1:]), padding_value, dtype=x.dtype)
        pair = [x, rest] if padding_side == "right" else [rest, x]
        filled.append(torch.cat(pair) if len(rest) else x)
    return torch.stack(filled, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The tensors that were padded."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(x, lengths, strict=True)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Tensors (L, ...) packed."""
    lengths = torch.as_tensor([len(x) for x in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The tensors that were packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
