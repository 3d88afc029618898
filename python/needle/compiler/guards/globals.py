"""The names that functions use from outside, and whether they still refer to the same objects.

They are globals and variables of enclosing functions, with what is read through them from modules
and classes (`settings.SCALE`), of the traced function and of those of the user's that it calls. A
trace holds as long as each refers to the same object, or to an equal number or text, and containers
have the same items.
"""

from __future__ import annotations

import dis
import functools
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from operator import is_
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from ...backend.fast_paths import same_names
from ...facts import (
    PLAIN,
    Fact,
    change,
    difference,
    hold,
    is_changeable,
    is_same,
    items_of,
    parts,
)
from ...system.user_code import PACKAGE, is_users_file, is_users_module
from ...tracing import is_tracing

Place = dict[str, Any] | CellType  # where a name is looked up
# Methods that change a container: who calls them does not depend on what is in it.
WRITERS = ("append", "extend", "insert", "add", "update", "clear")


class Name(NamedTuple):
    """A name that was looked up, and what it was."""

    place: Place
    key: str
    text: str
    value: Any


class Names:
    """What a program looks at before each call: names from outside, and the facts of objects that
    do not tell when they change. The native core looks up what changes by assignment only."""

    def __init__(self, names: Iterable[Name], facts: Iterable[tuple[str, Fact]]):
        self._names = [*names]
        self._others: list[Fact] = []
        for key, fact in facts:
            owner = fact.alive and fact.alive()
            fields = getattr(owner, "__dict__", None)
            value = fields.get(key, _Missing) if isinstance(fields, dict) else _Missing
            if is_same(parts(value), fact.value) and not is_changeable(value):
                self._names.append(Name(vars(owner), key, fact.text, value))
            elif fact.alive is None or owner is not None:  # else the function has made the owner
                self._others.append(fact)
        self._places = [name.place for name in self._names]
        self._keys = [name.key for name in self._names]
        self._values = [name.value for name in self._names]

    def __bool__(self) -> bool:
        return bool(self._names or self._others)

    def hold(self) -> bool:
        """Does every name still refer to the same object, or to an equal value?"""
        if not same_names(self._places, self._keys, self._values):
            now = [*map(_look_up, self._places, self._keys)]
            if not all(map(is_same, now, self._values)):
                return False
            self._values = now
        return not self._others or hold(self._others)

    def difference(self) -> str | None:
        """The first name that refers to something else, in words."""
        for name, before in zip(self._names, self._values, strict=True):
            now = _look_up(name.place, name.key)
            if not is_same(now, before):
                return f"{name.text}, which it uses from outside, is {change(now, before)}"
        return difference(self._others)


class _Missing:
    """Stands for the object of a name that is not defined."""


def _look_up(place: Place, name: str) -> object:
    if isinstance(place, dict):
        return place.get(name, _Missing)
    try:
        return place.cell_contents
    except ValueError:
        return _Missing


class Reader:
    """Finds what functions use from outside, before they are called."""

    def __init__(self, meet: Callable[[object], None]):
        self.names: dict[Any, Name] = {}
        self.facts: dict[Any, Fact] = {}  # of containers, and of attributes of classes
        self._meet = meet
        self._seen: set[weakref.ref[FunctionType]] = set()
        self._home = PACKAGE  # the folder of the first function, which may be installed

    def read(self, function: object) -> None:
        """Note the names of a function and of what it wraps."""
        if isinstance(function, functools.partial):
            self._meet((function.func, function.args, function.keywords))
        elif isinstance(function, property):
            self.read(function.fget)
        elif isinstance(function, MethodType):
            self._meet(function.__self__)
            self.read(function.__func__)
        elif isinstance(function, FunctionType):
            if weakref.ref(function) not in self._seen:
                self._seen.add(weakref.ref(function))
                self._read(function)
        elif "__wrapped__" in getattr(function, "__dict__", ()):  # another compiled function
            self.read(vars(function)["__wrapped__"])

    def _read(self, function: FunctionType) -> None:
        code, cells = function.__code__, function.__closure__ or ()
        file = code.co_filename
        if file.startswith(PACKAGE) and not cells:
            return
        if self._home == PACKAGE:
            self._home = os.path.dirname(file)
        self._meet((function.__defaults__, function.__kwdefaults__))
        if is_users_file(file) or (file.startswith(self._home) and not file.startswith(PACKAGE)):
            for name, steps in _uses(code).globals:
                self._note(function.__globals__, name, name, steps)
        around = dict(zip(code.co_freevars, cells, strict=True))
        for name, steps in _uses(code).variables:
            if name in around:
                self._note(around[name], name, name, steps)

    def _note(self, place: Place, key: str, text: str, steps: tuple[str, ...]) -> None:
        """A name, and the attributes that are read through it."""
        value = _look_up(place, key)
        step = steps[0] if steps else ""
        if isinstance(value, ModuleType):
            if step and is_users_module(value.__name__):
                self._note(vars(value), step, f"{text}.{step}", steps[1:])
        elif value is not _Missing:
            self._meet(value)
            if is_tracing() and isinstance(place, CellType) and not isinstance(value, PLAIN):
                return  # the traced function may have made it: a program does not keep that
            self.names.setdefault((id(place), key), Name(place, key, text, value))
            if isinstance(value, type):  # whose attribute may be data
                self._meet(getattr(value, step, None))
                self._add(value, step, f"{text}.{step}")
            elif is_changeable(value) and step not in WRITERS:
                self._add(value, "", text)

    def _add(self, owner: object, name: str, text: str) -> None:
        """An attribute of a class, or (without a name) a container."""
        value = getattr(owner, name, _Missing) if name else owner
        is_data = isinstance(value, PLAIN) or is_changeable(value)
        if is_data and (id(owner), name) not in self.facts:
            read = _reading(owner)
            if name:
                read = lambda: parts(getattr(owner, name, None))  # noqa: E731
            self.facts[id(owner), name] = Fact(read, read(), text, is_told=False)


def _reading(container: object) -> Callable[[], object]:
    """How to get parts(container), which are made anew only if an item is another object."""
    kept, made = [*(items_of(container) or ())], parts(container)
    if any(map(is_changeable, kept)):
        return lambda: parts(container)

    def read() -> object:
        nonlocal kept, made
        now = items_of(container)
        if len(now) != len(kept) or not all(map(is_, now, kept)):
            kept, made = [*now], parts(container)
        return made

    return read


class _Uses:
    """The names in the code of a function and of those inside it, each with the attributes that are
    read through it: globals and variables around it. Names that it assigns first, or only adds to
    (`calls += 1`), do not decide what it computes."""

    def __init__(self, code: CodeType):
        self.globals: list[tuple[str, tuple[str, ...]]] = []
        self.variables: list[tuple[str, tuple[str, ...]]] = []
        first: dict[str, str] = {}  # what is done to each name first
        instructions = [*_instructions(code)]
        for n, now in enumerate(instructions):
            verb, _, kind = now.opname.partition("_")
            if kind not in ("GLOBAL", "DEREF"):
                continue
            found = self.globals if kind == "GLOBAL" else self.variables
            if first.setdefault(now.argval, verb) == "LOAD" == verb:
                found.append((now.argval, (*_steps(instructions[n + 1 : n + 9]),)))
            elif (
                verb == "STORE" and _is_adding(instructions[n - 1]) and first[now.argval] == "LOAD"
            ):
                last = max(i for i, (name, _) in enumerate(found) if name == now.argval)
                del found[last]


def _is_adding(instruction: dis.Instruction) -> bool:
    """Is it an operator like +=?"""
    name, text = instruction.opname, instruction.argrepr
    return name.startswith("INPLACE_") or (name == "BINARY_OP" and text.endswith("="))


def _steps(instructions: list[dis.Instruction]) -> Iterator[str]:
    """The attributes that instructions read, one of the other."""
    for now in instructions:
        if now.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            return
        yield now.argval


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


_uses = functools.cache(_Uses)
