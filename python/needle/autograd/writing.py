"""How a tensor's elements change: `write` into its memory, or `replace` the memory by other.

All in-place operators, assignments and compiled functions go through these two. Lazy values take
their inputs' data before it changes, and the change is noted, so that a gradient which needs the
former elements is refused instead of wrong (`ndarray/versions.py`). What is recorded for gradients
changes no element: there a tensor becomes another value of the graph (`rebind.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from ..ndarray import versions
from ..ndarray.index.gather import has_overlap

if TYPE_CHECKING:
    from ..types import NDArray, Tensor

__all__ = ["next_stamp", "note_write", "replace_data", "write_in_place"]

next_stamp = _native.next_stamp  # nodes are numbered in order of creation
pending: weakref.WeakSet[Any] = weakref.WeakSet()  # lazy values without data


def write_in_place(op: str, x: Tensor, write: Callable[[NDArray], object]) -> None:
    """Let write(data) change x's memory, of which all views show it."""
    _compute_pending()
    data = x.realize_cached_data()
    if has_overlap(data):
        raise ValueError(
            f"[{op}] expected a tensor with its own memory, got a broadcast view {x.shape}; "
            "copy it first (x = x.clone())."
        )
    write(data)
    note_write(x)


def note_write(x: Tensor) -> None:
    """Note that x's memory changed: no gradient may use it for what was computed before."""
    versions.note(x.cached_data, next_stamp())


def replace_data(tensors: Sequence[Tensor], arrays: Sequence[NDArray]) -> None:
    """Give tensors other memory: what showed the former still does."""
    _compute_pending()
    for tensor, array in zip(tensors, arrays, strict=True):
        tensor.cached_data = array
        tensor._replaced = next_stamp()


def _compute_pending() -> None:
    """Lazy values take their inputs' data as it is now."""
    if pending:
        for value in tuple(pending):
            value.realize_cached_data()
        pending.clear()
