"""The named tuples that functions give: `x.max(1).values`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any


class _Shown:
    """Printed as PyTorch prints its own."""

    __slots__ = ()

    def __repr__(self: Any) -> str:
        rows = [f"{name}={getattr(self, name)!r}" for name in self._fields]
        return f"torch.return_types.{type(self).__name__}(\n" + ",\n".join(rows) + ")"


def _named(name: str, fields: str) -> Any:
    kind: Any = type(name, (_Shown, namedtuple(name, fields)), {"__slots__": ()})
    kind.__new__ = staticmethod(lambda cls, *given: _make(cls, given))
    kind.__module__ = "torch.return_types"
    return kind


def _make(cls: Any, given: tuple[Any, ...]) -> Any:
    """Of one sequence, as of the single fields."""
    parts = given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given
    return tuple.__new__(cls, tuple(parts))


VALUES = (
    "max",
    "min",
    "sort",
    "topk",
    "median",
    "nanmedian",
    "mode",
    "kthvalue",
    "cummax",
    "cummin",
)
max, min, sort, topk, median, nanmedian, mode, kthvalue, cummax, cummin = (
    _named(name, "values indices") for name in VALUES
)
frexp = _named("frexp", "mantissa exponent")
aminmax = _named("aminmax", "min max")
histogram = _named("histogram", "hist bin_edges")
