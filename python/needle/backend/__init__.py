"""Buffers and kernels: what a device must do (protocol.py) and the devices that do it.

Stands on: config, dtype.
"""

from .device import (
    BackendDevice,
    all_devices,
    cpu,
    cpu_numpy,
    cuda,
    default_device,
    device_named,
)

__all__ = [
    "BackendDevice",
    "all_devices",
    "cpu",
    "cpu_numpy",
    "cuda",
    "default_device",
    "device_named",
]
