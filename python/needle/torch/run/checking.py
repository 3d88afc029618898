"""What a program uses of `torch` that is not here, found in its text, before it runs."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

FACE = __name__.rpartition(".run.")[0]  # needle.torch


class Use(NamedTuple):
    """A name of PyTorch in a program."""

    path: str
    line: int
    name: str


def dotted(node: ast.AST) -> str:
    """`torch.nn.functional.relu` of an expression; nothing, if it is none of names alone."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def imported(tree: ast.AST) -> dict[str, str]:
    """The program's names of what it imports from torch: its name -> PyTorch's."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    own = alias.asname or "torch"
                    found[own] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            if module.split(".")[0] == "torch":
                found |= {a.asname or a.name: f"{module}.{a.name}" for a in node.names}
    return found


def uses(path: Path) -> Iterator[Use]:
    """All names of PyTorch in a program."""
    tree = ast.parse(path.read_text(), str(path))
    names = imported(tree)
    inner = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imports(path, node)
        elif isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in inner:
            text = dotted(node)
            first, _, rest = text.partition(".")
            if first in names:
                whole = names[first] + (f".{rest}" if rest else "")
                yield Use(str(path), node.lineno, whole)


def _imports(path: Path, node: ast.Import | ast.ImportFrom) -> Iterator[Use]:
    prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
    if isinstance(node, ast.ImportFrom) and node.level:
        return
    for alias in node.names:
        name = prefix + alias.name
        if name.split(".")[0] == "torch" and alias.name != "*":
            yield Use(str(path), node.lineno, name)


def is_there(name: str) -> bool:
    """Has needle.torch a name of PyTorch's? Attributes of what is no module are not looked up."""
    found: object = importlib.import_module(FACE)
    path = FACE
    for part in name.split(".")[1:]:
        if not isinstance(found, ModuleType):
            return True
        path += f".{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(path)
            except ImportError:
                return False
    return True


def missing(paths: Iterable[Path]) -> list[Use]:
    """The uses of names that are not here."""
    known: dict[str, bool] = {}
    found = []
    for path in paths:
        for use in uses(path):
            if use.name not in known:
                known[use.name] = is_there(use.name)
            if not known[use.name]:
                found.append(use)
    return sorted(set(found))
