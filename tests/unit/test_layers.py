"""Imports go one way: a room imports what it stands on, and what that stands on, nothing else.

Each room says in the docstring of its `__init__.py` what it stands on; a file at the package's root
says it in its own. What stands on nothing is the ground: anyone may import it.
Imports for type checkers alone do not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import needle as ndl

PACKAGE = Path(ndl.__file__).parent
FRONT = "__init__"  # the package itself gathers all names
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def stands_on(room: str) -> tuple[str, ...]:
    folder = PACKAGE / room
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text())) or "" if path.exists() else ""
    line = re.search(r"^Stands on: ([\w, ]+)\.$", text, re.M)
    assert line or not folder.is_dir(), f"{path} must say what the room stands on"
    return tuple(line[1].split(", ")) if line and line[1] != "nothing" else ()


@cache
def all_below(room: str) -> frozenset[str]:
    below = stands_on(room)
    return frozenset(below).union(*(all_below(b) for b in below))


def is_ground(room: str) -> bool:
    return not stands_on(room) and room != FRONT


def typing_only(tree: ast.AST) -> set[ast.AST]:
    """What stands in `if TYPE_CHECKING:`."""
    choices = (node for node in ast.walk(tree) if isinstance(node, ast.If))
    blocks = [node.body for node in choices if "TYPE_CHECKING" in ast.dump(node.test)]
    return {inner for block in blocks for part in block for inner in ast.walk(part)}


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """(line, room) of every import from the package, wherever it stands in the file."""
    here = ("needle", *path.relative_to(PACKAGE).with_suffix("").parts)
    tree = ast.parse(path.read_text())
    skipped = typing_only(tree)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = here[: -node.level] if node.level else ()
            base = start + tuple((node.module or "").split(".") if node.module else ())
            targets = [base if len(base) > 1 else (*base, alias.name) for alias in node.names]
        else:
            continue
        for target in targets:
            if target[0] == "needle":
                yield node.lineno, target[1] if len(target) > 1 else FRONT


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    for line, target in imported_rooms(path):
        allowed = target == room or target in all_below(room) or is_ground(target)
        assert allowed or room == FRONT, f"{path.name}:{line} imports {target} from {room}"


def test_the_ground_stands_on_nothing() -> None:
    for path in MODULES:
        if is_ground(room_of(path)):
            assert all(is_ground(room) for _, room in imported_rooms(path)), path


def test_no_room_stands_on_itself() -> None:
    rooms = {room_of(path) for path in MODULES} - {FRONT}
    assert not [room for room in rooms if room in all_below(room)]


def test_imports_are_seen() -> None:
    """The check itself sees absolute, relative and nested imports."""
    rooms = {room for _, room in imported_rooms(PACKAGE / "backend" / "reference.py")}
    assert {"dtype", "backend"} <= rooms
    assert all_below("ops") > {"autograd", "ndarray", "backend"}
    assert "nn" not in all_below("optim") and "optim" not in all_below("nn")


def test_rooms_are_small() -> None:
    """A folder shows the architecture while it can be read at a glance."""
    assert len(list(PACKAGE.glob("*.py"))) <= 10
    for folder in {path.parent for path in MODULES} - {PACKAGE}:
        assert len(list(folder.glob("*.py"))) <= 16, folder
