"""PyTorch's names that are no operators: of element types, devices, shapes and constants."""

from math import inf, nan, pi

from ..backend import device_named
from ..dtype import bool_, float16, float32, float64, int16, int32, int64

__all__ = [
    "half", "float", "double", "short", "int", "long", "bool", "device", "Size", "inf", "nan", "pi",
    "channels_last", "contiguous_format", "preserve_format",
]  # fmt: skip

half, float, double = float16, float32, float64
short, int, long, bool = int16, int32, int64, bool_
device = device_named
Size: type = tuple  # of shapes
channels_last, contiguous_format, preserve_format = "channels_last", "contiguous", "preserve"
