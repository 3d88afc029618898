"""The course's initialisers draw from NumPy's global generator, in order, and nothing more."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import needle as ndl
from needle import init

OVER_NUMPY = ndl.BACKEND == "np"


def draws(function):
    """(what the function gave after a seed, the next number that NumPy would draw)."""
    np.random.seed(7)
    result = function()
    return result.numpy(), np.random.rand()


def check(function, expected):
    """The same numbers as `expected` draws, and the generator in the same state afterwards."""
    found, next_number = draws(function)
    np.random.seed(7)
    values = expected()
    assert next_number == np.random.rand()
    assert found.shape == np.shape(values)
    np.testing.assert_allclose(found, values, rtol=1e-6, atol=1e-7)


SHAPES = [(3, 4), (5,), (2, 3, 4)]


@pytest.mark.parametrize("shape", SHAPES)
def test_rand(shape):
    check(lambda: init.rand(*shape), lambda: np.random.rand(*shape))
    check(lambda: init.rand(*shape, low=-2.0, high=3.0), lambda: np.random.rand(*shape) * 5 - 2)


@pytest.mark.parametrize("shape", SHAPES)
def test_randn(shape):
    check(lambda: init.randn(*shape), lambda: np.random.randn(*shape))
    check(lambda: init.randn(*shape, mean=1.0, std=0.5), lambda: np.random.randn(*shape) * 0.5 + 1)


def test_randb():
    check(lambda: init.randb(30, 4), lambda: np.random.rand(30, 4) <= 0.5)
    check(lambda: init.randb(30, 4, p=0.1), lambda: np.random.rand(30, 4) <= 0.1)
    assert init.randb(2).dtype == "bool"
    assert init.randb(2, dtype="float32").dtype == "float32"


@pytest.mark.parametrize(
    ("function", "value"),
    [(lambda: init.constant(2, 3, c=2.5), 2.5), (lambda: init.constant(2, 3), 1),
     (lambda: init.ones(2, 3), 1), (lambda: init.zeros(2, 3), 0),
     (lambda: init.ones_like(ndl.Tensor(np.zeros((2, 3)))), 1),
     (lambda: init.zeros_like(ndl.Tensor(np.ones((2, 3)))), 0)],
)  # fmt: skip
def test_constants_draw_nothing(function, value):
    check(function, lambda: np.full((2, 3), value))


def test_defaults():
    for function in (init.rand, init.randn, init.ones, init.zeros, init.constant):
        x = function(2, 3)
        assert x.dtype == "float32" and not x.requires_grad and x.device == ndl.cpu()
        assert function(2, requires_grad=True).requires_grad
        assert function(2, device=ndl.cpu()).device == ndl.cpu()
        assert function(2, dtype="float64").dtype == "float64"
    assert ndl.ones(4, dtype="int32").dtype == "int32"
    assert ndl.zeros is init.zeros and ndl.ones_like is init.ones_like


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8"])
def test_one_hot(dtype):
    index = np.array([[0, 2], [3, 1]])
    found = init.one_hot(4, ndl.Tensor(index, dtype=dtype))
    assert found.shape == (2, 2, 4) and found.dtype == "float32"
    np.testing.assert_array_equal(found.numpy(), np.eye(4)[index])
    assert init.one_hot(4, ndl.Tensor(index, dtype=dtype), dtype="int32").dtype == "int32"


def test_one_hot_of_a_large_vocabulary_needs_no_square_matrix():
    found = init.one_hot(50_000, ndl.Tensor([3, 49_999]))
    assert found.shape == (2, 50_000) and found.numpy().sum() == 2


def test_xavier():
    bound = 1.5 * math.sqrt(6 / 7)
    check(
        lambda: init.xavier_uniform(3, 4, gain=1.5),
        lambda: np.random.rand(3, 4) * 2 * bound - bound,
    )
    check(
        lambda: init.xavier_normal(3, 4, gain=1.5),
        lambda: np.random.randn(3, 4) * 1.5 * math.sqrt(2 / 7),
    )


def test_kaiming():
    bound = math.sqrt(2) * math.sqrt(3 / 3)
    check(lambda: init.kaiming_uniform(3, 4), lambda: np.random.rand(3, 4) * 2 * bound - bound)
    check(
        lambda: init.kaiming_uniform(3, 4, shape=(2, 2, 3)),
        lambda: np.random.rand(2, 2, 3) * 2 * bound - bound,
    )
    check(
        lambda: init.kaiming_normal(3, 4),
        lambda: np.random.randn(3, 4) * math.sqrt(2) / math.sqrt(3),
    )
    with pytest.raises(AssertionError, match=r"\[kaiming_uniform\] only the gain of 'relu'"):
        init.kaiming_uniform(3, 4, nonlinearity="tanh")


def test_options_reach_the_draw():
    x = init.kaiming_uniform(3, 4, device=ndl.cpu(), dtype="float64", requires_grad=True)
    assert x.dtype == "float64" and x.requires_grad and x.device == ndl.cpu()


@pytest.mark.skipif(OVER_NUMPY, reason="would run for ever")
def test_all_of_this_over_numpy():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "NEEDLE_BACKEND": "np"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
