"""Which memory was written in place, and when: so that backward never uses changed data silently.

Graph nodes are numbered as they are made. A write in place notes the memory and the number of that
moment; `x.data = ...` notes the moment on the tensor. A gradient that needs data which was changed
after its node was made is refused.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..types import NDArray, NumpyArray, Value

_noted: dict[int, tuple[weakref.ref[Any], int]] = {}  # id(memory) -> (the memory, moment)


def _memory(data: Any) -> Any:
    """The object that owns the elements: shared by all views of them."""
    if isinstance(data, np.ndarray):
        while isinstance(data.base, np.ndarray):
            data = data.base
        return data
    return data._handle


def memory_id(data: object) -> int | None:
    """The same number for all arrays that share memory; None for tuples, and without data."""
    return None if data is None or isinstance(data, tuple) else id(_memory(data))


def meets_any(memory: object, others: Iterable[object]) -> bool:
    """Is memory one of these, or has it bytes in common with one? Different buffers have, if they
    are of one NumPy array."""
    span = _span(memory)
    return any(memory is other or _overlap(span, _span(other)) for other in others)


def _overlap(a: tuple[int, int] | None, b: tuple[int, int] | None) -> bool:
    return a is not None and b is not None and a[0] < b[1] and b[0] < a[1]


def _span(memory: Any) -> tuple[int, int] | None:
    """The first byte and the end of memory that other libraries can reach, else None."""
    if isinstance(memory, np.ndarray):
        reaches = [(n - 1) * s for n, s in zip(memory.shape, memory.strides, strict=True)]
        first = memory.ctypes.data + sum(r for r in reaches if r < 0)
        return first, first + sum(map(abs, reaches)) + memory.itemsize
    if getattr(memory, "version", 0) == getattr(memory, "version", 0):
        return None  # every write to it would be noticed: no other library knows it
    first = memory.ptr()
    return first, first + memory.nbytes


def is_part(data: NDArray | NumpyArray) -> bool:
    """Does its memory have more elements than this array?"""
    return bool(_memory(data).size != data.size)


def is_view(x: Value) -> bool:
    """Does a graph node show memory of another, or a part of larger memory?"""
    data = x.cached_data
    inputs = (memory_id(source.cached_data) for source in x.inputs)
    return is_part(data) or memory_id(data) in inputs


def is_seen_elsewhere(x: Value) -> bool:
    """Does anybody but x, and the graph that x was made by, know the memory of x's data? If not,
    nobody can tell whether x is a view: its source is gone, as that of `conv(x)`, which is NHWC."""
    memory = _memory(x.cached_data)
    nodes, arrays = _relatives(x, memory)
    each = [*{id(a): a for a in arrays}.values()]
    held = [sum(a is b for b in arrays) for a in each]
    # Besides the lists here, each source is known to the node that it is an input of; each array to
    # the nodes, or tuples of arrays, that hold it; and the memory to the arrays.
    views, own = sum(a is not memory for a in each), sum(a is memory for a in arrays)
    return (
        any(n > 3 for n in _references(nodes[1:]))
        or any(n > 2 * k + 1 for n, k in zip(_references(each), held, strict=True))
        or _references([memory])[0] > 2 + views + 2 * own + (own > 0)
    )


def _relatives(x: Value, memory: object) -> tuple[list[Any], list[Any]]:
    """The nodes from x back that hold this memory, and the arrays by which they do. Tuples of
    arrays are not among the nodes: others may take other parts of them."""
    nodes, arrays, pending = [x], [x.cached_data], [x]
    for node in pending:
        for source in node.inputs:
            data = source.cached_data
            if isinstance(data, tuple):
                found = [a for a in data if _memory(a) is memory]
            else:
                found = [data] if data is not None and _memory(data) is memory else []
                nodes += [source] * len(found)
            arrays += found
            pending += [source] * bool(found)
    return nodes, arrays


def _references(values: list[object]) -> list[int]:
    """How many references there are to each of different values, those of lists included."""
    listed = [*values, object()]  # the last one shows what counting adds
    counts = [sys.getrefcount(value) for value in listed]
    return [n - counts[-1] for n in counts[:-1]]


def note(data: object, moment: int) -> None:
    """Note that the memory of `data` was written at `moment`."""
    memory = _memory(data)
    key = id(memory)
    _noted[key] = (weakref.ref(memory, lambda _: _noted.pop(key, None)), moment)


def is_changed_since(value: Value, moment: int) -> bool:
    """Was the data of a graph node replaced or written in place after this moment?"""
    if value._replaced > moment:
        return True
    found = _noted.get(id(_memory(value.cached_data)))
    return found is not None and found[1] > moment


def check_unchanged(node: Any) -> None:
    """Raise if the data of a node or of its inputs was changed after the node was made."""
    for value in node.inputs:
        if value._replaced > node._stamp:
            raise ValueError(
                f"[backward] {type(node.op).__name__} used a tensor whose data was replaced "
                f"afterwards (x.data = ..., now of shape {value.shape}); compute its result again."
            )
    if not _noted:
        return
    for value in (node, *node.inputs):
        if value.cached_data is None or isinstance(value.cached_data, tuple):
            continue
        found = _noted.get(id(_memory(value.cached_data)))
        if found is not None and found[1] > node._stamp:
            raise ValueError(
                f"[backward] the data of shape {value.cached_data.shape} that "
                f"{type(node.op).__name__} needs for its gradient was changed in place after it "
                "was used; write into a copy (x = x.clone()) instead."
            )
