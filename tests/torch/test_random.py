"""The same seed gives PyTorch's numbers, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import needle.torch as face

real = pytest.importorskip("torch")
SIZES = (0, 1, 2, 5, 15, 16, 17, 31, 32, 33, 100, 1000, 4099)
FLOATS = ("float32", "float64", "float16", "bfloat16")


def both(draw: Callable[[Any], Any], seed: int = 7) -> None:
    """Draw from both libraries and compare the results, and what comes next."""
    results = []
    for library in (real, face):
        library.manual_seed(seed)
        found = draw(library)
        listed = found if isinstance(found, (list, tuple)) else [found]
        following = [library.rand(3), library.randn(3)]
        results.append([np.asarray(x.double().numpy()) for x in (*listed, *following)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", SIZES)
def test_rand(n: int, dtype: str) -> None:
    both(lambda t: t.rand(n, dtype=getattr(t, dtype)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", SIZES)
def test_randn(n: int, dtype: str) -> None:
    both(lambda t: t.randn(n, dtype=getattr(t, dtype)))


@pytest.mark.parametrize("high", [2, 1000, 2**28, 2**28 + 1, 2**31, 2**40, 2**62])
def test_randint(high: int) -> None:
    both(lambda t: t.randint(high, (100,)))
    both(lambda t: t.randint(-high, high, (7, 3)))


@pytest.mark.parametrize("n", [0, 1, 2, 10, 1000, 20_000])
def test_randperm(n: int) -> None:
    both(lambda t: t.randperm(n))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [3, 16, 100])
def test_fills(n: int, dtype: str) -> None:
    for fill in (
        lambda x: x.uniform_(-2, 3),
        lambda x: x.normal_(1.5, 0.25),
        lambda x: x.bernoulli_(0.3),
        lambda x: x.exponential_(2.0),
    ):
        both(lambda t, fill=fill: fill(t.empty(n, dtype=getattr(t, dtype))))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool"])
def test_random_(dtype: str) -> None:
    both(lambda t: t.empty(50, dtype=getattr(t, dtype)).random_())


def test_draws_by_tensors() -> None:
    both(lambda t: t.bernoulli(t.linspace(0, 1, 50)))
    both(lambda t: t.normal(t.arange(20.0), t.linspace(0.5, 1, 20)))
    both(lambda t: t.multinomial(t.linspace(0.1, 1, 20), 5))
    both(lambda t: t.multinomial(t.linspace(0.1, 1, 20).reshape(2, 10), 1))
    both(lambda t: t.multinomial(t.linspace(0.1, 1, 20), 30, replacement=True))


def test_generators() -> None:
    a, b = real.Generator().manual_seed(3), face.Generator().manual_seed(3)
    for n in (5, 40):
        expected = real.randn(n, generator=a).numpy()
        np.testing.assert_array_equal(expected, face.randn(n, generator=b).numpy())
    np.testing.assert_array_equal(a.get_state().numpy(), b.get_state().numpy())


def test_states_are_exchanged() -> None:
    real.manual_seed(11)
    real.randn(5)  # keeps a number
    face.set_rng_state(face.tensor(real.get_rng_state().numpy()))
    np.testing.assert_array_equal(real.randn(8).numpy(), face.randn(8).numpy())
