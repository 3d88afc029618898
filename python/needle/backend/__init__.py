"""Buffers and kernels: what a device must do (protocol.py) and the devices that do it.

Stands on: config, dtype.
"""

from .device import *
