"""An LSTM that writes, one character after the other; by default it reads this project's pages.

    python examples/lstm.py [--steps 150] [--data FILE.txt]

Target: a validation loss below 2.6 nats per character after 150 steps (guessing has 4.5).
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import numpy as np

import needle as ndl
from needle import nn
from needle.data import DataLoader, RandomSampler, TextDataset, read_text

PAGES = Path(__file__).parents[1] / "docs"


class CharLSTM(nn.Module):
    """ids (B, T), state -> scores (B, T, V), state"""

    def __init__(self, vocabulary: int, width: int):
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: ndl.Tensor, state=None):
        x, state = self.lstm(self.embedding(ids), state)
        return self.head(x), state


def read(data: str | None) -> str:
    if data is not None:
        return read_text(data)
    return "\n".join(page.read_text() for page in sorted(PAGES.glob("*.md")))


def cross_entropy(model: nn.Module, x: ndl.Tensor, y: ndl.Tensor) -> ndl.Tensor:
    scores, _ = model(x)
    return nn.functional.cross_entropy(scores.reshape((-1, scores.shape[-1])), y.reshape((-1,)))


def validation_loss(model: nn.Module, text: TextDataset) -> float:
    """Over windows that lie side by side."""
    starts = range(0, len(text), text.block)
    with ndl.no_grad():
        losses = [
            cross_entropy(model, *batch).item() for batch in DataLoader(text, 32, sampler=starts)
        ]
    return float(np.mean(losses))


def write(model: nn.Module, text: TextDataset, prompt: str, length: int) -> str:
    """Go on after a prompt: the state remembers what was read, so each step reads one character."""
    ids = text.encode(prompt)
    written, state = list(ids), None
    with ndl.no_grad():
        for _ in range(length):
            scores, state = model(ndl.tensor(ids[None]), state)
            chances = nn.functional.softmax(scores[0, -1] / 0.7, 0).numpy().astype(np.float64)
            ids = np.random.choice(len(chances), size=1, p=chances / chances.sum())
            written.append(ids[0])
    return text.decode(written)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--block", type=int, default=48, help="characters per window")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--data", help="a text file, or a folder of .txt files")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    np.random.seed(options.seed)
    content = read(options.data)
    symbols, cut = "".join(sorted(set(content))), int(0.9 * len(content))
    train = TextDataset(content[:cut], options.block, vocabulary=symbols)
    held_out = TextDataset(content[cut:], options.block, vocabulary=symbols)
    model = CharLSTM(len(symbols), options.width)
    optimizer = ndl.optim.Adam(model.parameters(), lr=options.lr)
    schedule = ndl.optim.CosineAnnealingLR(optimizer, options.steps)
    batches = DataLoader(train, options.batch, sampler=RandomSampler(len(train), options.seed))
    step = 0
    while step < options.steps:
        for batch in islice(batches, options.steps - step):
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
