"""The package as it is installed: silent, typed, of one version, complete."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import needle as ndl

ROOT = Path(__file__).parents[2]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_import_is_silent() -> None:
    process = run("import needle")
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


def test_import_loads_nothing_heavy() -> None:
    """numpy is the only array library; test tools and plotting stay out."""
    code = "import sys, needle; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = set(run(code).stdout.split())
    assert "numpy" in loaded
    assert not loaded & {
        "torch",
        "jax",
        "scipy",
        "matplotlib",
        "pytest",
        "hypothesis",
        "pickletools",
    }


def test_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ndl.__version__ == project["version"]
    assert importlib.metadata.version("needle-dl") == project["version"]
    assert ndl._native.__version__ == project["version"]


def test_package_is_typed() -> None:
    package = Path(ndl.__file__).parent
    assert (package / "py.typed").exists()
    assert (package / "_native.pyi").exists()


def test_stub_names_what_the_native_module_has() -> None:
    stub = (Path(ndl.__file__).parent / "_native.pyi").read_text()
    public = [name for name in dir(ndl._native) if not name.startswith("_")]
    assert public
    assert not [name for name in public if not re.search(rf"^(def|class)? ?{name}\b", stub, re.M)]


@pytest.mark.parametrize(("split", "count"), [("train", 1437), ("test", 360), ("all", 1797)])
def test_digits(split: str, count: int) -> None:
    x, y = ndl.data.digits(split)
    assert (x.shape, x.dtype) == ((count, 64), np.float32)
    assert (y.shape, y.dtype) == ((count,), np.int64)
    assert x.min() == 0
    assert x.max() == 1
    assert set(y) == set(range(10))


def test_digits_parts_are_the_whole() -> None:
    together = np.concatenate([ndl.data.digits("train")[0], ndl.data.digits("test")[0]])
    whole = ndl.data.digits()[0]
    assert np.array_equal(np.unique(together, axis=0), np.unique(whole, axis=0))


def test_digits_refuses_another_split() -> None:
    with pytest.raises(ValueError, match=r"\[digits\] expected split .* got 'validation'"):
        ndl.data.digits("validation")


def test_a_python_without_the_global_lock_is_refused() -> None:
    """As a free-threaded build answers; nothing native is loaded before."""
    code = (
        "import sys; sys._is_gil_enabled = lambda: {}\n"
        "try:\n    import needle\n"
        "except ImportError as error:\n"
        "    print(error, any('_native' in name for name in sys.modules))\n"
    )
    refused = run(code.format(False)).stdout
    assert "[needle] expected Python's global lock" in refused and "PYTHON_GIL=1" in refused
    assert refused.endswith(" False\n")
    assert run(code.format(True)).stdout == ""


NAMED = r"(?:`|^ +|^|: )make ([a-z][\w-]*)(?=`| PYTHON| +#|$)"  # in a line of its own, or in code


def test_make_targets_that_are_named_exist() -> None:
    """In the pages, in the workflow and in the hooks of commits."""
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.M))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    others = [ROOT / ".github" / "workflows" / "test.yml", ROOT / ".pre-commit-config.yaml"]
    named: set[str] = set()
    for path in (*pages, *others, ROOT / ".ci" / "run"):
        found = re.findall(
            r"(?:`|^ +|^|: )make ([a-z][\w-]*)(?=`| PYTHON| +#|$)", path.read_text(), re.M
        )
        assert found or path in pages, path
        named |= set(found)
    assert named - targets == set() and {"check", "test", "lint", "wheel"} <= named
