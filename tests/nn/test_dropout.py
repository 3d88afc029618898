"""Dropout: which elements go for a seed, its derivatives, and where its numbers come from."""

import os
import subprocess
import sys

import numpy as np
import pytest

import needle as ndl
from needle import autograd, nn
from needle.testing import check_grads

F = nn.functional
RNG = np.random.default_rng(0)


def sample(*shape, dtype="float32"):
    values = RNG.standard_normal(shape)
    values.reshape(-1)[:3] = -0.0, np.inf, np.nan
    return ndl.tensor(values.astype(np.float32), dtype=dtype)


def by_definition(x, p, shape):
    """x m / (1 - p) in operators, with numbers that a kernel draws into memory."""
    numbers = ndl.rand(*shape)
    return x * (numbers < 1 - p).astype(x.dtype) / (1 - p)


def bits(x):
    return x.astype("float64").numpy().view(np.int64)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 1 / 3, 1e-9, 1 - 1e-9])
def test_numbers_of_a_seed(p, dtype):
    for shape, mask in (((7, 333), (7, 333)), ((2, 3, 5, 4), (2, 3, 1, 1)), ((5,), (1,))):
        x = sample(*shape, dtype=dtype)
        found = []
        for function in (by_definition, lambda x, p, s: F.dropout(x, p, mask_shape=s)):
            ndl.manual_seed(11)
            ndl.rand(3)  # not at a multiple of four
            found.append(bits(function(x, p, mask)))
            found.append(ndl.rand(5).numpy())  # the stream goes on behind
        np.testing.assert_array_equal(found[0], found[2])
        np.testing.assert_array_equal(found[1], found[3])


def test_numbers_follow_c_order_in_every_layout():
    x = sample(6, 4, 5, 8)
    ndl.manual_seed(2)
    expected = F.dropout(x, 0.4).numpy()
    for order, back in (((0, 2, 3, 1), (0, 3, 1, 2)), ((3, 2, 1, 0), (3, 2, 1, 0))):
        turned = ndl.tensor(np.ascontiguousarray(x.numpy().transpose(order))).permute(back)
        assert turned.shape == x.shape and turned.numpy().tobytes() == x.numpy().tobytes()
        ndl.manual_seed(2)
        np.testing.assert_array_equal(F.dropout(turned, 0.4).numpy(), expected)


def test_numbers_of_numpy_in_the_courses_order():
    x = ndl.ones(6, 50)
    np.random.seed(5)
    ndl.set_rng_state({**ndl.get_rng_state()})
    out, after = F.dropout(x, 0.3).numpy(), np.random.rand()
    np.random.seed(5)
    kept = np.random.rand(6, 50) <= 0.7
    np.testing.assert_array_equal(out, kept.astype(np.float32) / np.float32(0.7))
    assert np.random.rand() == after


def test_whole_numbers_are_promoted():
    ndl.manual_seed(0)
    out = F.dropout(ndl.tensor([3] * 100, dtype="int64"), 0.5)
    assert out.numpy().dtype.kind == "f" and set(out.numpy().tolist()) == {0.0, 6.0}


# Derivatives -------------------------------------------------------------------------------------


def seeded(x, p=0.4, mask_shape=None):
    ndl.manual_seed(3)
    return F.dropout(x, p, mask_shape=mask_shape)


@pytest.mark.parametrize("mask_shape", [None, (3, 1)])
def test_derivatives(mask_shape):
    x = ndl.tensor(RNG.standard_normal((3, 40)), dtype="float64")
    check_grads(lambda x: seeded(x, mask_shape=mask_shape) * x, x)
    check_grads(lambda x: (seeded(x.tanh(), mask_shape=mask_shape) ** 2).sum(), x)


def test_a_mask_that_is_larger_than_its_input():
    x = ndl.tensor(RNG.standard_normal((1, 8)), dtype="float64")
    assert seeded(x, mask_shape=(5, 8)).shape == (5, 8)
    check_grads(lambda x: seeded(x, mask_shape=(5, 8)), x)


def test_forward_mode_uses_the_same_mask():
    x = ndl.ones(200)
    y, tangent = ndl.jvp(lambda x: seeded(x), (x,), (ndl.ones(200) * 2,))
    np.testing.assert_array_equal(tangent.numpy(), 2 * y.numpy())


def test_checkpoint_draws_the_same_again():
    x = ndl.tensor(RNG.standard_normal((4, 60)).astype(np.float32), requires_grad=True)
    found = []
    for wrap in (lambda f: f, lambda f: lambda x: ndl.checkpoint(f, x)):
        ndl.manual_seed(4)
        y = wrap(lambda x: F.dropout(F.dropout(x.tanh(), 0.2), 0.5))(x)
        (y * y).sum().backward()
        found.append((y.numpy(), x.grad.numpy(), ndl.get_rng_state()))
    assert found[0][2] == found[1][2]
    for ours, theirs in zip(found[0][:2], found[1][:2], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_lazy_mode_draws_when_it_is_called(monkeypatch):
    x = ndl.tensor(RNG.standard_normal((4, 60)).astype(np.float32), requires_grad=True)
    found = []
    for mode in (False, True):
        monkeypatch.setattr(autograd, "LAZY_MODE", mode)
        ndl.manual_seed(4)
        first = F.dropout(x, 0.5)
        second = F.dropout(x, 0.5)
        assert (first.cached_data is None) == mode
        second.sum().backward()
        found.append((second.numpy(), first.numpy(), x.grad.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


SCRIPT = """
import needle as ndl
from needle.nn import functional as F
ndl.manual_seed(6)
x = ndl.rand(5, 33, requires_grad=True)
y = F.dropout(x, 0.3)
z = F.dropout(y, 0.6, mask_shape=(5, 1))
(z * y).sum().backward()
print(ndl.BACKEND, y.numpy().tobytes().hex(), x.grad.numpy().tobytes().hex())
"""


@pytest.mark.skipif(ndl.BACKEND == "np", reason="compares the modes")
def test_the_same_over_numpy_arrays():
    found = []
    for backend in ("nd", "np"):
        environment = {**os.environ, "NEEDLE_BACKEND": backend}
        command = [sys.executable, "-c", SCRIPT]
        found.append(subprocess.run(command, env=environment, capture_output=True, check=True))
    (_, *ours), (mode, *theirs) = (done.stdout.split() for done in found)
    assert mode == b"np" and ours == theirs
