"""`torch.onnx`: may be imported; what writes a file says where needle has it."""

from __future__ import annotations

__all__ = ["export"]


def export(*args: object, **options: object) -> None:
    """Missing: needle writes its own format."""
    raise NotImplementedError("[torch.onnx.export] is missing; use needle.export.")
