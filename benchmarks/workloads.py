"""Whole training steps, each network written once for both libraries: `make(nn, F)`.

An MLP and ResNet-9, which are small; ResNet-18 on 32 x 32 pictures (batch 32), an LSTM language
model and a small GPT. needle's module gets PyTorch's weights, so that losses can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from peer import torch

import needle as ndl

Module = Any
Step = Callable[[], float]


class Workload(NamedTuple):
    name: str
    make: Callable[[Any, Any], Module]  # (nn, nn.functional) of either library
    inputs: np.ndarray[Any, Any]
    targets: np.ndarray[Any, Any]
    optimizer: str
    options: dict[str, float]


# Networks ---------------------------------------------------------------------------------------


def mlp_resnet(nn: Any, F: Any) -> Module:
    """Three residual blocks of 100 on pictures of 784, with dropout."""

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            first = [nn.Linear(100, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Dropout(0.1)]
            self.body = nn.Sequential(*first, nn.Linear(50, 100), nn.BatchNorm1d(100))

        def forward(self, x: Any) -> Any:
            return F.relu(self.body(x) + x)

    blocks = [Residual() for _ in range(3)]
    return nn.Sequential(nn.Linear(784, 100), nn.ReLU(), *blocks, nn.Linear(100, 10))


def resnet9(nn: Any, F: Any) -> Module:
    """The course's ResNet-9 on 32 x 32 pictures."""

    def conv(i: int, o: int, size: int, stride: int) -> list[Module]:
        return [nn.Conv2d(i, o, size, stride, (size - 1) // 2), nn.BatchNorm2d(o), nn.ReLU()]

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self, wide: int):
            super().__init__()
            self.body = nn.Sequential(*conv(wide, wide, 3, 1), *conv(wide, wide, 3, 1))

        def forward(self, x: Any) -> Any:
            return self.body(x) + x

    layers = [*conv(3, 16, 7, 4), *conv(16, 32, 3, 2), Residual(32)]
    layers += [*conv(32, 64, 3, 2), *conv(64, 128, 3, 2), Residual(128)]
    head = [nn.Flatten(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(*layers, *head)


def resnet18(nn: Any, F: Any) -> Module:
    """ResNet-18 with a 3x3 stem."""

    def conv(i: int, o: int, size: int, stride: int) -> tuple[Module, Module]:
        padding = (size - 1) // 2
        return nn.Conv2d(i, o, size, stride, padding, bias=False), nn.BatchNorm2d(o)

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, i: int, o: int, stride: int):
            super().__init__()
            self.body = nn.Sequential(*conv(i, o, 3, stride), nn.ReLU(), *conv(o, o, 3, 1))
            changes = stride != 1 or i != o
            self.shortcut = nn.Sequential(*conv(i, o, 1, stride)) if changes else nn.Identity()

        def forward(self, x: Any) -> Any:
            return F.relu(self.body(x) + self.shortcut(x))

    layers = [*conv(3, 64, 3, 1), nn.ReLU()]
    channels = 64
    for wide, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(channels, wide, stride), Block(wide, wide, 1)]
        channels = wide
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


VOCABULARY, WIDTH = 10_000, 128


def lstm_language_model(nn: Any, F: Any) -> Module:
    """Two layers of 128 over words of (seq, batch)."""

    class LanguageModel(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(VOCABULARY, WIDTH)
            self.lstm = nn.LSTM(WIDTH, WIDTH, 2)
            self.head = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, x: Any) -> Any:
            hidden, _ = self.lstm(self.embed(x))
            return self.head(hidden.reshape((-1, WIDTH)))

    return LanguageModel()


LAYERS, HEADS, MODEL, CONTEXT, CHARACTERS = 6, 6, 384, 256, 65


def gpt(nn: Any, F: Any) -> Module:
    """Six layers of six heads, no biases, the head tied to the embedding."""

    def linear(i: int, o: int) -> Module:
        return nn.Linear(i, o, bias=False)

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1 = nn.LayerNorm(MODEL, bias=False)
            self.qkv, self.out = linear(MODEL, 3 * MODEL), linear(MODEL, MODEL)
            self.norm2 = nn.LayerNorm(MODEL, bias=False)
            self.up, self.down = linear(MODEL, 4 * MODEL), linear(4 * MODEL, MODEL)

        def forward(self, x: Any) -> Any:
            b, t, _ = x.shape
            heads = (b, t, HEADS, MODEL // HEADS)
            q, k, v = (
                z.reshape(heads).swapaxes(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, -1)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.swapaxes(1, 2).reshape((b, t, MODEL)))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(CHARACTERS, MODEL)
            self.places = nn.Embedding(CONTEXT, MODEL)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(MODEL, bias=False)

        def forward(self, x: Any) -> Any:
            h = self.blocks(self.tokens(x) + self.places.weight[: x.shape[1]])
            return self.norm(h).reshape((-1, MODEL)) @ self.tokens.weight.T

    return GPT()


def workloads() -> list[Workload]:
    """The three, with their batches."""
    rng = np.random.default_rng(0)
    pictures = rng.standard_normal((32, 3, 32, 32), dtype=np.float32)
    words, next_words = rng.integers(0, VOCABULARY, (2, 40, 16))
    text, next_text = rng.integers(0, CHARACTERS, (2, 8, CONTEXT))
    adam, decay = {"lr": 1e-3}, {"lr": 1e-3, "weight_decay": 0.1}
    return [
        Workload("resnet18", resnet18, pictures, rng.integers(0, 10, 32), "Adam", adam),
        Workload("lstm lm", lstm_language_model, words, next_words, "Adam", adam),
        Workload("gpt", gpt, text, next_text, "AdamW", decay),
    ]


def all_workloads() -> list[Workload]:
    """Two small ones besides."""
    rng = np.random.default_rng(1)
    digits = rng.standard_normal((100, 784), dtype=np.float32)
    pictures = rng.standard_normal((128, 3, 32, 32), dtype=np.float32)
    adam = {"lr": 1e-3}
    return [
        Workload("mlp", mlp_resnet, digits, rng.integers(0, 10, 100), "Adam", adam),
        Workload("resnet9", resnet9, pictures, rng.integers(0, 10, 128), "Adam", adam),
        *workloads(),
    ]


# Steps ------------------------------------------------------------------------------------------


def torch_model(work: Workload) -> Module:
    """PyTorch's network; the GPT starts from small weights, as its losses would overflow else."""
    torch.manual_seed(0)
    model = work.make(torch.nn, torch.nn.functional)
    if work.make is gpt:
        for p in model.parameters():
            if p.dim() > 1:
                torch.nn.init.normal_(p, 0, 0.02)
    return model


def torch_step(work: Workload, model: Module, how: str = "eager") -> Step:
    """One training step: eager, fused (the update in one call), compile (forward and backward as
    one graph), compile_cl (the same in channels-last order), whole (the update too)."""
    options: dict[str, Any] = dict(work.options)
    if how != "eager":
        options["fused"] = True
    x, y = torch.tensor(work.inputs), torch.tensor(work.targets).reshape(-1)
    if how == "compile_cl":
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)

    def loss_of(x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(x), y)

    if how == "whole":
        return _whole_step(work, model, loss_of, x, y)
    optimizer = getattr(torch.optim, work.optimizer)(model.parameters(), **options)
    forward = torch.compile(loss_of) if how.startswith("compile") else loss_of

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def _whole_step(work: Workload, model: Module, loss_of: Any, x: Any, y: Any) -> Step:
    """Forward, backward and Adam's update as one compiled graph."""
    torch._dynamo.config.trace_autograd_ops = True
    params = list(model.parameters())
    means, squares = ([torch.zeros_like(p) for p in params] for _ in range(2))
    count = torch.zeros(())
    lr, decay = work.options["lr"], work.options.get("weight_decay", 0.0)

    def whole(x: Any, y: Any) -> Any:
        loss = loss_of(x, y)
        gradients = torch.autograd.grad(loss, params)
        with torch.no_grad():
            count.add_(1)
            first, second = 1 - 0.9**count, 1 - 0.999**count
            for p, g, m, v in zip(params, gradients, means, squares, strict=True):
                if decay:
                    p.mul_(1 - lr * decay)
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                p.sub_(lr * (m / first) / ((v / second).sqrt() + 1e-8))
        return loss.detach()

    compiled = torch.compile(whole, fullgraph=True)
    return lambda: float(compiled(x, y).item())


def without_dropout(model: Module) -> None:
    """Dropout with probability 0, so that two libraries compute the same."""
    for _, module in model.named_modules():
        if type(module).__name__ == "Dropout":
            module.p = 0.0


def needle_model(work: Workload, theirs: Module) -> Module:
    """needle's network with the weights of PyTorch's."""
    ours = work.make(ndl.nn, ndl.nn.functional)
    for mine, other in _pairs(ours, theirs):
        mine.data = ndl.Tensor(other.detach().numpy(), dtype=mine.dtype)
    return ours


def needle_step(work: Workload, model: Module, compiled: bool = False) -> Step:
    """The same step."""
    optimizer = getattr(ndl.optim, work.optimizer)(model.parameters(), **work.options)
    x, y = ndl.tensor(work.inputs), ndl.tensor(work.targets.reshape(-1))

    def train(x: Any, y: Any) -> Any:
        optimizer.reset_grad()
        loss = ndl.nn.functional.cross_entropy(model(x), y)
        loss.backward(create_graph=False)
        optimizer.step()
        return loss

    step = ndl.jit(train) if compiled else train
    return lambda: float(step(x, y).item())


def _pairs(ours: Module, theirs: Module) -> Iterator[tuple[Any, Any]]:
    """Each of our parameters and PyTorch's, in our layout: matrices of products are transposed."""
    their_modules = dict(theirs.named_modules())
    for name, module in ours.named_modules():
        other = their_modules.get(name)
        if isinstance(module, ndl.nn.Linear):
            yield module.weight, other.weight.T
            if module.bias is not None:
                yield module.bias, other.bias.reshape(module.bias.shape)
        elif isinstance(module, ndl.nn.LSTM):
            for layer, cell in enumerate(getattr(module, module.cells_name)):
                for side in ("ih", "hh"):
                    weight = getattr(other, f"weight_{side}_l{layer}")
                    yield getattr(cell, f"W_{side}"), weight.T
                    yield getattr(cell, f"bias_{side}"), getattr(other, f"bias_{side}_l{layer}")
        elif not isinstance(module, ndl.nn.LSTMCell):
            for attribute in ("weight", "bias"):
                mine = getattr(module, attribute, None)
                if mine is not None:
                    yield mine, getattr(other, attribute)
