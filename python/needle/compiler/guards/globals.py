"""The names that a function uses from outside, and whether they still refer to the same objects.

They are globals, variables of enclosing functions and, in a method, attributes of `self`, unless it
is a `Noted` object, whose attributes are facts. A trace holds as long as every name refers to the
same object, or to an equal number or text. Names that the function itself assigns are not watched.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ...backend.fast_paths import same_names
from ...facts import PLAIN, Noted, change
from ...system.user_code import PACKAGE

Place = dict[str, Any] | CellType  # where a name is looked up


class Names:
    """The names that a function used from outside when it was traced, and what they were."""

    def __init__(self, function: Callable[..., Any]):
        self.places: list[Place] = []
        self.names: list[str] = []
        self.values: list[Any] = []
        for place, name in _found(function, set()):
            value = _look_up(place, name)
            if not isinstance(value, (_Missing, ModuleType)):
                self.places.append(place)
                self.names.append(name)
                self.values.append(value)

    def hold(self) -> bool:
        """Does every name still refer to the same object, or to an equal value?"""
        if same_names(self.places, self.names, self.values):
            return True
        now = [*map(_look_up, self.places, self.names)]
        if not all(map(_is_same, now, self.values)):
            return False
        self.values = now
        return True

    def difference(self) -> str | None:
        """The first name that refers to something else, in words."""
        for place, name, before in zip(self.places, self.names, self.values, strict=True):
            now = _look_up(place, name)
            if _is_same(now, before):
                continue
            return f"{name}, which it uses from outside, is {change(now, before)}"
        return None


class _Missing:
    """Stands for the object of a name that is not defined."""


def _look_up(place: Place, name: str) -> Any:
    if isinstance(place, dict):
        return place.get(name, _Missing())
    try:
        return place.cell_contents
    except ValueError:
        return _Missing()


def _is_same(now: Any, before: Any) -> bool:
    """The same object, or an equal number or text; NaN equals NaN, and 0 and -0 differ."""
    if now is before:
        return True
    are_alike = type(now) is type(before) and isinstance(now, PLAIN)
    return are_alike and repr(now) == repr(before)


def _found(function: Any, seen: set[int]) -> Iterator[tuple[Place, str]]:
    """The names of a function and of what it wraps, with the places where they are looked up."""
    if isinstance(function, functools.partial):
        yield from _found(function.func, seen)
    elif isinstance(function, MethodType):
        yield from _found(function.__func__, seen)
        fields = getattr(function.__self__, "__dict__", None)
        code = getattr(function.__func__, "__code__", None)
        if code is not None and isinstance(fields, dict) and not _is_noted(function.__self__):
            yield from ((fields, name) for name in _uses(code).attributes if name in fields)
    elif isinstance(function, FunctionType) and id(function) not in seen:
        seen.add(id(function))
        yield from _of_function(function, seen)
    elif "__wrapped__" in getattr(function, "__dict__", ()):  # another compiled function
        yield from _found(function.__wrapped__, seen)
    elif callable(function) and isinstance(type(function).__call__, FunctionType):
        yield from _found(MethodType(type(function).__call__, function), seen)


def _of_function(function: FunctionType, seen: set[int]) -> Iterator[tuple[Place, str]]:
    uses = _uses(function.__code__)
    if not function.__code__.co_filename.startswith(PACKAGE):
        yield from ((function.__globals__, name) for name in uses.globals)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        if name not in uses.assigned:
            yield cell, name
            yield from _found(_look_up(cell, name), seen)  # a decorator's function


def _is_noted(owner: Any) -> bool:
    return isinstance(owner, (Noted, type))


class _Uses:
    """The names in the code of a function and of those inside it: globals, attributes of its first
    argument, and variables around it that it assigns."""

    def __init__(self, code: CodeType):
        owner = code.co_varnames[0] if code.co_argcount else None
        loaded: set[str] = set()
        attributes: set[str] = set()
        stored: dict[str, set[str]] = {"GLOBAL": set(), "ATTR": set(), "DEREF": set()}
        before = None
        for now in _instructions(code):
            verb, _, kind = now.opname.partition("_")
            if verb in ("STORE", "DELETE") and kind in stored:
                stored[kind].add(now.argval)
            elif now.opname == "LOAD_GLOBAL":
                loaded.add(now.argval)
            elif now.opname in ("LOAD_ATTR", "LOAD_METHOD") and _variable(before) == owner:
                attributes.add(now.argval)
            before = now
        self.globals = sorted(loaded - stored["GLOBAL"])
        self.attributes = sorted(attributes - stored["ATTR"])
        self.assigned = stored["DEREF"]


def _variable(instruction: dis.Instruction | None) -> str | None:
    """The variable that an instruction has loaded last; some load two."""
    if instruction is None or not instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
        return None
    name: Any = instruction.argval
    return str(name[-1] if isinstance(name, tuple) else name)


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


_uses = functools.cache(_Uses)
