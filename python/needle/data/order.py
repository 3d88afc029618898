"""The order of one pass through a dataset: which items make each batch, drawn when it is needed."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SEQUENTIAL = "sequential"  # in a saved state: 0, 1, ... without a list of them
MOST_SAVED = 1 << 26  # numbers of an order in a saved state: 0.5 GB of text


def cut(indices: Iterable[int], size: int, drop_last: bool) -> Iterator[Array]:
    """Batches of numbers, none of them taken before it is asked for."""
    if isinstance(indices, (np.ndarray, range)):
        whole = len(indices) - len(indices) % size if drop_last else len(indices)
        parts = (indices[i : i + size] for i in range(0, whole, size))
        return (
            p if isinstance(p, np.ndarray) else np.arange(p.start, p.stop, p.step) for p in parts
        )
    return _cut_stream(iter(indices), size, drop_last)  # begun now: it may draw an order at first


def _cut_stream(source: Iterator[int], size: int, drop_last: bool) -> Iterator[Array]:
    while (part := numbers_of(islice(source, size))).size == size:
        yield part
    if part.size and not drop_last:
        yield part


def numbers_of(items: Iterable[int]) -> Array:
    """Numbers that a sampler gave; 1.5 is none."""
    try:
        return np.fromiter(map(operator.index, items), np.int64)
    except TypeError as error:
        raise TypeError(f"[DataLoader] expected whole numbers of a sampler: {error}.") from None


class Pass:
    """One way through a dataset: how many batches were given, and which come next.

    `batches` is None for a stream, which has no numbers. Workers are ahead of the consumer: what
    was drawn for them and not given yet is kept, since a saved position is the consumer's."""

    def __init__(
        self, batches: Iterator[Array] | None, position: int = 0, is_sequential: bool = False
    ):
        self.position = position
        self.is_sequential = is_sequential
        self.has_order = batches is not None
        self._rest: Iterator[Array] = iter(()) if batches is None else batches
        self._ahead: deque[Array] = deque()

    def draw(self) -> Iterator[Array]:
        """The batches that are left, each drawn when it is asked for."""
        while (part := next(self._rest, None)) is not None:
            self._ahead.append(part)
            yield part

    def gave(self) -> None:
        """The consumer has got the next batch."""
        self.position += 1
        if self.has_order:
            self._ahead.popleft()

    def remaining(self) -> list[Array]:
        """The batches that were not given: all of them are drawn now."""
        found: list[Array] = []
        count = sum(part.size for part in self._ahead)
        for part in self._rest:
            found.append(part)
            count += part.size
            if count > MOST_SAVED:
                self._rest = chain(found, self._rest)
                raise ValueError(
                    f"[DataLoader] expected at most {MOST_SAVED} items left in an order that is "
                    "saved, got more, or a sampler without an end; save between passes, or give a "
                    "sampler with an end."
                )
        self._rest = iter(found)
        return [*self._ahead, *found]
