"""The documentation as a small static site: README, docs/*.md and the public names' docstrings.

Usage: python tools/build_site.py build/site
"""

from __future__ import annotations

import html
import inspect
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import markdown

import needle as ndl
from needle import data, io, nn, optim, testing

ROOT = Path(__file__).parents[1]
# In reading order: using needle, how it works, changing it.
PAGES = [
    "README.md",
    "docs/training.md",
    "docs/distributed.md",
    "docs/coming-from-pytorch.md",
    "docs/torch.md",
    "docs/numerics.md",
    "docs/custom-op.md",
    "docs/env.md",
    "docs/results.md",
    "docs/performance.md",
    "docs/from-scratch.md",
    "docs/design.md",
    "docs/compiler.md",
    "docs/cuda-simulator.md",
    "docs/layout.md",
    "docs/add-an-op.md",
    "docs/add-a-device.md",
    "docs/building.md",
    "docs/cuda.md",
    "docs/cuda-kernels.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
MODULES = [ndl, nn, nn.functional, nn.init, optim, data, io, testing]  # of the API's page
TEMPLATE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title} · needle</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto;
       padding: 0 1rem }}
pre, code {{ font: 14px/1.4 ui-monospace, monospace; background: #f4f4f2 }}
pre {{ padding: .7rem; overflow-x: auto }} table {{ border-collapse: collapse }}
td, th {{ border: 1px solid #ddd; padding: .2rem .6rem; text-align: left }}
nav a {{ margin-right: 1rem }}
</style>
<nav>{navigation}</nav>
{body}
"""


def page_name(source: str) -> str:
    return "index.html" if source == "README.md" else f"{Path(source).stem.lower()}.html"


def link_target(target: str) -> str:
    """A link between Markdown files as one between pages; other files keep their path."""
    path, hash_sign, section = target.partition("#")
    names = {Path(p).name: page_name(p) for p in PAGES}
    return names.get(Path(path).name, path.removeprefix("docs/")) + hash_sign + section


def render(text: str) -> str:
    linked = re.sub(r"\]\((?!https?:)([^)]+)\)", lambda m: f"]({link_target(m[1])})", text)
    return markdown.markdown(linked, extensions=["fenced_code", "tables", "toc"])


def is_own(value: object) -> bool:
    """Is it needle's, not NumPy's or typing's?"""
    return (getattr(value, "__module__", None) or "").startswith("needle")


def api_entry(name: str, value: object) -> str:
    """### name(signature), then the docstring as it is written."""
    try:
        signature = str(inspect.signature(value)) if callable(value) else ""
    except ValueError:
        signature = ""
    signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature)  # annotations without quotes
    doc = html.escape(inspect.getdoc(value) or "")
    return f"<h3><code>{name}{html.escape(signature)}</code></h3>\n<pre>{doc}</pre>\n"


def api_body(module: ModuleType) -> str:
    """Functions first, then classes, each in alphabetical order."""
    public = {
        n: v for n in dir(module) if not n.startswith("_") and is_own(v := getattr(module, n))
    }
    functions = sorted(n for n, v in public.items() if inspect.isroutine(v))
    classes = sorted(n for n, v in public.items() if inspect.isclass(v))
    parts = [f"<h1>{module.__name__}</h1>"]
    for title, names in (("Functions", functions), ("Classes", classes)):
        parts.append(f"<h2>{title}</h2>")
        parts += [api_entry(name, public[name]) for name in names]
    return "\n".join(parts)


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    titles = {p: Path(p).stem.replace("-", " ").capitalize() for p in PAGES} | {
        "README.md": "Needle"
    }
    links = {page_name(p): title for p, title in titles.items()} | {"api.html": "API"}
    navigation = "".join(f'<a href="{page}">{title}</a>' for page, title in links.items())

    def write(name: str, title: str, body: str) -> None:
        page = TEMPLATE.format(title=title, navigation=navigation, body=body)
        (out / name).write_text(page)

    for source in PAGES:
        write(page_name(source), titles[source], render((ROOT / source).read_text()))
    write("api.html", "API", "\n".join(map(api_body, MODULES)))
    shutil.copytree(ROOT / "docs" / "images", out / "images", dirs_exist_ok=True)
    print(f"{len(links)} pages in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
