"""Control flow from source: the same eagerly and compiled, with gradients."""

import numpy as np
import pytest

import needle as ndl

from .source_functions import FUNCTIONS, INPUTS


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_and_gradients(function):
    compiled = ndl.jit(function)
    gradient = ndl.jit(ndl.grad(lambda x: function(x).sum()))
    for numbers in INPUTS:
        x = ndl.tensor(numbers)
        np.testing.assert_allclose(compiled(x).numpy(), function(x).numpy(), rtol=1e-5)
        expected = ndl.grad(lambda x: function(x).sum())(x)
        np.testing.assert_allclose(gradient(x).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert compiled.cache_info().misses == 1
    assert gradient.cache_info().misses == 1
