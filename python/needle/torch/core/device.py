"""`torch.device` and `torch.Size`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from ...backend import BackendDevice, cpu

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = ("cpu", "cuda", "mps", "xpu", "meta", "mkldnn", "hpu", "vulkan", "xla", "ipu", "mtia")


class device(BackendDevice):
    """A device by PyTorch's name; only the CPU has memory here."""

    __slots__ = ("_index", "_kind")

    def __init__(self, type: object = "cpu", index: int | None = None):
        if isinstance(type, BackendDevice):
            type = str(type) if isinstance(type, device) else "cpu"
        if isinstance(type, int):
            index, type = type, "cuda"
        found = re.fullmatch(r"([a-z]+)(?::(\d+))?", str(type))
        if found is None or found[1] not in KINDS:
            raise RuntimeError(
                f"[device] expected one of {', '.join(KINDS)} device type at start of device "
                f"string, got {type!r}."
            )
        self._kind: str = found[1]
        self._index = int(found[2]) if found[2] else index
        super().__init__(self._kind, cpu().mod if self._kind == "cpu" else None, cpu().offers)

    @property
    def type(self) -> str:
        """The kind of hardware: "cpu", "cuda"."""
        return self._kind

    @property
    def index(self) -> int | None:  # type: ignore[override]
        """The number among devices of this type, if one was given."""
        return self._index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return (self._kind, self._index) == (other._kind, other._index)

    def __hash__(self) -> int:
        return hash((self._kind, self._index))

    def __repr__(self) -> str:
        place = "" if self._index is None else f", index={self._index}"
        return f"device(type='{self._kind}'{place})"

    def __str__(self) -> str:
        return self._kind if self._index is None else f"{self._kind}:{self._index}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self._kind, self._index))

    def __enter__(self) -> device:
        place(self)
        return self

    def __exit__(self, *exception: object) -> None:
        pass


CPU = device("cpu")


def place(given: object) -> BackendDevice:
    """Needle's device of PyTorch's, if tensors can be made there."""
    if given is None or given is CPU:
        return cpu()
    if isinstance(given, BackendDevice) and not isinstance(given, device):
        return given
    kind = device(given).type
    if kind == "cpu":
        return cpu()
    if kind == "cuda":
        raise AssertionError("Torch not compiled with CUDA enabled")
    raise RuntimeError(f"[device] {kind} tensors are not available on this machine; use cpu.")


class Size(tuple[int, ...]):
    """A shape."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Iterable[int]) -> Size:  # type: ignore[override]
        return Size((*self, *other))

    def __radd__(self, other: Iterable[int]) -> Size:
        return Size((*other, *self))

    def __mul__(self, count: Any) -> Size:
        return Size(tuple.__mul__(self, count))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Size, (tuple(self),))
