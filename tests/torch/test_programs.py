"""Programs as people write them give the same numbers under PyTorch and under needle.torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")


def printed(folder: Path, *command: str) -> str:
    """What a program prints; its files go to a folder."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", *command],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_same_losses(path: Path, tmp_path: Path) -> None:
    theirs = printed(tmp_path, str(path))
    ours = printed(tmp_path, "-m", "needle.torch", str(path))
    assert "loss" in theirs
    assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
    numbers = [[float(x) for x in NUMBER.findall(text)] for text in (ours, theirs)]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-4, abs=1e-4)
    assert len(numbers[0]) >= 4


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 26
