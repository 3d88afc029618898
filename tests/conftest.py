"""What all tests share: fixed seeds, and a hypothesis profile with the same runs everywhere."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import needle as ndl

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
