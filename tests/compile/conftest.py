"""With NEEDLE_BACKEND=np nothing is compiled: functions run as they are."""

import pytest

import needle as ndl

if ndl.BACKEND == "np":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def numpy_generator():
    before = ndl.get_rng_state()
    yield
    ndl.set_rng_state(before)
