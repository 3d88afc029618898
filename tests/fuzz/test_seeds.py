"""The seeds of fuzz tests: printed, and enough to repeat a case."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FAILING = """
def test_small(fuzz):
    for rng in fuzz:
        drawn = rng.integers(100)
        assert drawn < 90, f"drew {drawn}"
"""
PASSING = """
def test_any(fuzz):
    assert len({float(rng.random()) for rng in fuzz}) == fuzz.case > 1
"""


def _run(folder, *options, **settings):
    """The output of pytest over a folder that is laid out as tests/ is."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NEEDLE_FUZZ", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, folder]
    done = subprocess.run(command, env=env | settings, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def folder(tmp_path):
    own = Path(__file__).parent
    (tmp_path / "fuzz").mkdir()
    shutil.copy(own.parent / "conftest.py", tmp_path)
    shutil.copy(own / "conftest.py", tmp_path / "fuzz")
    return tmp_path


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_failing_case_is_repeated_by_what_the_summary_prints(folder, workers):
    (folder / "fuzz" / "test_failing.py").write_text(FAILING)
    first = _run(folder, *workers, NEEDLE_FUZZ_SECONDS="30")
    drawn = re.search(r"drew \d+", first)[0]
    replay = re.search(r"replay: NEEDLE_FUZZ_SEED=((\d+):\d+) NEEDLE_FUZZ_SECONDS=0", first)
    again = _run(folder, *workers, NEEDLE_FUZZ_SEED=replay[1], NEEDLE_FUZZ_SECONDS="0")
    assert drawn in again and f"seed {replay[2]}, 0 cases held" in again


def test_a_passing_test_prints_a_fresh_seed_and_how_many_cases_held(folder):
    (folder / "fuzz" / "test_passing.py").write_text(PASSING)
    printed = [
        re.search(r"test_passing.py::test_any: seed (\d+), (\d+) cases held", text)
        for text in (_run(folder, NEEDLE_FUZZ_SECONDS="0.2") for _ in range(2))
    ]
    seeds = {found[1] for found in printed}
    assert len(seeds) == 2 and all(int(found[2]) > 0 for found in printed)
