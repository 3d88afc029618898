"""Fine-tuning: train on some classes, save, load all but the head, train a new head on the rest.

    python examples/finetune.py [--epochs 15] [--weights FILE]

A net learns the digits 0 to 4. Its body is then frozen, and a new head learns 5 to 9 from 200
images. Target: at least 90 % of the test images of 5 to 9.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import needle as ndl
from needle import nn
from needle.data import DataLoader, NDArrayDataset, digits

Pair = tuple[np.ndarray, np.ndarray]


def classes(split: str, first: int, count: int | None = None) -> Pair:
    """Images of the digits first to first + 4, their labels from 0 to 4."""
    x, y = digits(split)
    chosen = np.flatnonzero((y >= first) & (y < first + 5))[:count]
    return x[chosen].reshape(-1, 1, 8, 8), y[chosen] - first


def make_model() -> nn.Sequential:
    body = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
    )
    return nn.Sequential(body, nn.Linear(32 * 16, 5))


def train(model: nn.Module, data: Pair, epochs: int, lr: float) -> None:
    learning = [p for p in model.parameters() if p.requires_grad]
    optimizer = ndl.optim.AdamW(learning, lr=lr)
    loader = DataLoader(NDArrayDataset(*data), batch_size=25, shuffle=True)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward(create_graph=False)
            optimizer.step()


def accuracy(model: nn.Module, data: Pair) -> float:
    images, labels = data
    model.eval()
    with ndl.no_grad():
        guesses = model(ndl.tensor(images)).argmax(1).numpy()
    model.train()
    return float(np.mean(guesses == labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--images", type=int, default=200, help="of 5 to 9, to learn from")
    parser.add_argument("--weights", type=Path, help="where to save the first net")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    np.random.seed(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        path = options.weights or Path(folder) / "digits-0-4.safetensors"
        model = make_model()
        train(model, classes("train", 0), max(1, options.epochs // 3), 0.003)
        print(f"0 to 4: test accuracy {accuracy(model, classes('test', 0)):.2%}")
        ndl.save(model.state_dict(), path)
        saved = ndl.load(path)

    model = make_model()
    body = {name: tensor for name, tensor in saved.items() if name.startswith("0.")}
    report = model.load_state_dict(body, strict=False)
    print(f"loaded {len(body)} tensors; new: {', '.join(report.missing)}")
    model.modules[0].freeze()
    print(ndl.summary(model, (1, 1, 8, 8)))
    before = {name: tensor.numpy() for name, tensor in model.modules[0].state_dict().items()}
    train(model, classes("train", 5, options.images), 2 * options.epochs, 0.01)
    kept = (np.array_equal(t.numpy(), before[n]) for n, t in model.modules[0].state_dict().items())
    print(f"the frozen body is {'unchanged' if all(kept) else 'CHANGED'}")
    print(f"5 to 9: test accuracy {accuracy(model, classes('test', 5)):.2%} (target 90%)")


if __name__ == "__main__":
    main()
