"""How float32 matrix products may be computed, by PyTorch's names.

Only machines with AMX make a difference: their tiles multiply bfloat16, and a float32 is a sum of
three of these (docs/design.md). Elsewhere every product is computed in float32.
"""

from .native import kernels

__all__ = ["PRECISIONS", "get_float32_matmul_precision", "set_float32_matmul_precision"]

PRECISIONS = ("highest", "high", "medium")  # the error of float32; of 16 bits; of bfloat16


def get_float32_matmul_precision() -> str:
    """The precision in use: "highest" unless it was set."""
    return PRECISIONS[kernels.get_matmul_precision()]


def set_float32_matmul_precision(precision: str) -> None:
    """Sets it for all threads: "highest" (float32's error), "high" (16 bits) or "medium" (8)."""
    if precision not in PRECISIONS:
        raise ValueError(
            "[set_float32_matmul_precision] expected 'highest', 'high' or 'medium', "
            f"got {precision!r}."
        )
    kernels.set_matmul_precision(PRECISIONS.index(precision))
