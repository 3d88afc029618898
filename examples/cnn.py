"""A convolutional network, by default on 8 x 8 digits; --data takes a folder of MNIST files.

    python examples/cnn.py [--epochs 12] [--data DIR]

Target: at least 98 % of the test images.
"""

from __future__ import annotations

import argparse

import numpy as np

import needle as ndl
from needle import nn
from needle.data import MNIST, DataLoader, NDArrayDataset, digits


class ConvNet(nn.Module):
    """(N, 1, S, S) -> (N, 10): two convolutions at each of two resolutions, then their mean."""

    def __init__(self, channels: int = 32):
        def block(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding="same", bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
            )

        self.high = nn.Sequential(block(1, channels), block(channels, channels))
        self.pool = nn.MaxPool2d(2)
        self.low = nn.Sequential(block(channels, 2 * channels), block(2 * channels, 2 * channels))
        self.mean = nn.GlobalAvgPool()
        self.head = nn.Linear(2 * channels, 10)

    def forward(self, x: ndl.Tensor) -> ndl.Tensor:
        x = self.low(self.pool(self.high(x)))  # (N, 2 C, S/2, S/2)
        return self.head(nn.Flatten()(self.mean(x)))


def load(data: str | None) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(images (n, 1, S, S), labels (n,)) to train on, and to test on."""
    if data is None:
        parts = [digits(split) for split in ("train", "test")]
        pairs = [(x.reshape(-1, 1, 8, 8), y) for x, y in parts]
    else:
        files = [MNIST(data, train) for train in (True, False)]
        pairs = [(f.images.transpose(0, 3, 1, 2), f.labels.astype(np.int64)) for f in files]
    return pairs[0], pairs[1]


def accuracy(model: nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    model.eval()
    with ndl.no_grad():
        hits = sum(
            int((model(x).argmax(1).numpy() == y.numpy()).sum())
            for x, y in DataLoader(NDArrayDataset(images, labels), 250)
        )
    model.train()
    return hits / len(labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--data", help="a folder with the four MNIST files")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    np.random.seed(options.seed)
    train, test = load(options.data)
    model = ConvNet(options.channels)
    loader = DataLoader(NDArrayDataset(*train), options.batch, shuffle=True, prefetch=2)
    optimizer = ndl.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
    steps = options.epochs * len(loader)
    schedule = ndl.optim.OneCycleLR(optimizer, options.lr, steps, cycle_momentum=False)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(1, options.epochs + 1):
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward(create_graph=False)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch:2}  loss {np.mean(losses):.4f}  test {accuracy(model, *test):.2%}")
    print(f"test accuracy {accuracy(model, *test):.2%} (target 98%)")


if __name__ == "__main__":
    main()
