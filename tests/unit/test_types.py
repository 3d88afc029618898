"""How many signatures say what they take and give: those with `Any` do not.

The cap is one signature in ten: those that pass on what they do not look at. PyTorch's face has one
of its own.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import needle as ndl

PACKAGE = Path(ndl.__file__).parent
CAP = 0.10  # of all signatures
FACE = "torch"  # PyTorch's functions take numbers, tensors of both faces, lists and arrays alike
FACE_CAP = 0.60


def says_any(function: ast.FunctionDef) -> bool:
    """Is `Any` part of an annotation of a parameter or of the result?"""
    a = function.args
    parameters = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
    found = [p.annotation for p in parameters if p is not None] + [function.returns]
    nodes = (node for annotation in found if annotation for node in ast.walk(annotation))
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)


def counts() -> tuple[Counter[str], Counter[str]]:
    """By room: all signatures, and those with `Any`."""
    every, vague = Counter[str](), Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                every[room] += 1
                vague[room] += says_any(node)
    return every, vague


def test_signatures_have_types() -> None:
    every, vague = counts()
    for room in sorted(every):
        print(f"{room}: {vague[room]} of {every[room]} signatures with Any")
    of_face = vague.pop(FACE) / every.pop(FACE)
    assert of_face <= FACE_CAP, f"{of_face:.3f} of the signatures of {FACE} have Any"
    share = vague.total() / every.total()
    assert share <= CAP, f"{vague.total()} of {every.total()} signatures have Any"
    assert share > 0.8 * CAP, f"only {share:.3f} of the signatures have Any now: lower the cap"


def test_any_is_seen() -> None:
    texts = {
        "def f(a: Any): ...": True,
        "def f(*a: int, **b: list[Any]) -> int: ...": True,
        "def f() -> dict[str, Any]: ...": True,
        "def f(a, b: int) -> object: ...": False,
    }
    for text, expected in texts.items():
        (function,) = ast.parse(text).body
        assert isinstance(function, ast.FunctionDef) and says_any(function) is expected
