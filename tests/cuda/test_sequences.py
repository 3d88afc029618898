"""Kernels that check indices, in compiled functions: they wait, and raise as they do alone."""

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim


def model(device):
    np.random.seed(0)
    return nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 5)).to(device)


def losses(device, compiled):
    network = model(device)
    optimizer = optim.SGD(network.parameters(), lr=0.1)
    rng = np.random.default_rng(0)

    def step(words, target):
        loss = nn.functional.cross_entropy(network(words).reshape(-1, 5), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = ndl.jit(step) if compiled else step
    found = []
    for _ in range(5):  # other words in each step
        words = ndl.Tensor(rng.integers(0, 20, (4, 6)), device=device, dtype="int64")
        target = ndl.Tensor(rng.integers(0, 5, 24), device=device, dtype="int64")
        found.append(float(step(words, target).numpy()))
    return found


def test_embeddings_learn_as_on_the_cpu(device):
    expected = losses(ndl.cpu(), False)
    np.testing.assert_allclose(losses(device, True), expected, rtol=1e-5)


def test_a_compiled_function_refuses_indices(device):
    network = model(device)
    look_up = ndl.jit(lambda words: network(words).exp())
    good = ndl.Tensor([[1, 2], [19, 0]], device=device, dtype="int64")
    expected = look_up(good).numpy()
    for _ in range(2):
        with pytest.raises(IndexError, match="expected ids from 0 to 19, got 20"):
            look_up(ndl.Tensor([[1, 2], [20, 0]], device=device, dtype="int64")).numpy()
        np.testing.assert_array_equal(look_up(good).numpy(), expected)
