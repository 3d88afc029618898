"""The programs of one function: as many as may be kept, those that were used last."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, Protocol, TypeVar


class Used(Protocol):
    """Something that knows when it was last used, as a number that grows."""

    used: int


T = TypeVar("T", bound=Used)


class Cache(Generic[T]):
    """Items by key, several for one. Beyond `maxsize`, those go that were not used for longest."""

    def __init__(self, maxsize: int | None):
        self.maxsize = maxsize
        self._items: dict[Hashable, list[T]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._items.values()))

    def get(self, key: Hashable) -> Sequence[T]:
        """The items of a key, in the order in which they came."""
        return self._items.get(key, ())

    def put(self, key: Hashable, items: Sequence[T]) -> None:
        """Let a key have these items."""
        self._items[key] = [*items]
        while self.maxsize is not None and len(self) > self.maxsize:
            self._drop_one()

    def _drop_one(self) -> None:
        key = min(self._items, key=lambda k: min(item.used for item in self._items[k]))
        items = self._items[key]
        items.remove(min(items, key=lambda item: item.used))
        if not items:
            del self._items[key]

    def clear(self) -> None:
        """Keep nothing."""
        self._items.clear()
