"""Max pooling where windows lie in the padding, as dilation allows: PyTorch writes the gradients of
such windows outside of its memory, so the definition is the reference."""

import numpy as np
import pytest

from .max_pool import Pool, check

CASES = [
    ((1,), Pool((2,), (1,), (1,), (2,)), 1),  # the taps are at -1 and 1
    ((2,), Pool((2,), (1,), (2,), (3,)), 1),
    ((3,), Pool((2,), (1,), (2,), (4,)), 1),
    ((2, 2), Pool((2, 2), (1, 1), (1, 1), (3, 3)), 1),
    ((2, 3), Pool((2, 2), (1, 2), (2, 1), (3, 2)), 2),
    ((5, 1), Pool((3, 2), (2, 1), (2, 1), (2, 2)), 3),
    ((1, 1, 2), Pool((2, 1, 2), (1, 1, 1), (1, 0, 1), (2, 1, 2)), 2),
    ((4,), Pool((2,), (3,), (2,), (4,), True), 0),
]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(("space", "pool", "empty"), CASES)
def test_windows_in_the_padding(space, pool, empty, compiled):
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (2, 3, *space)).astype(float)
    assert check(pool, x, rng, compiled) == 6 * empty
    x[rng.random(x.shape) < 0.4] = -np.inf
    x[rng.random(x.shape) < 0.2] = np.nan
    check(pool, x, rng, compiled)
