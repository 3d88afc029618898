"""What the tests of jit share: a network with every kind of state, and a step that trains it."""

import numpy as np

import needle as ndl
from needle import nn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 4)).astype(np.float32)


def bits(x):
    return np.asarray(x.numpy() if hasattr(x, "numpy") else x)


NUMPY_STATE = ndl.get_rng_state()


def network():
    ndl.set_rng_state(NUMPY_STATE)
    np.random.seed(0)
    return nn.Sequential(
        nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)
    )


def training_step(model, optimizer):
    loss_of = nn.SoftmaxLoss()

    def step(x, y):
        optimizer.reset_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step
