"""docs/add-an-op.md, done: its operators are added to a copy of the tree, which is built and run.

A step of the page names a file and the line that its code goes below or above.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

import needle as ndl

ROOT = Path(__file__).parents[2]
# How many files an operator may touch.
PLACES = {"An elementwise operator": 4, "One with mathematics of its own": 6, "A reduction": 6}
COPIED = ("CMakeLists.txt", "pyproject.toml", "native", "python", "tests", "tools")
PYTHON = (sys.executable, "-S")
NAMES = ("softsign", "cbrt", "peak")


class Edit(NamedTuple):
    path: str
    side: str  # of the line that follows
    line: str
    code: str


def edits(section: str) -> list[Edit]:
    """What the steps of a section of the page say."""
    page = (ROOT / "docs" / "add-an-op.md").read_text()
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = []
    for step in re.split(r"^\d\. ", text, flags=re.M)[1:]:
        path = re.match(r"`([\w/.]+)`", step)
        assert path, step
        for said, code in re.findall(
            r"(.*?)((?:^ {7}[^\n]*\n|^\n(?=\n* {7}))+)", step, re.M | re.S
        ):
            place = re.search(r"(above|below) `([^`]+)`", " ".join(said.split()))
            assert place, said
            found.append(Edit(path[1], place[1], place[2], textwrap.dedent(code).strip("\n")))
    return found


def do(edit: Edit, tree: Path) -> None:
    path = tree / edit.path
    lines = path.read_text().splitlines()
    (at,) = (n for n, line in enumerate(lines) if line.strip().startswith(edit.line))
    indent = " " * (len(lines[at]) - len(lines[at].lstrip()))
    if edit.side == "below":
        indent += "    " if lines[at].endswith(("(", "[")) else ""
        at += 1
    code = textwrap.indent(edit.code, indent).splitlines()
    apart = [""] * (2 if edit.path.endswith(".py") else 1) if len(code) > 1 else []
    lines[at:at] = [*code, *apart]
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("section", PLACES)
def test_a_new_operator_touches_few_places(section: str, tmp_path: Path) -> None:
    paths = {edit.path for edit in edits(section)}
    assert 0 < len(paths) <= PLACES[section]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    for edit in edits(section):
        do(edit, tmp_path)  # which fails if its line is not there, or more than once


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    # The copy's package goes before an installed one; python -S, as here, runs no hooks of that.
    paths = os.pathsep.join([str(cwd / "python"), *site.getsitepackages()])
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with all operators of the page, built for this machine."""
    cmake, ninja = (shutil.which(name, path=search_path()) for name in ("cmake", "ninja"))
    nanobind = pytest.importorskip("nanobind")
    if cmake is None or ninja is None:
        pytest.skip("needs cmake and ninja")
    tree = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        source = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tree / name, **({"ignore": ignored} if source.is_dir() else {}))
    for section in PLACES:
        for edit in edits(section):
            do(edit, tree)
    options = {
        "SKBUILD": "ON",
        "SKBUILD_PROJECT_VERSION": ndl.__version__,
        "NEEDLE_ISAS": "native",
        "Python_EXECUTABLE": sys.executable,
        "nanobind_DIR": nanobind.cmake_dir(),
        "CMAKE_MAKE_PROGRAM": ninja,
    }
    if ccache := shutil.which("ccache"):
        options["CMAKE_CXX_COMPILER_LAUNCHER"] = ccache
    given = [f"-D{name}={value}" for name, value in options.items()]
    run(cmake, "-S", ".", "-B", "build", "-G", "Ninja", *given, cwd=tree)
    relative = {"CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "1"}
    jobs = f"-j{os.cpu_count()}"
    run(cmake, "--build", "build", "--target", "_native", jobs, cwd=tree, **relative)
    for library in (tree / "build").glob("_native*.so"):
        shutil.copy(library, tree / "python" / "needle")
    for tool in ("public_names", "tensor_methods"):  # as make format does
        run(*PYTHON, f"tools/{tool}.py", cwd=tree)
    return tree


def search_path() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


@pytest.mark.slow
def test_its_tests_pass(tree: Path) -> None:
    chosen = " or ".join(NAMES)
    tests = ("tests/ops", "tests/parity/test_parity.py", "tests/parity/test_parity_reduce.py")
    text = run(*PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *tests,
               "tests/unit/test_tensor_methods.py", cwd=tree)  # fmt: skip
    found = re.search(r"(\d+) passed", text)
    assert found and int(found[1]) > 100


USE = """
import subprocess, sys, tempfile
from pathlib import Path
import numpy as np
import needle as ndl

x = ndl.tensor(np.random.default_rng(0).uniform(-3, 3, (7, 100)).astype(sys.argv[1]))

def f(x):
    return ndl.softsign(x) * 2, x.cbrt() * 3, (x * 2).peak(1), ndl.peak(x)

eager = [y.numpy() for y in f(x)]
step = ndl.jit(f)
compiled = [y.numpy() for y in step(x)]
for a, b in zip(eager, compiled, strict=True):
    np.testing.assert_array_equal(a, b)
v = x.numpy()
peak = v[np.arange(7), np.abs(v).argmax(1)] * 2, v.ravel()[np.abs(v).argmax()]
known = v / (1 + np.abs(v)) * 2, np.cbrt(v) * 3, *peak
for a, b in zip(eager, known, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-6)
if sys.argv[2] == "built":
    assert step.program.calls.built
if sys.argv[2] == "exported":
    folder = Path(tempfile.mkdtemp())
    ndl.export(f, x, path=folder / "model.c")
    (folder / "main.c").write_text('''
#include <stdio.h>
#include "model.h"
static REAL x[700], a[700], b[700], c[7], d[1];
int main(void) {
  if (fread(x, sizeof *x, 700, stdin) != 700) return 1;
  model(x, a, b, c, d);
  fwrite(a, sizeof *a, 700, stdout), fwrite(b, sizeof *b, 700, stdout);
  fwrite(c, sizeof *c, 7, stdout), fwrite(d, sizeof *d, 1, stdout);
  return 0;
}
'''.replace("REAL", "float" if v.dtype == np.float32 else "double"))
    warned = "-Wall -Wextra -Werror -pedantic".split()
    subprocess.run(["cc", "-std=c11", "-O2", *warned, "model.c", "main.c", "-lm", "-o", "run"],
                   cwd=folder, check=True)
    given = subprocess.run([folder / "run"], input=v.tobytes(), capture_output=True, check=True)
    np.testing.assert_array_equal(
        np.frombuffer(given.stdout, v.dtype), np.concatenate([y.ravel() for y in eager])
    )
"""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("way", ["compiled", "built", "exported"])
def test_it_runs(tree: Path, way: str, dtype: str) -> None:
    tier = "native" if way == "built" else "tile"
    run(*PYTHON, "-W", "error", "-c", USE, dtype, way, cwd=tree, NEEDLE_JIT=tier)
