"""`torch.accelerator`: there is none."""

from __future__ import annotations

from .cuda import device_count as device_count, empty_cache as empty_cache


def is_available() -> bool:
    """Is there one? No."""
    return False


def current_accelerator(check_available: bool = False) -> None:
    """None"""


def synchronize(device: object = None) -> None:
    """Nothing to wait for."""
