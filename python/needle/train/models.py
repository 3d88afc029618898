"""Models for images and text, each small enough to read: what `needle train` trains.

Images are (N, C, H, W), class scores (N, classes). Ids of text are (B, T), scores (B, T, V).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from .. import init
from ..autograd import Tensor
from ..nn import (
    LSTM,
    BatchNorm1d,
    BatchNorm2d,
    Conv,
    Dropout,
    Embedding,
    Flatten,
    LayerNorm,
    Linear,
    Module,
    Parameter,
    ReLU,
    Residual,
    Sequential,
    Transformer,
    functional as F,
)

# Images -----------------------------------------------------------------------------------------


class MLPResNet(Module):
    """A multi-layer perceptron with residual blocks, on the pixels of an image."""

    def __init__(
        self,
        inputs: int,
        classes: int = 10,
        hidden: int = 100,
        blocks: int = 3,
        dropout: float = 0.1,
    ):
        def block() -> Module:
            half = hidden // 2
            body = Sequential(
                Linear(hidden, half),
                BatchNorm1d(half),
                ReLU(),
                Dropout(dropout),
                Linear(half, hidden),
                BatchNorm1d(hidden),
            )
            return Sequential(Residual(body), ReLU())

        self.layers = Sequential(
            Flatten(),
            Linear(inputs, hidden),
            ReLU(),
            *(block() for _ in range(blocks)),
            Linear(hidden, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x)
        return scores


def conv_norm(inputs: int, outputs: int, size: int = 3, stride: int = 1) -> Sequential:
    """Convolution, batch normalisation, ReLU; strides round sizes up."""
    return Sequential(Conv(inputs, outputs, size, stride, bias=False), BatchNorm2d(outputs), ReLU())


class CNN(Module):
    """Two strided convolutions and two linear layers."""

    def __init__(self, channels: int, size: int, classes: int = 10, width: int = 32):
        reduced = math.ceil(math.ceil(size / 2) / 2)
        self.layers = Sequential(
            conv_norm(channels, width, size=5, stride=2),
            conv_norm(width, 2 * width, stride=2),
            Flatten(),
            Linear(2 * width * reduced**2, 128),
            ReLU(),
            Dropout(0.3),
            Linear(128, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x)
        return scores


class ResNet9(Module):
    """Three stages, each a strided convolution and a residual pair; then the mean over space."""

    def __init__(self, channels: int, classes: int = 10, width: int = 32):
        def stage(inputs: int, outputs: int) -> Sequential:
            pair = Sequential(conv_norm(outputs, outputs), conv_norm(outputs, outputs))
            return Sequential(conv_norm(inputs, outputs, stride=2), Residual(pair))

        self.stages = Sequential(
            stage(channels, width), stage(width, 2 * width), stage(2 * width, 4 * width)
        )
        self.head = Linear(4 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.stages(x).mean((2, 3)))
        return scores


class BasicBlock(Module):
    """ReLU(x + norm(conv(ReLU(norm(conv(x)))))), with a 1 x 1 convolution of x if sizes change."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        self.body = Sequential(
            conv_norm(inputs, outputs, stride=stride),
            Conv(outputs, outputs, 3, bias=False),
            BatchNorm2d(outputs),
        )
        self.shortcut: Module | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = Sequential(
                Conv(inputs, outputs, 1, stride, bias=False), BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        around = x if self.shortcut is None else self.shortcut(x)
        y: Tensor = (self.body(x) + around).relu()
        return y


class ResNet18(Module):
    """He et al. (2015) for small images: a 3 x 3 stem, then four stages of two blocks."""

    def __init__(self, channels: int, classes: int = 10, width: int = 64):
        widths = [width, 2 * width, 4 * width, 8 * width]
        blocks = [BasicBlock(width, width), BasicBlock(width, width)]
        for before, after in pairwise(widths):
            blocks += [BasicBlock(before, after, stride=2), BasicBlock(after, after)]
        self.stem = conv_norm(channels, width)
        self.blocks = Sequential(*blocks)
        self.head = Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.blocks(self.stem(x)).mean((2, 3)))
        return scores


# Text -------------------------------------------------------------------------------------------


class LSTMLanguageModel(Module):
    """Embedding, LSTM, linear."""

    def __init__(self, vocabulary: int, width: int = 256, layers: int = 1):
        self.embedding = Embedding(vocabulary, width)
        self.lstm = LSTM(width, width, layers)
        self.head = Linear(width, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        steps = self.embedding(ids).transpose((0, 1))  # (T, B, E)
        hidden, _ = self.lstm(steps)
        scores: Tensor = self.head(hidden.transpose((0, 1)))
        return scores


class TransformerLanguageModel(Module):
    """Embedding, the course's Transformer, linear."""

    def __init__(
        self, vocabulary: int, block: int = 128, width: int = 128, layers: int = 4, heads: int = 4
    ):
        self.embedding = Embedding(vocabulary, width)
        self.transformer = Transformer(
            width,
            4 * width,
            layers,
            num_head=heads,
            dim_head=width // heads,
            batch_first=True,
            sequence_len=block,
        )
        self.head = Linear(width, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.transformer(self.embedding(ids))
        scores: Tensor = self.head(hidden)
        return scores


def _normal_linear(inputs: int, outputs: int, std: float = 0.02) -> Linear:
    """A linear layer without bias, weights from N(0, std²)."""
    layer = Linear(inputs, outputs, bias=False)
    layer.weight.data = init.randn(inputs, outputs, std=std)
    return layer


class GPTBlock(Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): (B, T, E) -> (B, T, E)."""

    def __init__(self, width: int, heads: int, layers: int, dropout: float):
        residual_std = 0.02 / math.sqrt(2 * layers)  # so that the sum of all branches is not larger
        self.heads = heads
        self.norm1 = LayerNorm(width)
        self.qkv = _normal_linear(width, 3 * width)
        self.projection = _normal_linear(width, width, residual_std)
        self.norm2 = LayerNorm(width)
        self.expand = _normal_linear(width, 4 * width)
        self.contract = _normal_linear(4 * width, width, residual_std)
        self.dropout = Dropout(dropout)

    def attend(self, x: Tensor) -> Tensor:
        """Causal attention of several heads."""
        batch, time, width = x.shape
        split = self.qkv(x).reshape((batch, time, 3, self.heads, width // self.heads))
        heads = split.permute((2, 0, 3, 1, 4))  # (3, B, H, T, D)
        mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        joined: Tensor = self.projection(mixed.transpose((1, 2)).reshape(x.shape))
        return joined

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attend(self.norm1(x)))
        mlp: Tensor = self.contract(F.gelu(self.expand(self.norm2(x))))
        y: Tensor = x + self.dropout(mlp)
        return y


class GPT(Module):
    """Token and position vectors, pre-norm blocks, and scores by the token vectors (tied)."""

    def __init__(
        self,
        vocabulary: int,
        block: int = 128,
        width: int = 128,
        layers: int = 4,
        heads: int = 4,
        dropout: float = 0.0,
        tied: bool = True,
    ):
        self.block = block
        self.tokens = Parameter(init.randn(vocabulary, width, std=0.02))
        self.positions = Parameter(init.randn(block, width, std=0.02))
        self.dropout = Dropout(dropout)
        self.blocks = [GPTBlock(width, heads, layers, dropout) for _ in range(layers)]
        self.norm = LayerNorm(width)
        self.head = None if tied else _normal_linear(width, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        time = ids.shape[1]
        if time > self.block:
            raise ValueError(f"[GPT] expected at most {self.block} symbols, got {time}.")
        x = self.dropout(F.embedding(ids, self.tokens) + self.positions[:time])  # (B, T, E)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        scores: Tensor = x @ self.tokens.transpose() if self.head is None else self.head(x)
        return scores


# By name ----------------------------------------------------------------------------------------

# (channels, height, width) and classes -> model
IMAGE_MODELS: dict[str, Callable[..., Module]] = {
    "mlp-resnet": lambda shape, classes, **o: MLPResNet(math.prod(shape), classes, **o),
    "cnn": lambda shape, classes, **o: CNN(shape[0], shape[1], classes, **o),
    "resnet9": lambda shape, classes, **o: ResNet9(shape[0], classes, **o),
    "resnet18": lambda shape, classes, **o: ResNet18(shape[0], classes, **o),
}

# number of symbols and longest context -> model
TEXT_MODELS: dict[str, Callable[..., Module]] = {
    "lstm": lambda vocabulary, block, **o: LSTMLanguageModel(vocabulary, **o),
    "transformer": lambda vocabulary, block, **o: TransformerLanguageModel(vocabulary, block, **o),
    "gpt": lambda vocabulary, block, **o: GPT(vocabulary, block, **o),
}


def image_model(name: str, shape: tuple[int, int, int], classes: int, **options: Any) -> Module:
    """A new model for images (C, H, W)."""
    return _named(name, IMAGE_MODELS)(shape, classes, **options)


def text_model(name: str, vocabulary: int, block: int, **options: Any) -> Module:
    """A new model for text: `vocabulary` symbols, windows of `block`."""
    return _named(name, TEXT_MODELS)(vocabulary, block, **options)


def _named(name: str, models: dict[str, Callable[..., Module]]) -> Callable[..., Module]:
    if name not in models:
        raise ValueError(f"[models] expected one of {', '.join(models)}, got {name!r}.")
    return models[name]
