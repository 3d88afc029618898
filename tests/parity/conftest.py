"""Fixtures of the parity suite."""

import pytest

from needle import _native

from .operands import PAIRS, TILES


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
