"""Python facts that a compiled function depends on, such as a layer's `training`.

While a function is traced, every fact that is read, through `fact` or as an attribute of a `Noted`
object, is noted. The program holds as long as all of them are unchanged. Code that changes a fact
calls `changed`, so that programs need not compare their facts at every call. Code that keeps new
tensors calls `undo_on_failure`: if the call fails, these tensors never get elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

from . import tracing

T = TypeVar("T")


class Fact(NamedTuple):
    """How to read it, what it was, the type of its owner, and whether code that changes it calls
    `changed`."""

    read: Callable[[], Any]
    value: Any
    owner: type
    is_told: bool = True


Facts = dict[tuple[int, str], Fact]  # by the owner's id, and a name
CLASS = "the one of the class"  # a method
PLAIN = (bool, int, float, complex, str, bytes, type(None))  # values that are compared as values


changes = 0  # how often facts may have changed


def changed() -> None:
    """Say that facts may have changed."""
    global changes
    changes += 1


def fact(owner: object, name: str, read: Callable[[], T]) -> T:
    """read(), which is noted as `name` of `owner` while a function is traced."""
    value = read()
    if (tracer := tracing.active()) is not None:
        tracer.facts.setdefault((id(owner), name), Fact(read, value, type(owner)))
    return value


def hold(facts: Iterable[Fact]) -> bool:
    """Are all of them unchanged?"""
    return all(fact.read() == fact.value for fact in facts)


def difference(facts: Facts) -> str | None:
    """The first that has changed, in words."""
    for (_, name), (read, before, owner, _) in facts.items():
        now = read()
        if now != before:
            return f"{owner.__name__}.{name} is {change(now, before)}"
    return None


def change(now: Any, before: Any) -> str:
    """What something has become, in words."""
    are_plain = isinstance(now, PLAIN) and isinstance(before, PLAIN)
    return f"{now!r:.60} instead of {before!r:.60}" if are_plain else "another one"


def undo_on_failure(undo_of: Callable[[], Callable[[], None]]) -> None:
    """undo_of() brings Python state back to what it is now; while a function is traced, this is
    noted, to be done if the call fails."""
    if (tracer := tracing.active()) is not None:
        tracer.undos.append(undo_of())


def undo(undos: list[Callable[[], None]]) -> None:
    """Do what was noted, the last first; once only."""
    while undos:
        undos.pop()()


@contextmanager
def noting() -> Iterator[None]:
    """Within this context, attributes of `Noted` objects ask the tracer. The class is changed until
    its end: a hook that is always there would make each read take 40 ns instead of 10."""
    setattr(Noted, "__getattribute__", _read_noted)  # noqa: B010
    try:
        yield
    finally:
        delattr(Noted, "__getattribute__")


class Noted:
    """An object whose attributes are facts; reading them costs nothing while nothing is traced."""

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        changed()

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        changed()


def _read_noted(owner: Any, name: str) -> Any:
    """owner.name, which is a fact if it is data: its own, or a number that the class gives. Of a
    method it is a fact that the owner has none of its own."""
    value = object.__getattribute__(owner, name)
    tracer = tracing.active()
    if tracer is not None and not name.startswith("__"):
        own = object.__getattribute__(owner, "__dict__")
        given = getattr(type(owner), name, owner)
        if name not in own and isinstance(given, FunctionType):
            known = Fact(lambda: "its own" if name in own else CLASS, CLASS, type(owner))
            tracer.facts.setdefault((id(owner), name), known)
        elif name in own or isinstance(given, PLAIN):
            known = Fact(
                lambda: _comparable(getattr(owner, name, None)),
                _comparable(value),
                type(owner),
                is_told=not _has_containers(value),
            )
            tracer.facts.setdefault((id(owner), name), known)
    return value


class _Same:
    """A value that is equal to itself only."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _has_containers(value: Any) -> bool:
    """Can it change without an assignment to the attribute?"""
    if isinstance(value, tuple):
        return any(map(_has_containers, value))
    return isinstance(value, (list, dict, set))


def _comparable(value: Any) -> Any:
    """An attribute in a form to compare: numbers and text by value, all else by identity."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_comparable, value))
    if isinstance(value, dict):
        return tuple((_comparable(k), _comparable(v)) for k, v in value.items())
    if isinstance(value, (set, frozenset)):
        return frozenset(map(_comparable, value))
    return value if isinstance(value, PLAIN) else _Same(value)
