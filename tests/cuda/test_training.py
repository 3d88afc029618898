"""Networks train on the device as on the CPU: the same weights, masks and losses."""

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim


def mlp():
    return nn.Sequential(
        nn.Linear(20, 32), nn.LayerNorm(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 5)
    )


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(8 * 16, 5),
    )  # fmt: skip


SHAPES = {mlp: (16, 20), cnn: (8, 3, 8, 8)}


def losses(network, device, compiled):
    np.random.seed(0)
    ndl.manual_seed(0)
    rng = np.random.default_rng(0)
    model = network().to(device)
    shape = SHAPES[network]
    x = ndl.Tensor(rng.standard_normal(shape).astype("float32"), device=device)
    y = ndl.Tensor(rng.integers(0, 5, shape[0]), device=device, dtype="int64")
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = ndl.jit(step) if compiled else step
    return [float(step(x, y).numpy()) for _ in range(4)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("network", SHAPES)
def test_losses_are_those_of_the_cpu(device, network, compiled):
    actual, expected = losses(network, device, compiled), losses(network, ndl.cpu(), False)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_the_same_random_numbers(device):
    drawn = []
    for where in (device, ndl.cpu()):
        ndl.manual_seed(7)
        mask = nn.Dropout(0.5)(ndl.ones(100, device=where))
        drawn.append((ndl.rand(50, device=where).numpy(), mask.numpy()))
    for actual, expected in zip(*drawn, strict=True):
        np.testing.assert_array_equal(actual, expected)
