"""Gradients after `zero_grad` add up, as PyTorch's do; after `reset_grad` they are overwritten."""

from __future__ import annotations

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.nn import functional as F


def steps(module, clear, n=3, compiled=False):
    """The gradient of a weight after each of n backward passes without clearing between."""
    layer = nn.Linear(2, 1)
    layer.load_state_dict({"weight": ndl.ones(2, 1), "bias": ndl.zeros(1, 1)})
    optimizer = ndl.optim.SGD(layer.parameters(), lr=0.1)
    (optimizer if module == "optim" else layer).__getattribute__(clear)()

    def step(x):
        loss = layer(x).square().sum()
        loss.backward()
        return loss

    run = ndl.jit(step) if compiled else step
    found = []
    for i in range(n):
        run(ndl.tensor([[1.0, 2.0 + i]]))
        found.append(layer.weight.grad.numpy().copy())
    return found


ONE = [2 * (3.0 + i) * np.array([[1.0], [2.0 + i]]) for i in range(3)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("module", ["optim", "nn"])
def test_zero_grad_adds_up(module, compiled):
    for found, expected in zip(
        steps(module, "zero_grad", compiled=compiled), np.cumsum(ONE, 0), strict=True
    ):
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_reset_grad_overwrites(compiled):
    for found, expected in zip(steps("optim", "reset_grad", compiled=compiled), ONE, strict=True):
        np.testing.assert_allclose(found, expected)


def test_a_compiled_step_notices_zero_grad():
    w = nn.Parameter(ndl.ones(2))
    optimizer = ndl.optim.SGD([w], lr=0.1)

    @ndl.jit
    def step(x):
        (w * x).sum().backward()

    x = ndl.tensor([1.0, 2.0])
    step(x)
    step(x)
    assert w.grad.tolist() == [1, 2]  # overwritten, as in the course
    optimizer.zero_grad()
    step(x)
    step(x)
    assert w.grad.tolist() == [2, 4]
    optimizer.zero_grad(set_to_none=False)
    assert w.grad.tolist() == [0, 0]
    step(x)
    assert w.grad.tolist() == [1, 2]
    optimizer.reset_grad()
    step(x)
    step(x)
    assert w.grad.tolist() == [1, 2]


def test_accumulation_as_in_torch():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    ours = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    ours.load_state_dict(theirs.state_dict())
    rng = np.random.default_rng(0)
    batches = [(rng.normal(size=(6, 4)).astype("f4"), rng.integers(0, 3, 6)) for _ in range(6)]

    def losses(model, module, functional, tensor):
        optimizer = module.optim.AdamW(model.parameters(), lr=0.01)
        optimizer.zero_grad()
        for i, (x, y) in enumerate(batches):
            loss = functional.cross_entropy(model(tensor(x)), tensor(y)) / 2
            loss.backward()
            if i % 2:
                module.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
            yield loss.item()

    expected = [*losses(theirs, torch, torch.nn.functional, torch.tensor)]
    np.testing.assert_allclose([*losses(ours, ndl, F, ndl.tensor)], expected, rtol=1e-5)


def test_earlier_graphs_are_let_go():
    w = nn.Parameter(ndl.ones(3))
    ndl.optim.SGD([w], lr=0.1).zero_grad()
    counts = []
    for _ in range(4):
        (w.exp() * w).sum().backward()
        counts.append(ndl.autograd.TENSOR_COUNTER)
    assert counts[-1] <= counts[1] + 1
