"""Documentation runs: README.md, docs/*.md and every docstring example of the package.

In a page, ```python blocks run in order in one namespace; a ```text block directly after one is
what it prints.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest

import needle as ndl

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\s*```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")  # (file, section)


class Example(NamedTuple):
    line: int
    source: str
    printed: str | None


def examples(page: Path) -> list[Example]:
    text = page.read_text()
    return [
        Example(text.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in BLOCK.finditer(text)
    ]


def modules() -> list[ModuleType]:
    names = [ndl.__name__]
    found = pkgutil.walk_packages(ndl.__path__, f"{ndl.__name__}.")
    names += [m.name for m in found if not m.name.endswith("__main__")]
    modules = (importlib.import_module(name) for name in names)
    return [m for m in modules if inspect.ismodule(m)]  # needle.cuda is an object


@pytest.mark.parametrize("page", [p for p in PAGES if examples(p)], ids=lambda p: p.name)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.random.seed(0)
    namespace: dict[str, object] = {"__name__": f"docs.{page.stem.replace('-', '_')}"}
    for example in examples(page):
        # Blank lines in front make error messages name the page's own lines.
        code = compile("\n" * example.line + example.source, str(page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(code, namespace)
        if example.printed is not None:
            assert output.getvalue() == example.printed, f"{page.name}:{example.line} printed"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for file, section in LINK.findall(page.read_text()):
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not section or section in sections(target), f"{file}#{section}"


def sections(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.__name__)
def test_docstrings(module: ModuleType) -> None:
    np.random.seed(0)
    known = {"ndl": ndl, "np": np}
    failed, _ = doctest.testmod(module, extraglobs=known, optionflags=FLAGS)
    assert failed == 0


PUBLIC = [ndl, ndl.nn, ndl.nn.functional, ndl.nn.init, ndl.optim, ndl.data, ndl.io, ndl.testing]


def public_names() -> Iterator[tuple[str, object]]:
    """Functions, classes, and the methods and properties that classes define themselves."""
    for module in PUBLIC:
        for name in dir(module):
            value = getattr(module, name)
            is_ours = (getattr(value, "__module__", None) or "").startswith("needle")
            if name.startswith("_") or not is_ours:
                continue
            yield f"{module.__name__}.{name}", value
            if inspect.isclass(value):
                own = ((f"{name}.{n}", getattr(value, n)) for n in vars(value) if n[0] != "_")
                yield from ((n, v) for n, v in own if callable(v) or isinstance(v, property))


def test_help_says_something_about_every_public_name() -> None:
    missing = {name for name, value in public_names() if not inspect.getdoc(value)}
    assert missing == set()


def test_readme_quotes_an_operator_as_it_is() -> None:
    quoted = textwrap.indent(
        inspect.getsource(ndl.ops.Tan), "    ", lambda line: bool(line.strip())
    )
    source = Path(ndl.ops.unary.__file__).read_text().splitlines()
    (function,) = (line for line in source if line.startswith("tan = "))
    assert f"{quoted}\n\n    {function}\n" in (ROOT / "README.md").read_text()


def test_site_has_every_page() -> None:
    listed = set(re.findall(r'"([\w/-]+\.md)"', (ROOT / "tools" / "build_site.py").read_text()))
    assert {str(page.relative_to(ROOT)) for page in PAGES} - listed == set()


def test_layout_page_lists_every_file_of_the_core() -> None:
    text = (ROOT / "docs" / "layout.md").read_text()
    package, native = ROOT / "python" / "needle", ROOT / "native"
    modules = [f.relative_to(package) for f in package.rglob("*.py") if f.stem[0] != "_"]
    present = {str(f) for f in modules if f.parts[0] != "cli"}
    present |= {str(f.relative_to(native)) for f in native.rglob("*.*") if f.suffix != ".cmake"}
    listed = set(re.findall(r"`([\w/]+\.(?:py|h|cc|def|cu|cuh))`", text))
    assert present - listed == set()
    gone = {f for f in listed if not any((d / f).exists() for d in (package, native, ROOT))}
    assert gone == set()
