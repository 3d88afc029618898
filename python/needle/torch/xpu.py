"""`torch.xpu`: not here."""

from __future__ import annotations

from .accelerator import is_available as is_available, synchronize as synchronize
from .cuda import device_count as device_count, empty_cache as empty_cache


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator but the CPU's."""
