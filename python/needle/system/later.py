"""Names of packages that are found when they are first asked for: importing needle stays quick.

A package imports its public names under `if TYPE_CHECKING:`, where type checkers and editors read
them. `tools/public_names.py` writes the same as a table, `public_names.py`, and `names_of` looks
names up in it (PEP 562): the file that has a name is loaded when the name is first used.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module

from .public_names import PUBLIC_NAMES


@cache
def places(package: str) -> dict[str, tuple[str, str]]:
    """name -> (the module that has it, its name there: "" is the module itself)"""
    found: dict[str, tuple[str, str]] = {}
    for module, names in PUBLIC_NAMES[package].items():
        for name in names.split():
            if name == "*":
                found |= places(module)
                continue
            public, is_other, own = name.partition("=")
            found[public] = (module, own if is_other else public)
    return found


def no_attribute(module: str, name: str) -> AttributeError:
    """The error of a module that does not have this name."""
    instead = import_module("needle.compat.absent").INSTEAD.get(module, {}).get(name)
    return AttributeError(
        f"module {module!r} has no attribute {name!r}" + (f"; {instead}." if instead else "")
    )


def names_of(
    package: str, absent: tuple[str, ...] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`. Names that are absent are not there in this mode."""
    here = vars(sys.modules[package])

    def find(name: str) -> object:
        if name == "__all__":  # a star import must not hide Python's own max, sum, io ...
            return [n for n in names() if n != "io" and not hasattr(builtins, n)]
        module, own_name = places(package).get(name, (f"{package}.{name}", ""))  # or a file's
        try:
            if name in absent or name.startswith("__") or not name.isidentifier():
                raise ModuleNotFoundError(name=module)
            loaded = import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise no_attribute(package, name) from None
        here[name] = getattr(loaded, own_name) if own_name else loaded
        return here[name]

    def names() -> list[str]:
        return [name for name in places(package) if name not in absent]

    return find, lambda: sorted({*here, *names()})
