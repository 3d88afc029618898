"""What all tests share: fixed seeds, a check of the compiler's graphs after every pass, and a
hypothesis profile with the same runs everywhere."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import needle as ndl
from needle import config

config.VERIFY = True

settings.register_profile(
    "needle",
    deadline=None,
    derandomize=True,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("needle")


@pytest.fixture(autouse=True)
def _fixed_seed():
    np.random.seed(0)
    state = ndl.get_rng_state()
    yield
    ndl.set_rng_state(state)


def pytest_terminal_summary(terminalreporter):
    """The seed of every fuzz test, and how to repeat a case that failed. Not in tests/fuzz, whose
    conftest.py is not known to the process that starts xdist's workers."""
    lines = [
        f"{report.nodeid}: {text}"
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for name, text in report.user_properties
        if name == "fuzz"
    ]
    if lines:
        terminalreporter.section("fuzzing")
    for line in sorted(lines):
        terminalreporter.write_line(line)
