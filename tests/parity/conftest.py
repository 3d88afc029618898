"""Fixtures of the parity suite."""

import pytest

from needle import _native

from .operands import TILES


@pytest.fixture
def amx():
    """Runs the test on AMX, then on what it ran before."""
    before = _native.instruction_set()
    _native.use_instruction_set(TILES)
    yield
    _native.use_instruction_set(before)
