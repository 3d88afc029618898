"""Python facts that a compiled function depends on, such as a layer's `training`.

Whoever reads one through `fact` lets the compiler know: a compiled program holds only as long as
every fact that was read while it was traced is still the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

Facts = dict[Hashable, tuple[Callable[[], Any], Any]]  # how to read it, and what it was


class _Noting(threading.local):
    facts: Facts | None = None


noting = _Noting()


def fact(owner: object, name: str, read: Callable[[], T]) -> T:
    """read(), which is noted as `name` of `owner` while a function is traced."""
    value = read()
    if noting.facts is not None:
        noting.facts.setdefault((id(owner), name), (read, value))
    return value


class Flag:
    """A bool attribute that is read as a fact; it lives in the object's `__dict__`."""

    def __init__(self, default: bool):
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, kind: type | None = None) -> bool:
        if owner is None:
            return self.default
        if noting.facts is None:
            value: bool = owner.__dict__.get(self.name, self.default)
            return value
        return fact(owner, self.name, lambda: bool(owner.__dict__.get(self.name, self.default)))

    def __set__(self, owner: Any, value: bool) -> None:
        owner.__dict__[self.name] = value
