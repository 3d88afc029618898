"""`torch.nn`."""

from ..core.tensor import Parameter as Parameter
