"""Sequences of different lengths in one tensor."""

from __future__ import annotations

from collections.abc import Sequence

from ...autograd import Tensor
from ...dtype import dtype_of
from ...ops.shape.concat import stack
from ...ops.shape.pad import pad


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Tensors (Lᵢ, ...) filled up to the longest: (L, B, ...), or (B, L, ...) with batch_first."""
    if padding_side not in ("left", "right"):
        raise ValueError(
            f"[pad_sequence] padding_side must be 'left' or 'right', got {padding_side!r}."
        )
    if not len(sequences) or any(x.shape[1:] != sequences[0].shape[1:] for x in sequences):
        shapes = [x.shape for x in sequences]
        raise ValueError(f"[pad_sequence] expected tensors (L, ...) that fit, got {shapes}.")
    longest = max(x.shape[0] for x in sequences)

    def filled(x: Tensor) -> Tensor:
        missing = longest - x.shape[0]
        first = (0, missing) if padding_side == "right" else (missing, 0)
        value = padding_value if dtype_of(x.dtype).is_floating else int(padding_value)
        return pad(x, (first, *((0, 0) for _ in x.shape[1:])), value=value)

    return stack([filled(x) for x in sequences], 0 if batch_first else 1)
