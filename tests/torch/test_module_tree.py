"""nn.Module: registering, walking, hooks, states, copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import needle.torch as torch
from needle.torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(4, 2, bias=False))
        self.register_buffer("scale", torch.ones(2))
        self.register_buffer("hidden", torch.zeros(1), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)) * self.scale


def test_names() -> None:
    net = Net()
    assert list(net.state_dict()) == ["scale", "first.weight", "first.bias", "second.1.weight"]
    assert [name for name, _ in net.named_buffers()] == ["scale", "hidden"]
    net.tied = net.first
    assert [name for name, _ in net.named_modules()] == [
        "", "first", "second", "second.0", "second.1"
    ]  # fmt: skip
    assert len(list(net.parameters())) == 3
    assert net.get_submodule("second.1") is net.second[1]


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("first", 3, "child module 'first'"),
        ("scale", 3, "buffer 'scale'"),
    ],
)
def test_assigning_what_does_not_fit(name: str, value: object, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        setattr(Net(), name, value)


def test_before_init() -> None:
    class Bad(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Bad()


def test_loading() -> None:
    net, other = Net(), Net()
    assert str(net.load_state_dict(other.state_dict())) == "<All keys matched successfully>"
    assert torch.equal(net.first.weight, other.first.weight)
    state = dict(other.state_dict())
    del state["scale"]
    state["more"] = torch.ones(1)
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "scale"'):
        net.load_state_dict(state)
    found = net.load_state_dict(state, strict=False)
    assert (found.missing_keys, found.unexpected_keys) == (["scale"], ["more"])
    with pytest.raises(RuntimeError, match=r"size mismatch for first\.bias"):
        net.load_state_dict({**other.state_dict(), "first.bias": torch.ones(5)})


def test_states_show_the_weights() -> None:
    net = Net()
    state = net.state_dict()
    with torch.no_grad():
        net.first.weight.add_(1)
    assert torch.equal(state["first.weight"], net.first.weight)


def test_hooks() -> None:
    net, seen = Net(), []
    handle = net.first.register_forward_hook(lambda m, x, y: seen.append("after") or y * 2)
    net.first.register_forward_pre_hook(lambda m, x: seen.append("before"))
    x = torch.ones(1, 3)
    doubled = net.first(x)
    handle.remove()
    assert torch.allclose(doubled, net.first(x) * 2)
    assert seen == ["before", "after", "before"]


def test_backward_hooks() -> None:
    layer, seen = nn.Linear(3, 2), []
    layer.register_full_backward_hook(lambda m, gx, gy: seen.append((gx[0].shape, gy[0].shape)))
    layer.register_full_backward_pre_hook(lambda m, gy: (gy[0] * 2,))
    x = torch.ones(1, 3, requires_grad=True)
    layer(x).sum().backward()
    assert seen == [((1, 3), (1, 2))]
    assert torch.allclose(x.grad, 2 * layer.weight.detach().sum(0, keepdim=True))


def test_copies() -> None:
    net = Net()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert repr(other) == repr(net)
        assert torch.equal(other.first.weight, net.first.weight)
        assert other.first.weight is not net.first.weight
        assert isinstance(other.first.weight, nn.Parameter)


def test_casting() -> None:
    net = Net().double()
    assert {p.dtype for p in net.parameters()} == {torch.float64}
    assert net(torch.ones(2, 3, dtype=torch.float64)).dtype == torch.float64
    with pytest.raises(TypeError, match="floating point"):
        net.to(torch.int64)
