"""Imports go one way: a module may import its own layer and those below it, nothing above.

config, dtype <- backend <- ndarray <- autograd <- ops <- init <- everything else <- cli
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import needle as ndl

PACKAGE = Path(ndl.__file__).parent

LAYERS = [
    {"absent", "config", "dtype", "facts", "user_code", "_native"},
    {"backend"},
    {"ndarray"},
    {"autograd", "cycles", "grad_mode", "graph", "op", "rebinding", "reverse", "tensor_methods"},
    {"ops"},
    {"init"},
    {
        "amp",
        "anomaly",
        "clipping",
        "data",
        "io",
        "nn",
        "optim",
        "recompute",
        "testing",
        "transforms",
        "tree",
    },
    {"compile"},
    {"models", "trainer"},
    {"cli"},
    {"__main__"},
    # the course's names, and PyTorch's
    {"backend_ndarray", "backend_numpy", "backend_selection", "course_paths", "utils"},
    {"__init__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Beside one another, not above: these do not know of each other.
APART = {"data", "nn", "optim"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_layers(path: Path) -> Iterator[tuple[int, str]]:
    """(line, layer) of every import from the package, wherever it stands in the file."""
    here = ("needle", *path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text())):
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
                yield node.lineno, target[1] if len(target) > 1 else "__init__"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    layer = layer_of(path)
    for line, target in imported_layers(path):
        upward = RANK[target] > RANK[layer]
        sideways = {layer, target} <= APART and layer != target
        assert not upward and not sideways, f"{path.name}:{line} imports {target} from {layer}"


def test_imports_are_seen() -> None:
    """The check itself sees absolute, relative and nested imports."""
    layers = {layer for _, layer in imported_layers(PACKAGE / "backend" / "reference.py")}
    assert {"dtype", "backend"} <= layers
