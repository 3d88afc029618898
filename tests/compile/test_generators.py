"""Random numbers from generators that are not needle's: compiled functions refuse to draw them."""

import random
import secrets
import types

import numpy as np
import pytest

import needle as ndl
from needle import nn

x = ndl.tensor([1.0, 2.0])


class Drawing(nn.Module):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(0)

    def forward(self, x):
        return x * self.rng.random()


generator, state, python = np.random.default_rng(0), np.random.RandomState(0), random.Random(0)
holder = types.SimpleNamespace(inner=np.random.default_rng(0))
drawing = Drawing()


def _state_of(owner):
    return lambda: owner.bit_generator.state


@pytest.mark.parametrize(
    ("name", "draw", "read"),
    [
        (r"NumPy's global generator \(np.random\)", np.random.rand, np.random.get_state),
        (r"Python's global generator \(random\)", random.random, random.getstate),
        ("a np.random.Generator", lambda: generator.normal(), _state_of(generator)),
        ("a np.random.Generator", lambda: holder.inner.random(), _state_of(holder.inner)),
        ("a np.random.Generator", lambda: drawing(ndl.ones(1)), _state_of(drawing.rng)),
        ("a np.random.RandomState", lambda: state.rand(), state.get_state),
        ("a random.Random", lambda: python.random(), python.getstate),
    ],
)
def test_numbers_that_would_be_the_same_in_every_call_are_refused(name, draw, read):
    before = str(read())
    f = ndl.jit(lambda x: x * draw())
    with pytest.raises(ndl.TraceError, match=rf"draws from {name}.*draw with ndl.rand"):
        f(x)
    assert str(read()) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.random.default_rng().random(),
        lambda: np.random.RandomState().rand(),
        lambda: random.Random().random(),
        lambda: random.SystemRandom().random(),
        lambda: secrets.randbelow(10),
    ],
)
def test_generators_without_a_seed_are_refused_in_the_function_only(make):
    def f(x):
        return x * make()

    with pytest.raises(ndl.TraceError, match=r"without a seed .*\n.*test_generators.py"):
        ndl.jit(f)(x)
    f(x)


def test_a_generator_with_a_seed_draws_the_same_in_eager_mode_too():
    c = types.SimpleNamespace(seed=0)

    def f(x):
        noise = np.random.default_rng(c.seed).random() + random.Random(c.seed).random()
        return x * noise

    compiled = ndl.jit(f)
    for c.seed in (0, 0, 1):
        assert compiled(x).tolist() == f(x).tolist()
    assert compiled.cache_info().misses == 2


def test_a_function_that_raises_draws_nothing():
    def f(x):
        np.random.rand()
        generator.normal()
        raise ZeroDivisionError

    before = str(np.random.get_state()), str(generator.bit_generator.state)
    with pytest.raises(ZeroDivisionError):
        ndl.jit(f)(x)
    assert (str(np.random.get_state()), str(generator.bit_generator.state)) == before


def test_needles_own_draws_are_not_refused():
    np.random.seed(0)
    expected = [(x * ndl.rand(2)).tolist() for _ in range(2)]
    np.random.seed(0)
    f = ndl.jit(lambda x: x * ndl.rand(2))
    assert [f(x).tolist() for _ in range(2)] == expected


def test_state_that_is_made_on_first_use_may_be_drawn():
    made = []

    @ndl.jit
    def f(x):
        if not made:
            made.append(ndl.tensor(np.random.rand(2)))
        return x * made[0]

    assert f(x).tolist() == f(x).tolist() == (x * made[0]).tolist()


def test_an_operator_in_python_draws_in_every_call():
    class Noisy(ndl.autograd.TensorOp):
        def compute(self, a):
            noise = np.random.rand(*a.shape).astype(np.float32)
            return ndl.tensor(a.numpy() * noise).realize_cached_data()

        def gradient(self, out_grad, node):
            return out_grad

    np.random.seed(0)
    expected = [Noisy()(x).tolist() for _ in range(3)]
    np.random.seed(0)
    f = ndl.jit(lambda x: Noisy()(x))
    with pytest.warns(RuntimeWarning, match="runs as Python"):
        found = [f(x).tolist()]
    assert [*found, f(x).tolist(), f(x).tolist()] == expected
