"""Borders as layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .. import functional as F
from ..base.module import Module
from .utils import _ntuple

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    __constants__ = ["padding"]
    rank: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self.rank)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPadNd(_Pad):
    __constants__ = ["padding", "value"]
    mode = "constant"

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return str(self.padding)


def _ranks(base: type[_Pad], name: str, mode: str) -> list[Any]:
    """The classes for one, two and three axes."""
    return [
        type(
            f"{name}{rank}d",
            (base,),
            {"rank": rank, "mode": mode, "__module__": __name__, "__doc__": f"A border, {mode}."},
        )
        for rank in (1, 2, 3)
    ]


ConstantPad1d, ConstantPad2d, ConstantPad3d = _ranks(_ConstantPadNd, "ConstantPad", "constant")
ZeroPad1d, ZeroPad2d, ZeroPad3d = _ranks(_ZeroPadNd, "ZeroPad", "constant")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _ranks(_Pad, "ReflectionPad", "reflect")
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _ranks(_Pad, "ReplicationPad", "replicate")
CircularPad1d, CircularPad2d, CircularPad3d = _ranks(_Pad, "CircularPad", "circular")
