"""Containers: names of their own, modules that are replaced, parameters in lists and dicts."""

import copy
from collections import OrderedDict

import pytest

import needle as ndl
from needle import nn


def test_sequential_of_named_modules():
    chain = nn.Sequential(OrderedDict([("fc", nn.Linear(2, 3)), ("act", nn.ReLU())]))
    chain.add_module("out", nn.Linear(3, 1))
    assert [n for n, _ in chain.named_children()] == ["fc", "act", "out"]
    assert [*chain.state_dict()] == ["fc.weight", "fc.bias", "out.weight", "out.bias"]
    assert chain.fc is chain[0] and chain.modules[2] is chain.out
    assert [n for n, _ in chain[1:].named_children()] == ["act", "out"]
    assert [n for n, _ in copy.deepcopy(chain).named_children()] == ["fc", "act", "out"]
    assert chain.append(nn.Tanh())(ndl.randn(5, 2)).shape == (5, 1) and len(chain) == 4
    with pytest.raises(AttributeError, match="Sequential has no module or attribute 'conv'"):
        chain.conv  # noqa: B018


def held(kind):
    modules = [nn.Linear(2, 2), nn.ReLU()]
    return (
        kind({"0": modules[0], "1": modules[1]})
        if kind is nn.ModuleDict
        else (kind(modules) if kind is nn.ModuleList else kind(*modules))
    )


@pytest.mark.parametrize("kind", [nn.Sequential, nn.ModuleList, nn.ModuleDict])
def test_a_module_is_replaced_under_its_name(kind):
    """As programs do that walk a model: `setattr(parent, name, other)`."""
    parent = held(kind)
    for name, child in parent.named_children():
        assert getattr(parent, name) is child
        if isinstance(child, nn.ReLU):
            setattr(parent, name, nn.Tanh())
    assert [type(m).__name__ for _, m in parent.named_children()] == ["Linear", "Tanh"]
    assert parent.eval().training is False


def test_a_compiled_function_sees_a_module_replaced_under_its_name():
    chain = nn.Sequential(nn.ReLU(), nn.Identity())
    step = ndl.jit(lambda x: chain(x))
    assert step(-ndl.ones(2)).tolist() == [0, 0]
    setattr(chain, "0", nn.Identity())
    assert step(-ndl.ones(2)).tolist() == [-1, -1]


def test_parameter_lists_and_dicts():
    class Model(nn.Module):
        def __init__(self):
            self.scales = nn.ParameterList([nn.Parameter(ndl.ones(2)), ndl.zeros(3)])
            self.scales.append(ndl.ones(1))
            self.named = nn.ParameterDict({"a": ndl.ones(2)})
            self.named["b"] = ndl.zeros(1)

    model = Model()
    names = ["scales.0", "scales.1", "scales.2", "named.a", "named.b"]
    assert [n for n, _ in model.named_parameters()] == names
    assert all(p.requires_grad for p in model.parameters())
    assert len(model.scales) == 3 and model.scales[-1].shape == (1,) and "b" in model.named
    assert sum(p.sum() for p in model.scales).item() == 3
