"""A compiled model is still the model."""

import numpy as np
import pytest

import needle as ndl
from needle import nn


@pytest.fixture
def model():
    ndl.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))


def test_parameters_and_state_are_the_models(model):
    compiled = ndl.jit(model)
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in model.parameters()]
    assert compiled.state_dict().keys() == model.state_dict().keys()
    assert compiled.modules is model.modules
    other = {name: value * 0 for name, value in model.state_dict().items()}
    compiled.load_state_dict(other)
    assert all((p.numpy() == 0).all() for p in model.parameters())


def test_modes_are_the_models(model):
    compiled, x = ndl.jit(model), ndl.ones(4, 3)
    assert compiled.training and model.training
    first, second = compiled(x).numpy(), compiled(x).numpy()
    assert (first != second).any()  # dropout draws anew
    compiled.eval()
    assert not model.training and not compiled.training
    np.testing.assert_array_equal(compiled(x).numpy(), model(x).numpy())


def test_attributes_are_read_and_set_in_the_model(model):
    compiled = ndl.jit(model)
    model.note = 1
    assert compiled.note == 1
    compiled.note = 2
    assert model.note == 2
    with pytest.raises(AttributeError):
        compiled.absent  # noqa: B018
    assert not hasattr(ndl.jit(lambda x: x), "parameters")


def test_it_trains(model):
    compiled = ndl.jit(model.eval())
    optimizer = ndl.optim.Adam(compiled.parameters(), lr=0.05)
    x, y = ndl.rand(32, 3), ndl.tensor(np.arange(32) % 2)
    losses = []
    for _ in range(20):
        loss = nn.functional.cross_entropy(compiled(x), y)
        compiled.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
