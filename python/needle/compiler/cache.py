"""A least-recently-used cache: the programs that a compiled function keeps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, Protocol, TypeVar


class Used(Protocol):
    """Something with the time of its last use: a number that grows with every call."""

    used: int


T = TypeVar("T", bound=Used)


class Cache(Generic[T]):
    """Lists of items by key. Beyond `maxsize` items in all, the least recently used are dropped."""

    def __init__(self, maxsize: int | None):
        self.maxsize = maxsize
        self._items: dict[Hashable, list[T]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._items.values()))

    def get(self, key: Hashable) -> Sequence[T]:
        """The items of a key, oldest first."""
        return self._items.get(key, ())

    def put(self, key: Hashable, items: Sequence[T]) -> None:
        """Replace the items of a key."""
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
        """Drop everything."""
        self._items.clear()
