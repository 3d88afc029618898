"""Every kernel file is launched, gives what the CPU gives, and passes all checks in two orders."""

import numpy as np
import pytest

import needle as ndl
from needle.backend.gpu.modules import SOURCES

from .calls import CALLS
from .driver import launches, settings

RENDERED = {"softmax"}  # written when it is run


def test_each_file_has_a_call():
    assert {path.stem for path in SOURCES.glob("*.cu")} == CALLS.keys() - RENDERED


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("file", CALLS)
def test_it_is_launched(device, file, seed):
    with settings(seed=seed):
        actual = CALLS[file](device).numpy()
        launched = {launch.kernel.decode() for launch in launches()}
    assert file in RENDERED or file in launched
    expected = CALLS[file](ndl.cpu()).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
