"""Calls that may fail in the middle of a run: an index out of range, the user's Python.

New data of tensors from outside that is computed before the last such call is copied there at the
end, and such a gradient that the program does not read goes to new memory, so that a run that fails
leaves tensors from outside unchanged. Only `x[i] = v` still writes in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..control.loops import loop_of
from ..ir.graph import INDEXING, FlatValue, Graph
from ..trace.breaks import PYTHON


def may_fail(graph: Graph) -> bool:
    """Has it calls that may fail?"""
    return any(True for _ in _that_may_fail(graph))


def written_early(graph: Graph) -> set[FlatValue]:
    """The results whose memory is first written before a call that may fail."""
    last = max(_that_may_fail(graph), default=-1)
    starts: dict[FlatValue, int] = {}
    for i, node in enumerate(graph.nodes):
        for out, previous in node.outs_and_previous():
            starts[out.value] = i if previous is None else starts.get(previous, -1)
    return {r.value for r in graph.results if starts.get(r.value, last) < last}


def _that_may_fail(graph: Graph) -> Iterator[int]:
    """The positions of calls that may fail: not with indices that an earlier call has checked."""
    seen: set[Any] = set()
    for i, node in enumerate(graph.nodes):
        loop = loop_of(node)
        if node.kernel in INDEXING and (check := node.indices()) not in seen:
            seen.add(check)
            yield i
        elif node.kernel == PYTHON or (loop is not None and may_fail(loop.body)):
            yield i
