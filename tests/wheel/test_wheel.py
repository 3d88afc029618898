"""The wheels that `make wheel` has put into dist/, in an environment with nothing else but NumPy.

Without a wheel for this Python there is nothing to test; `make wheel-test` builds it first.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
from tools import check_wheel

ROOT = Path(__file__).parents[2]
VERSION = f"cp3{sys.version_info.minor}"


def is_usable(wheel: Path) -> bool:
    python, abi = wheel.stem.split("-")[-3:-1]
    return python == VERSION or (abi == "abi3" and int(python[3:]) <= sys.version_info.minor)


WHEELS = sorted(filter(is_usable, (ROOT / "dist").glob("needle_dl-*.whl")))
pytestmark = pytest.mark.skipif(not WHEELS, reason="make wheel-test builds a wheel for this Python")
wheels = pytest.mark.parametrize("wheel", WHEELS, ids=lambda path: path.name)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with NumPy alone: this one's, so that nothing is downloaded."""
    root = tmp_path_factory.mktemp("empty")
    venv.create(root, with_pip=False, symlinks=True)
    site = next(root.glob("lib/python3.*/site-packages"))
    for path in Path(np.__file__).parents[1].glob("numpy*"):
        (site / path.name).symlink_to(path)
    return root


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@wheels
def test_contents(wheel: Path) -> None:
    assert check_wheel.problems(wheel) == []


@wheels
def test_trains_with_nothing_but_numpy(wheel: Path, empty: Path, tmp_path: Path) -> None:
    python = empty / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--isolated")
    run(*pip, "install", "-q", "--no-index", "--force-reinstall", "--no-deps", wheel, cwd=tmp_path)
    assert "No broken requirements" in run(*pip, "check", cwd=tmp_path)
    printed = run(empty / "bin" / "needle", "train", "digits", "--epochs", "3", cwd=tmp_path)
    found = re.search(r"test accuracy ([\d.]+)%", printed)
    assert found is not None, printed
    assert float(found[1]) > 90
