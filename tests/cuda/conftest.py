"""Tests of cuda(): they need a GPU or the simulator (NEEDLE_CUDA=sim)."""

import pytest

import needle as ndl


@pytest.fixture
def device():
    if not ndl.cuda.is_available():
        pytest.skip("needs a GPU, or NEEDLE_CUDA=sim")
    return ndl.cuda()
