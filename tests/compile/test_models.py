"""A compiled model is still the model."""

import copy
import pickle

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


class Holder(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part(x)


@pytest.mark.parametrize(
    "hold",
    [
        Holder,
        lambda part: nn.Sequential(nn.Identity(), part),
        lambda part: Holder(nn.ModuleList([part])[0]),
        lambda part: Holder(nn.ModuleDict({"a": part})["a"]),
    ],
)
def test_a_module_that_holds_a_compiled_one_has_its_parameters(model, hold):
    outer, plain = hold(ndl.jit(model)), hold(model)
    assert [id(p) for p in outer.parameters()] == [id(p) for p in model.parameters()]
    assert outer.state_dict().keys() == plain.state_dict().keys()
    assert any(m is model for m in outer.modules())
    assert not outer.eval().part.training if isinstance(outer, Holder) else outer.eval()
    assert not model.training
    x = ndl.ones(4, 3)
    np.testing.assert_allclose(outer(x).numpy(), plain(x).numpy(), rtol=1e-6)
    np.testing.assert_allclose(ndl.jit(outer)(x).numpy(), plain(x).numpy(), rtol=1e-6)
    outer(x).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_pythons_own_look_ups_answer_as_the_model_does(model):
    compiled = ndl.jit(model)
    assert isinstance(compiled, nn.Sequential) and isinstance(compiled, type(ndl.jit(model)))
    assert not isinstance(ndl.jit(lambda x: x), nn.Module)
    assert len(compiled) == 4 and compiled[1] is model[1] and [*compiled] == [*model]
    assert model[0] in compiled and compiled and ndl.jit(model[0])
    assert "parameters" in dir(compiled) and "kernels" in dir(compiled)
    compiled.note = 1
    del compiled.note
    assert not hasattr(model, "note")
    with pytest.raises(TypeError, match="Linear"):
        len(ndl.jit(model[0]))


def test_an_attribute_of_a_class_is_no_method(model):
    class Program:
        net = ndl.jit(model.eval())

    x = ndl.ones(1, 3)
    np.testing.assert_allclose(Program().net(x).numpy(), model(x).numpy(), rtol=1e-6)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_is_compiled_and_has_parameters_of_its_own(model, copied):
    compiled = ndl.jit(model.eval())
    other, x = copied(compiled), ndl.ones(1, 3)
    assert type(other) is type(compiled)
    for parameter in other.parameters():
        parameter.data = parameter.data * 0
    assert not other(x).numpy().any() and compiled(x).numpy().any()
    assert other.kernels
