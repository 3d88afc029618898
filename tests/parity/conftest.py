"""Fixtures of the parity suite, and which of its cases a simulated device takes."""

import math

import pytest

import needle as ndl
from needle import _native

from .operands import PAIRS, TILES

# Multiply-adds of a case, times its layouts, by the case's parameters. Sizes that only cut a CPU's
# blocks are left to it: a simulator with all checks does some ten million in a second.
WORK = {
    "test_large_matmul_in_every_transposition": lambda case: 8 * math.prod(case["sizes"]),
    "test_many_products_with_one_left_factor": lambda case: 6 * math.prod(case["sizes"]),
    "test_large_widened_matmul": lambda case: 4.5e6 * case["rows"],
}
MOST_WORK = 50e6


def pytest_collection_modifyitems(config, items):
    if not _native.cuda.is_simulated():
        return
    large = [item for item in items if _work(item) > MOST_WORK]
    config.hook.pytest_deselected(items=large)
    items[:] = [item for item in items if _work(item) <= MOST_WORK]


def _work(item):
    case = item.callspec.params if hasattr(item, "callspec") else {}
    if case.get("device") != ndl.cuda() or item.originalname not in WORK:
        return 0
    return WORK[item.originalname](case)


@pytest.fixture
def amx():
    """Runs the test on AMX."""
    yield from _used(TILES)


@pytest.fixture(params=PAIRS or [None])
def pairs(request):
    """Runs the test on each instruction set that multiplies pairs of bfloat16."""
    if request.param is None:
        pytest.skip("this machine multiplies no pairs of bfloat16")
    yield from _used(request.param)


def _used(instruction_set):
    before = _native.instruction_set()
    _native.use_instruction_set(instruction_set)
    yield
    _native.use_instruction_set(before)
