"""Random numbers: NumPy's own until a seed is set, then Philox, equal on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle.backend import cpu, cpu_numpy
from needle.ndarray.random import Generator

OUTPUT_OF_ZERO = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # Random123's known answers


def test_numbers_come_from_numpy_in_the_order_of_the_course() -> None:
    np.random.seed(7)
    ours = [
        ndl.rand(2, 3, low=-1.0, high=2.0),
        ndl.randn(4, mean=1.0, std=3.0),
        ndl.randb(5, p=0.3),
        ndl.randint(-2, 9, (3,)),
        ndl.randperm(6),
        ndl.rand(),
    ]
    np.random.seed(7)
    theirs: list[Any] = [
        np.random.rand(2, 3) * 3 - 1,
        np.random.randn(4) * 3 + 1,
        np.random.rand(5) <= 0.3,
        np.random.randint(-2, 9, size=(3,)),
        np.random.permutation(6),
        np.random.rand(),
    ]
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-6)
    assert [str(a.dtype) for a in ours] == ["float32"] * 2 + ["bool", "int64", "int64", "float32"]


def test_initializers() -> None:
    for make, expected in (
        (lambda: ndl.init.xavier_uniform(3, 5, gain=2.0), lambda: _uniform(3**0.5)),
        (lambda: ndl.init.xavier_normal(3, 5, gain=2.0), lambda: np.random.randn(3, 5)),
        (lambda: ndl.init.kaiming_uniform(3, 5), lambda: _uniform(2**0.5)),
        (lambda: ndl.init.kaiming_normal(3, 5), lambda: np.random.randn(3, 5) * (2 / 3) ** 0.5),
    ):
        np.random.seed(1)
        ours = make().numpy()
        np.random.seed(1)
        np.testing.assert_allclose(ours, expected(), rtol=1e-5)
    assert ndl.init.kaiming_uniform(27, 8, shape=(3, 3, 3, 8)).shape == (3, 3, 3, 8)
    with pytest.raises(AssertionError, match=r"\[kaiming_uniform\] only the gain of 'relu'"):
        ndl.init.kaiming_uniform(2, 2, nonlinearity="tanh")


def _uniform(bound: float) -> Any:
    return (np.random.rand(3, 5) * 2 - 1) * bound


def test_known_answers() -> None:
    """Philox 4x32-10 with key 0 and counter 0."""
    u = Generator(0).uniform((4,))
    np.testing.assert_array_equal(np.asarray(u), [(w >> 8) * 2.0**-24 for w in OUTPUT_OF_ZERO])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_devices_agree(name: str, dtype: str) -> None:
    draws = [
        np.asarray(getattr(Generator(5), name)((3, 333), dtype=dtype, device=d))
        for d in (cpu(), cpu_numpy())
    ]
    # float64 logarithms differ in the last bit between libraries
    np.testing.assert_allclose(*draws, rtol=1e-14 if dtype == "float64" else 0)


def test_devices_agree_on_whole_numbers() -> None:
    for draw in (
        lambda d: Generator(5).integers(-7, 30, (100,), device=d),
        lambda d: Generator(5).permutation(100, device=d),
        lambda d: Generator(5).bernoulli((100,), 0.4, device=d),
    ):
        np.testing.assert_array_equal(np.asarray(draw(cpu())), np.asarray(draw(cpu_numpy())))


def test_numbers_do_not_depend_on_threads() -> None:
    threads = ndl.get_num_threads()
    draws = []
    try:
        for n in (1, 2, 3):
            ndl.set_num_threads(n)
            ndl.manual_seed(11)
            draws.append([ndl.rand(70_001).numpy(), ndl.randn(70_001).numpy()])
    finally:
        ndl.set_num_threads(threads)
    for other in draws[1:]:
        np.testing.assert_array_equal(draws[0], other)


def test_streams_do_not_overlap() -> None:
    """What one call draws does not depend on how the calls before it were split."""
    ndl.manual_seed(3)
    whole = ndl.rand(10).numpy()
    ndl.manual_seed(3)
    parts = np.concatenate([ndl.rand(3).numpy(), ndl.rand(7).numpy()])
    np.testing.assert_array_equal(whole, parts)
    generator = Generator(3)
    used = [generator.position]
    for draw in ("uniform", "normal", "uniform"):
        getattr(generator, draw)((3,))
        used.append(generator.position)
    assert used == [0, 3, 10, 13]  # normal numbers start at an even word and take two


def test_distributions() -> None:
    ndl.manual_seed(0)
    n = 100_000
    u, z = ndl.rand(n, low=2.0, high=4.0).numpy(), ndl.randn(n, mean=-1.0, std=0.5).numpy()
    k = ndl.randint(-3, 4, (n,)).numpy()
    assert u.min() >= 2 and u.max() <= 4 and abs(u.mean() - 3) < 0.01
    assert abs(z.mean() + 1) < 0.01 and abs(z.std() - 0.5) < 0.01
    counts = np.bincount(k + 3)
    assert counts.size == 7 and np.all(abs(counts / n - 1 / 7) < 0.01)
    assert abs(ndl.randb(n, p=0.2).numpy().mean() - 0.2) < 0.01
    assert not ndl.randb(n, p=0.0).numpy().any() and ndl.randb(n, p=1.0).numpy().all()
    np.testing.assert_array_equal(np.sort(ndl.randperm(1000).numpy()), np.arange(1000))


def test_states_continue_either_generator() -> None:
    for prepare in (lambda: np.random.seed(1), lambda: ndl.manual_seed(1)):
        prepare()
        ndl.randn(3)
        state = ndl.get_rng_state()
        first = ndl.randn(5).numpy()
        ndl.manual_seed(99)
        ndl.set_rng_state(state)
        np.testing.assert_array_equal(ndl.randn(5).numpy(), first)


def test_generators_are_independent() -> None:
    a, b = Generator(1), Generator(2)
    first = ndl.rand(4, generator=a).numpy()
    ndl.rand(4, generator=b)
    assert not np.array_equal(first, ndl.rand(4, generator=a).numpy())
    np.testing.assert_array_equal(first, ndl.rand(4, generator=Generator(1)).numpy())


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"\[manual_seed\] expected a seed from 0 to 2\*\*64 - 1"):
        ndl.manual_seed(-1)
    with pytest.raises(TypeError, match=r"\[rand\] expected a floating dtype, got int32"):
        ndl.rand(2, dtype="int32")
    with pytest.raises(ValueError, match=r"\[randint\] expected low < high, got 3 and 3"):
        ndl.randint(3, 3, (1,))
    with pytest.raises(ValueError, match=r"\[bernoulli\] expected a probability from 0 to 1"):
        ndl.randb(2, p=1.5)
    with pytest.raises(ValueError, match=r"\[set_state\] expected a philox state, got 'other'"):
        ndl.set_rng_state({"generator": "other"})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_numpys_numbers_are_below_1_in_every_dtype(
    dtype: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np.random, "rand", lambda *shape: np.full(shape, 1 - 2.0**-53))
    drawn = ndl.rand(*shape, dtype=dtype).astype("float64")
    assert 0.99 < drawn.max().item() < 1
