"""Attributes of the user's own objects that a traced function reads, whichever way it gets there.

Objects that are no modules or optimizers do not say when they change (`facts.py`). So while a
function is traced, the classes of the objects that it gets hold of note what is read and written:
what its names and arguments refer to, and what is read from these. What it only adds to
(`self.calls += 1`), or writes before it reads it, does not decide what it computes.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import islice
from types import FrameType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

from ... import tracing
from ...autograd import Value
from ...facts import MOST_ITEMS, PLAIN, Facts, Noted, absence, attribute, fields
from ...ndarray.array import NDArray
from ...system.user_code import is_users_module
from .generators import Generators
from .globals import Names, Reader

GET, SET = "__getattribute__", "__setattr__"
NOT_WATCHED = (*PLAIN, Value, NDArray, ModuleType, Enum)


class Reached:
    """The Python objects that a function gets hold of while it is traced."""

    def __init__(self, facts: Facts):
        self._facts = facts
        self._added: Facts = {}  # what was read to be added to, so far
        self._written: dict[tuple[int, str], Any] = {}  # with its owner, so that ids are unique
        self._watched: dict[type, dict[str, Any]] = {}  # classes, and the hooks of their own
        self._reader = Reader(self.meet)
        self.generators = Generators()

    @contextmanager
    def noting(self, function: Any, arguments: Any) -> Iterator[None]:
        """Within this context, the classes of objects that are met note what is read."""
        try:
            self.meet((function, arguments))
            yield
        finally:
            for kind, own in self._watched.items():
                for name in {GET, SET} & {*vars(kind)}:
                    setattr(kind, name, own[name]) if name in own else delattr(kind, name)

    def forget(self) -> None:
        """Drop the references to the function's own objects."""
        self._written.clear()
        self._added.clear()

    def names(self) -> Names:
        """What the program must look at."""
        found = (*self._facts.items(), *self._reader.facts.items())
        return Names(self._reader.names.values(), [(k[1], f) for k, f in found if not f.is_told])

    def meet(self, value: Any, depth: int = 3) -> None:
        """Note the attributes of an object from now on, and of those in a container."""
        kind = type(value)
        if kind in self._watched or issubclass(kind, NOT_WATCHED):
            return
        if issubclass(kind, (list, tuple, dict, SimpleNamespace)):
            value = vars(value) if issubclass(kind, SimpleNamespace) else value
            items = value.values() if isinstance(value, dict) else value
            for item in islice(items, MOST_ITEMS if depth else 0):
                self.meet(item, depth - 1)
        elif issubclass(kind, Noted):
            self._watch(kind)
        else:
            self.generators.meet(value)
            self._reader.read(value)
            kind = value if issubclass(kind, type) else kind
            is_users = is_users_module(kind.__module__, installed=True)
            if kind not in self._watched and (is_users or kind.__module__ == "argparse"):
                self._watch(kind)

    def _watch(self, kind: type) -> None:
        """Let a class note what is read from its objects, and written to them. Its special methods
        are called without being read."""
        bases = [base for base in kind.__mro__ if is_users_module(base.__module__, installed=True)]
        special = [vars(base)[name] for base in bases for name in vars(base) if name[:2] == "__"]
        self._watched[kind] = {name: vars(kind)[name] for name in (GET, SET) if name in vars(kind)}
        self.meet([x for x in special if isinstance(x, FunctionType)])
        if issubclass(kind, Noted):
            return
        read: Any = kind.__getattribute__
        write: Any = kind.__setattr__

        def get(owner: Any, name: str) -> Any:
            try:
                value = read(owner, name)
            except AttributeError:
                self._note_absence(owner, name)
                raise
            if tracing.active() is not None:
                self._note(owner, name, value, sys._getframe(1))
            return value

        def put(owner: Any, name: str, value: Any) -> None:
            key = id(owner), name
            if tracing.active() is not None and key not in self._facts and key not in self._added:
                self._written[key] = owner
            write(owner, name, value)

        try:
            setattr(kind, GET, get)
            setattr(kind, SET, put)
        except (TypeError, AttributeError):  # a class that may not be changed
            pass

    def _note_absence(self, owner: Any, name: str) -> None:
        if tracing.active() is not None and not name.startswith("__"):
            self._facts.setdefault((id(owner), name), absence(owner, name))

    def _note(self, owner: Any, name: str, value: Any, frame: FrameType) -> None:
        if name.startswith("__"):
            if name == "__dict__" and is_users_module(frame.f_globals.get("__name__", "")):
                self.meet(value)
                self._facts.setdefault((id(owner), name), fields(owner))
            return
        self.meet(value)
        self.meet(getattr(type(owner), name, None))  # a property
        key = id(owner), name
        if key not in self._facts and key not in self._written:
            found = self._added.pop(key, None) or attribute(owner, name, value)
            if found is not None:
                (self._added if _is_adding(frame) else self._facts)[key] = found


def _is_adding(frame: FrameType) -> bool:
    """Is it reading an attribute to add to it, `owner.name += 1`? The owner is then duplicated."""
    code, n = frame.f_code.co_code, frame.f_lasti
    return dis.opname[code[n]] == "LOAD_ATTR" and dis.opname[code[n - 2]] in ("COPY", "DUP_TOP")
