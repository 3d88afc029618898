"""Eager and lazy mode, the devices, and random state that ends with each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import needle as ndl
from needle.backend import cpu, cpu_numpy
from needle.ndarray import random


@pytest.fixture(autouse=True)
def _global_state_ends_with_the_test() -> Iterator[None]:
    with random.replayed(random.snapshot()):
        yield
    ndl.autograd.LAZY_MODE = False


@pytest.fixture
def lazy() -> None:
    """Values compute when their data is asked for."""
    ndl.autograd.LAZY_MODE = True


@pytest.fixture(params=[cpu(), cpu_numpy()], ids=str)
def device(request: pytest.FixtureRequest) -> Any:
    return request.param
