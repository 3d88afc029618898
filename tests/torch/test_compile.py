"""Compiled programs of PyTorch's face: `needle.jit` and `torch.compile` against eager mode."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import needle
import needle.torch as torch
import needle.torch.nn.functional as F
from needle.torch import nn


def assert_close(a, b, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol, atol)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)  # keys' has gradient 0, rounded
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (u.view(n, t, self.heads, c // self.heads).transpose(1, 2) for u in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.drop(self.out(y.transpose(1, 2).contiguous().view(n, t, c)))


class GPT(nn.Module):
    def __init__(self, vocabulary=11, width=16, block=8):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(block, width)
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, 2)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, idx):
        x = self.tokens(idx) + self.places(torch.arange(idx.shape[1]))
        x = x + self.attention(self.norm(x))
        x = x + self.mlp(self.norm(x))
        return self.head(x)


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.norm(self.conv(x)))


def mlp():
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    return model, torch.randn(8, 6), torch.randint(0, 3, (8,))


def resnet():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), Block(4), nn.MaxPool2d(2), Block(4),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip
    return model, torch.randn(4, 3, 8, 8), torch.randint(0, 3, (4,))


def gpt():
    return GPT(), torch.randint(0, 11, (2, 8)), torch.randint(0, 11, (2, 8))


MODELS = pytest.mark.parametrize("make", [mlp, resnet, gpt])
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-2),
    "radam": lambda p: torch.optim.RAdam(p, lr=1e-2),
}


def loss_of(model, x, y):
    logits = model(x)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))


def training(make, optimizer, wrap_step=None, wrap_model=None, steps=6):
    """The losses, the parameters and the buffers of some steps of training."""
    torch.manual_seed(0)
    model, x, y = make()
    called = wrap_model(model) if wrap_model else model
    updates = OPTIMIZERS[optimizer](model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(updates, 2, 0.5)

    def step(x, y):
        updates.zero_grad()
        loss = loss_of(called, x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        updates.step()
        return loss

    run = wrap_step(step) if wrap_step else step
    losses = []
    for _ in range(steps):
        loss = run(x, y)
        assert type(loss) is torch.Tensor
        losses.append(loss.item())
        schedule.step()
    assert all(type(p) is nn.Parameter and type(p.grad) is torch.Tensor for p in model.parameters())
    return torch.tensor(losses), model.state_dict(), updates.state_dict(), run


def check_same(one, other):
    assert_close(one[0], other[0], rtol=1e-4, atol=1e-5)
    for name, value in one[1].items():
        assert_close(other[1][name], value, rtol=1e-3, atol=1e-4)
    for number, values in one[2]["state"].items():
        assert values.keys() == other[2]["state"][number].keys()
        if "step" in values:
            assert values["step"] == other[2]["state"][number]["step"]


@MODELS
@pytest.mark.parametrize("optimizer", ["momentum", "adamw"])
def test_a_whole_training_step(make, optimizer):
    eager, compiled = training(make, optimizer), training(make, optimizer, needle.jit)
    check_same(eager, compiled)
    assert compiled[3].cache_info().misses == 2  # the state is made in the first call


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer(optimizer):
    check_same(training(mlp, optimizer), training(mlp, optimizer, needle.jit))


@MODELS
def test_torch_compile_of_the_model(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = training(make, "adamw", wrap_model=torch.compile)
    check_same(training(make, "adamw"), compiled)


@MODELS
def test_torch_compile_of_the_step(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = training(make, "adamw", torch.compile)
    check_same(training(make, "adamw"), compiled)


def test_arguments_and_results_are_of_the_face():
    seen = []

    @needle.jit
    def f(x, y):
        seen.append((type(x), type(y)))
        return x + 1, {"y": y * 2}

    a, b = f(torch.ones(2), needle.ones(2))
    assert seen == [(torch.Tensor, needle.Tensor)]
    assert type(a) is torch.Tensor and type(b["y"]) is needle.Tensor
    a, _ = f(needle.ones(2), needle.ones(2))
    assert type(a) is needle.Tensor


def test_random_numbers_are_those_of_eager_mode():
    def f(x):
        return x + torch.rand(3) + torch.randn(3) * F.dropout(x, 0.5)

    compiled = torch.compile(f)
    found = []
    for run in (f, compiled):
        torch.manual_seed(3)
        found.append(torch.stack([run(torch.ones(3)) for _ in range(3)]))
    assert_close(*found)
    assert not torch.equal(found[1][0], found[1][1])


def test_a_function_that_cannot_be_traced_runs_eagerly_with_one_warning():
    def f(x):
        return x * 2 if float(x.sum()) > 0 else x - 1

    compiled = torch.compile(f)
    with pytest.warns(RuntimeWarning, match="runs eagerly") as caught:
        assert compiled(torch.tensor([1.0])).item() == 2.0
        assert compiled(torch.tensor([-1.0])).item() == -2.0
    assert len(caught) == 1
    with pytest.raises(needle.TraceError):
        torch.compile(f, fullgraph=True)(torch.tensor([1.0]))


def test_an_optimizer_that_python_counts_for_is_not_compiled():
    model = nn.Linear(2, 1)
    updates = torch.optim.NAdam(model.parameters())

    def step(x):
        updates.zero_grad()
        loss = model(x).sum()
        loss.backward()
        updates.step()
        return loss

    with pytest.raises(needle.TraceError, match="NAdam"):
        needle.jit(step)(torch.ones(3, 2))
    assert not updates.state


def test_a_scheduler_is_not_traced():
    updates = torch.optim.SGD([nn.Parameter(torch.ones(1))])
    schedule = torch.optim.lr_scheduler.StepLR(updates, 1)
    with pytest.raises(needle.TraceError, match="StepLR"):
        needle.jit(lambda x: (schedule.step(), x)[1])(torch.ones(1))


def test_a_layers_options_are_facts():
    drop = nn.Dropout(0.0)
    compiled = torch.compile(drop)
    x = torch.ones(4)
    assert torch.equal(compiled(x), x)
    drop.p = 1.0
    assert torch.equal(compiled(x), 0 * x)


def test_an_optimized_module_is_the_module():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    compiled = torch.compile(model)
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    compiled.eval()
    assert not model[1].training
    assert {id(p) for p in compiled.parameters()} == {id(p) for p in model.parameters()}


def test_scripted_functions():
    @torch.jit.script
    def f(x: torch.Tensor):
        return x.tanh() + 1

    x = torch.ones(2, requires_grad=True)
    f(x).sum().backward()
    assert_close(x.grad, 1 - torch.ones(2).tanh() ** 2)
    traced = torch.jit.trace(lambda x: x * 3, (torch.ones(2),))
    assert torch.equal(traced(torch.ones(2)), torch.full((2,), 3.0))
