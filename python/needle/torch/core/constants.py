"""Layouts, memory formats and numbers."""

from __future__ import annotations

import math


class layout:
    """How a tensor lies in memory."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"


class memory_format(layout):
    """The order of axes in memory."""


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
inf, nan, pi, e = math.inf, math.nan, math.pi, math.e
newaxis = None
