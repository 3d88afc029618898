"""The course's NumPy backend: tensors hold plain NumPy arrays (NEEDLE_BACKEND=np)."""

from ..backend import (
    BackendDevice as Device,
    cpu as cpu,
    default_device as default_device,
)

__all__ = ["Device", "all_devices", "cpu", "default_device"]


def all_devices() -> list[Device]:
    """The CPU: NumPy arrays live nowhere else."""
    return [cpu()]
