"""When Python's collector of reference cycles runs: for tensors, and not for compilers.

x.grad is a node of the graph that leads to x: a reference cycle. Python's collector frees those,
but it counts objects and not their bytes, so it is called here when there are too many of either.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from .. import _native

FEW_VALUES = 1000.0
FEW_BYTES = 2.0**28

_most_values = FEW_VALUES
_most_bytes = FEW_BYTES


def collect() -> None:
    """Free values of earlier steps when the number of values or their bytes have doubled.

    The young generations first: a step's values are there, and that takes a tenth of the time. The
    limits sink slowly, so that one large graph does not raise them for good.
    """
    global _most_values, _most_bytes
    if not gc.isenabled():
        return
    _most_values = max(FEW_VALUES, 0.95 * _most_values)
    _most_bytes = max(FEW_BYTES, 0.95 * _most_bytes)
    if _too_much():
        gc.collect(1)
        if _too_much():
            gc.collect()
            _most_values = 2.0 * _native.count_nodes()
            _most_bytes = 2.0 * _native.memory_stats()["live"]


def _too_much() -> bool:
    return _native.count_nodes() > _most_values or _native.memory_stats()["live"] > _most_bytes


@contextmanager
def paused() -> Iterator[None]:
    """Within this context, the collector does not run by itself.

    For code that makes many objects which stay: the collector would look at all of them again and
    again, and find nothing (a tenth of the time that a ResNet-18's training step takes to compile).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
