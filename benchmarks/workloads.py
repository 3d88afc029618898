"""The networks that whole steps are measured on, each written once for both libraries: `make(lib)`.

    a mlp         MLPResNet on pictures of 784, batch 100
    b resnet9     the course's ResNet-9 on 32 x 32 pictures, batch 128
    c resnet18    ResNet-18 with a 3x3 stem, batch 32
    d lstm lm     an LSTM language model, 10,000 words, two layers of 128, 40 steps, batch 16
    e gpt         6 layers of 384, 6 heads, 256 characters, batch 8
    f gpt2        GPT-2 small (124 million weights, drawn at random), batch 1: `decode` is one token
                  after 128 others in the cache, `prefill` is 128 tokens; with weights that needle
                  stores in bfloat16 and int8 too

`lib` is needle or PyTorch: both have nn, nn.functional and zeros under these names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Module = Any
Step = Callable[[], float]
Array = np.ndarray[Any, Any]


class Workload(NamedTuple):
    """A network and its batch; without an optimizer it is inference."""

    name: str
    make: Callable[[Any], Module]
    inputs: Array
    targets: Array | None
    optimizer: str | None
    options: dict[str, float]
    start: int = 0  # inference: how many tokens are in the cache,
    weights: str = "float32"  # and what needle stores the weights in


# Pictures ---------------------------------------------------------------------------------------


def mlp_resnet(lib: Any) -> Module:
    """Three residual blocks of 100, with dropout."""
    nn = lib.nn

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            first = [nn.Linear(100, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Dropout(0.1)]
            self.body = nn.Sequential(*first, nn.Linear(50, 100), nn.BatchNorm1d(100))

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.body(x) + x)

    blocks = [Residual() for _ in range(3)]
    return nn.Sequential(nn.Linear(784, 100), nn.ReLU(), *blocks, nn.Linear(100, 10))


def resnet9(lib: Any) -> Module:
    nn = lib.nn

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


def resnet18(lib: Any) -> Module:
    nn = lib.nn

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
            return nn.functional.relu(self.body(x) + self.shortcut(x))

    layers = [*conv(3, 64, 3, 1), nn.ReLU()]
    channels = 64
    for wide, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(channels, wide, stride), Block(wide, wide, 1)]
        channels = wide
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


# Text -------------------------------------------------------------------------------------------

VOCABULARY, WIDTH = 10_000, 128


def lstm_language_model(lib: Any) -> Module:
    """Over words of (seq, batch)."""
    nn = lib.nn

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


def gpt(lib: Any) -> Module:
    """No biases, the head tied to the embedding."""
    nn, F = lib.nn, lib.nn.functional

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


GPT2_LAYERS, GPT2_HEADS, GPT2_MODEL, GPT2_TOKENS, GPT2_CONTEXT = 12, 12, 768, 50_257, 1024
CACHE, PROMPT = 256, 128


def gpt2(lib: Any) -> Module:
    """With a cache of keys and values; forward(tokens, how many are in the cache) -> the logits
    of the token that comes next."""
    nn, F = lib.nn, lib.nn.functional
    wide, head = GPT2_MODEL, GPT2_MODEL // GPT2_HEADS

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
            self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
            self.up, self.down = nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)
            self.register_buffer("keys", lib.zeros(1, GPT2_HEADS, CACHE, head))
            self.register_buffer("values", lib.zeros(1, GPT2_HEADS, CACHE, head))

        def forward(self, x: Any, start: int) -> Any:
            _, t, _ = x.shape
            parts = self.qkv(self.norm1(x)).chunk(3, -1)
            q, k, v = (z.reshape((1, t, GPT2_HEADS, head)).swapaxes(1, 2) for z in parts)
            end = start + t
            self.keys[:, :, start:end] = k
            self.values[:, :, start:end] = v
            seen = self.keys[:, :, :end], self.values[:, :, :end]
            y = F.scaled_dot_product_attention(q, *seen, is_causal=t > 1)
            x = x + self.out(y.swapaxes(1, 2).reshape((1, t, wide)))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class GPT2(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(GPT2_TOKENS, wide)
            self.places = nn.Embedding(GPT2_CONTEXT, wide)
            self.blocks = nn.ModuleList([Block() for _ in range(GPT2_LAYERS)])
            self.norm = nn.LayerNorm(wide)

        def forward(self, x: Any, start: int) -> Any:
            h = self.tokens(x) + self.places.weight[start : start + x.shape[1]]
            for block in self.blocks:
                h = block(h, start)
            return self.head(self.norm(h[:, -1]))

        def head(self, h: Any) -> Any:
            return h @ self.tokens.weight.T

    return GPT2()


# Batches ----------------------------------------------------------------------------------------

ADAM, ADAM_WITH_DECAY = {"lr": 1e-3}, {"lr": 1e-3, "weight_decay": 0.1}


def _pictures(name: str, make: Callable[[Any], Module], batch: int, *shape: int) -> Workload:
    rng = np.random.default_rng(0)
    pictures = rng.standard_normal((batch, *shape), dtype=np.float32)
    return Workload(name, make, pictures, rng.integers(0, 10, batch), "Adam", ADAM)


def _text(
    name: str,
    make: Callable[[Any], Module],
    words: int,
    shape: tuple[int, int],
    optimizer: str,
    options: dict[str, float],
) -> Workload:
    inputs, targets = np.random.default_rng(0).integers(0, words, (2, *shape))
    return Workload(name, make, inputs, targets, optimizer, options)


def _inference(name: str, tokens: int, start: int, weights: str = "float32") -> Workload:
    inputs = np.random.default_rng(0).integers(0, GPT2_TOKENS, (1, tokens))
    return Workload(name, gpt2, inputs, None, None, {}, start, weights)


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "mlp": lambda: _pictures("mlp", mlp_resnet, 100, 784),
    "resnet9": lambda: _pictures("resnet9", resnet9, 128, 3, 32, 32),
    "resnet18": lambda: _pictures("resnet18", resnet18, 32, 3, 32, 32),
    "lstm lm": lambda: _text("lstm lm", lstm_language_model, VOCABULARY, (40, 16), "Adam", ADAM),
    "gpt": lambda: _text("gpt", gpt, CHARACTERS, (8, CONTEXT), "AdamW", ADAM_WITH_DECAY),
    "gpt2 decode": lambda: _inference("gpt2 decode", 1, PROMPT),
    "gpt2 prefill": lambda: _inference("gpt2 prefill", PROMPT, 0),
    "gpt2 decode bfloat16": lambda: _inference("gpt2 decode", 1, PROMPT, "bfloat16"),
    "gpt2 decode int8": lambda: _inference("gpt2 decode", 1, PROMPT, "int8"),
    "gpt2 prefill int8": lambda: _inference("gpt2 prefill", PROMPT, 0, "int8"),
}
WITH_SMALL_WEIGHTS = (gpt, gpt2)  # their losses would overflow else


def without_dropout(model: Module) -> None:
    """Dropout with probability 0, so that two libraries compute the same."""
    for _, module in model.named_modules():
        if type(module).__name__ == "Dropout":
            module.p = 0.0
