"""Python facts that a compiled function depends on, such as a layer's `training`.

While a function is traced, every fact that is read, through `fact` or as an attribute of a `Noted`
object, is noted. The program holds as long as all of them are unchanged. Code that changes a fact
calls `changed`, so that programs need not compare their facts at every call. Code that keeps new
tensors calls `undo_on_failure`: if the call fails, these tensors never get elements.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, MemberDescriptorType, SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from . import tracing

T = TypeVar("T")


class Fact(NamedTuple):
    """How to read it, what it was (both as `parts` gives them), its name, and whether code that
    changes it calls `changed`. If not, programs look themselves: `alive` gives the object that has
    the attribute, or None if it is gone."""

    read: Callable[[], Any]
    value: Any
    text: str
    is_told: bool = True
    alive: Callable[[], Any] | None = None


Facts = dict[tuple[int, str], Fact]  # by the owner's id, and a name
CLASS = "the one of the class"  # a method
PLAIN = (bool, int, float, complex, str, bytes, type(None))  # values that are compared as values
PLAIN_TYPES = frozenset(PLAIN)
CONTAINERS = (list, dict, set)  # what can change without an assignment
MOST_ITEMS = 1000  # of a container whose items are compared


changes = 0  # how often facts may have changed


def changed() -> None:
    """Say that facts may have changed."""
    global changes
    changes += 1


def fact(owner: object, name: str, read: Callable[[], T]) -> T:
    """read(), which is noted as `name` of `owner` while a function is traced."""
    value = read()
    if (tracer := tracing.active()) is not None:
        text = f"{type(owner).__name__}.{name}"
        known = Fact(lambda: parts(read()), parts(value), text)
        tracer.facts.setdefault((id(owner), name), known)
    return value


def hold(facts: Iterable[Fact]) -> bool:
    """Are all of them unchanged?"""
    return all(is_same(fact.read(), fact.value) for fact in facts)


def difference(facts: Iterable[Fact]) -> str | None:
    """The first that has changed, in words."""
    for fact in facts:
        now = fact.read()
        if not is_same(now, fact.value):
            return f"{fact.text} is {change(now, fact.value)}"
    return None


def change(now: Any, before: Any) -> str:
    """What something has become, in words."""
    if isinstance(now, tuple) and isinstance(before, tuple):
        return "not what it was: other items"
    are_plain = isinstance(now, PLAIN) and isinstance(before, PLAIN)
    return f"{now!r:.60} instead of {before!r:.60}" if are_plain else "another one"


def is_same(now: Any, before: Any) -> bool:
    """The same object, or an equal number or text, also in tuples; NaN equals NaN, and 0 differs
    from -0, False and 0.0."""
    if now is before:
        return True
    if type(now) is not type(before):
        return False
    if isinstance(now, tuple):
        return len(now) == len(before) and all(map(is_same, now, before))
    return isinstance(now, PLAIN) and repr(now) == repr(before)


def parts(value: Any) -> Any:
    """A value in a form that stays as it is: a container as the tuple of its items, and an object
    as a weak reference (there is one of each), since programs do not keep what a trace makes."""
    if type(value) in PLAIN_TYPES:
        return value
    items = items_of(value)
    if items is None:
        try:
            return weakref.ref(value)
        except TypeError:
            return value
    if len(items) > MOST_ITEMS:
        return type(value), id(value), len(items)
    return (type(value), *[x if type(x) in PLAIN_TYPES else parts(x) for x in items])


def items_of(value: Any) -> Any:
    """The items of a container, keys included, in an order that stays; None for another value."""
    if isinstance(value, SimpleNamespace):
        value = vars(value)
    if isinstance(value, dict):
        return (*value, *value.values())
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=hash)
    return value if isinstance(value, (list, tuple)) else None


def is_changeable(value: Any) -> bool:
    """Can it change without an assignment?"""
    if isinstance(value, tuple):
        return any(map(is_changeable, value))
    return isinstance(value, (*CONTAINERS, SimpleNamespace))


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
    tracer = tracing.active()
    try:
        value = object.__getattribute__(owner, name)
    except AttributeError:
        if tracer is not None and not name.startswith("__"):
            tracer.facts.setdefault((id(owner), name), absence(owner, name))
        raise
    if tracer is not None and not name.startswith("__"):
        tracer.meet(value)
        if (id(owner), name) not in tracer.facts:
            known = attribute(owner, name, value)
            if known is None:
                tracer.meet(getattr(type(owner), name, None))  # a property
            else:
                told = known._replace(is_told=not is_changeable(value), alive=None)
                tracer.facts[id(owner), name] = told
    return value


def attribute(owner: Any, name: str, value: Any) -> Fact | None:
    """owner.name as a fact, if it is data: the owner's own, in a slot, or what the class gives. Of
    a method it is a fact that the owner has none of its own."""
    alive = _alive(owner)
    text, before = _text(owner, name), parts(value)
    given = getattr(type(owner), name, owner)
    is_own = name in getattr(owner, "__dict__", ())
    if not is_own and isinstance(given, FunctionType):
        return Fact(lambda: _method(alive(), name), CLASS, text, False, alive)
    if is_own or isinstance(given, (*PLAIN, tuple, *CONTAINERS, MemberDescriptorType)):

        def read() -> Any:
            now = alive()
            return before if now is None else parts(getattr(now, name, None))

        return Fact(read, before, text, False, alive)
    return None


def absence(owner: Any, name: str) -> Fact:
    """That an object has no such attribute, as `hasattr` and `getattr` with a default ask."""
    alive = _alive(owner)
    return Fact(lambda: _has(alive(), name), False, _text(owner, name), False, alive)


def fields(owner: Any) -> Fact:
    """All attributes that an object has of its own, as `vars` gives them."""
    alive, before = _alive(owner), parts(vars(owner))

    def read() -> Any:
        now = alive()
        return before if now is None else parts(vars(now))

    return Fact(read, before, f"vars of {type(owner).__name__}", False, alive)


def _alive(owner: Any) -> Callable[[], Any]:
    """Gives the object as long as it is there."""
    try:
        return weakref.ref(owner)
    except TypeError:  # an object with slots only
        return lambda: owner


def _text(owner: Any, name: str) -> str:
    return f"{type(owner).__name__}.{name}"


def _has(owner: Any, name: str) -> bool:
    """Is there such an attribute? No property is called for it."""
    given = getattr(type(owner), name, _has)
    is_slot = isinstance(given, MemberDescriptorType)
    is_given = hasattr(owner, name) if is_slot else given is not _has
    return is_given or name in getattr(owner, "__dict__", ())


def _method(owner: Any, name: str) -> str:
    return "its own" if name in getattr(owner, "__dict__", ()) else CLASS
