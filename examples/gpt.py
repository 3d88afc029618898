"""A small GPT from parts: rotary positions, RMSNorm, fused causal attention.

    python examples/gpt.py [--steps 200] [--data FILE.txt]

By default it reads this project's own pages. Target: a validation loss below 2.6 nats per character
after 200 steps (guessing has 4.5).
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import numpy as np

import needle as ndl
from needle import nn
from needle.data import DataLoader, RandomSampler, TextDataset, read_text
from needle.nn import functional as F

PAGES = Path(__file__).parents[1] / "docs"


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): (B, T, E) -> (B, T, E)"""

    def __init__(self, width: int, heads: int):
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.rotary = nn.RotaryEmbedding(width // heads)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def attend(self, x: ndl.Tensor) -> ndl.Tensor:
        batch, time, width = x.shape
        parts = self.qkv(x).reshape((batch, time, 3, self.heads, width // self.heads))
        q, k, v = (parts[:, :, i].transpose((1, 2)) for i in range(3))  # (B, H, T, D)
        mixed = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        return self.out(mixed.transpose((1, 2)).reshape(x.shape))

    def forward(self, x: ndl.Tensor) -> ndl.Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """ids (B, T) -> scores (B, T, V)"""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int):
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for p in self.parameters():
            if p.ndim == 2:
                p.data = ndl.randn(*p.shape, std=0.02)

    def forward(self, ids: ndl.Tensor) -> ndl.Tensor:
        return self.head(self.norm(self.blocks(self.embedding(ids))))


def cross_entropy(model: nn.Module, x: ndl.Tensor, y: ndl.Tensor) -> ndl.Tensor:
    scores = model(x)
    return F.cross_entropy(scores.reshape((-1, scores.shape[-1])), y.reshape((-1,)))


def validation_loss(model: nn.Module, text: TextDataset) -> float:
    """Over windows that lie side by side."""
    loader = DataLoader(text, 32, sampler=range(0, len(text), text.block))
    with ndl.no_grad():
        return float(np.mean([cross_entropy(model, *batch).item() for batch in loader]))


def write(model: nn.Module, text: TextDataset, prompt: str, length: int) -> str:
    ids = list(text.encode(prompt))
    with ndl.no_grad():
        for _ in range(length):
            scores = model(ndl.tensor(np.array([ids[-text.block :]])))[0, -1]
            chances = F.softmax(scores / 0.7, 0).numpy().astype(np.float64)
            ids.append(np.random.choice(len(chances), p=chances / chances.sum()))
    return text.decode(ids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--block", type=int, default=64, help="characters per window")
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--data", help="a text file, or a folder of .txt files")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    np.random.seed(options.seed)
    pages = "\n".join(page.read_text() for page in sorted(PAGES.glob("*.md")))
    content = pages if options.data is None else read_text(options.data)
    symbols, cut = "".join(sorted(set(content))), int(0.9 * len(content))
    train = TextDataset(content[:cut], options.block, vocabulary=symbols)
    held_out = TextDataset(content[cut:], options.block, vocabulary=symbols)
    model = GPT(len(symbols), options.width, options.layers, options.heads)
    optimizer = ndl.optim.AdamW(model.parameters(), options.lr, (0.9, 0.95), weight_decay=0.1)
    schedule = ndl.optim.OneCycleLR(
        optimizer, options.lr, options.steps, pct_start=0.1, cycle_momentum=False
    )
    loader = DataLoader(train, options.batch, sampler=RandomSampler(len(train), options.seed))
    step = 0
    while step < options.steps:
        for batch in islice(loader, options.steps - step):
            optimizer.zero_grad()
            loss = cross_entropy(model, *batch)
            loss.backward(create_graph=False)
            ndl.optim.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            step += 1
            if step % max(1, options.steps // 10) == 0:
                print(f"step {step:4}  loss {loss.item():.3f}")
    print(write(model, held_out, content[cut : cut + 8], 200))
    print(f"validation loss {validation_loss(model, held_out):.3f} nats (target 2.6)")


if __name__ == "__main__":
    main()
