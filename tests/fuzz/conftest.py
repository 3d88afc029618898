"""Fuzz tests: random cases until the time is up, from a fresh seed that is printed.

A fuzz test takes its cases from the fixture:

    def test_random_programs(fuzz):
        for rng in fuzz:  # a numpy Generator per case
            ...

Case k of a run has the generator of (seed, k), so that a failing case is repeated on its own. The
summary at the end names the seed of each fuzz test, and the case that failed:

    NEEDLE_FUZZ_SECONDS  how long each test runs, 30 if not set; 0 runs one case
    NEEDLE_FUZZ_SEED     the seed, or seed:case to start at that case; fresh if not set
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator

import numpy as np
import pytest

SECONDS = 30.0
PROPERTY = "fuzz"  # what a report carries to the summary, which tests/conftest.py writes


class Fuzz:
    """The random cases of one test."""

    def __init__(self, seed: int, first: int, seconds: float):
        self.seed = seed
        self.first = self.case = first
        self.seconds = seconds

    def __iter__(self) -> Iterator[np.random.Generator]:
        end = time.monotonic() + self.seconds
        while self.case == self.first or time.monotonic() < end:
            yield np.random.default_rng([self.seed, self.case])
            self.case += 1

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.case - self.first} cases held"

    @property
    def replay(self) -> str:
        """The settings that repeat the present case alone."""
        return f"NEEDLE_FUZZ_SEED={self.seed}:{self.case} NEEDLE_FUZZ_SECONDS=0"


@pytest.fixture
def fuzz(request, record_property):
    """Random generators, one per case, until the time is up."""
    seed, _, case = os.environ.get("NEEDLE_FUZZ_SEED", "").partition(":")
    seconds = float(os.environ.get("NEEDLE_FUZZ_SECONDS", SECONDS))
    made = Fuzz(int(seed or secrets.randbits(32)), int(case or 0), seconds)
    yield made
    failed = request.node.stash.get(_FAILED, False)
    record_property(PROPERTY, f"{made}; replay: {made.replay}" if failed else str(made))


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report
