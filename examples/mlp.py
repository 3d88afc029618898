"""A multilayer perceptron on 8 x 8 handwritten digits.

    python examples/mlp.py [--epochs 30] [--hidden 128] [--lr 0.003]

Target: at least 97 % of the test images.
"""

from __future__ import annotations

import argparse

import numpy as np

import needle as ndl
from needle import nn
from needle.data import DataLoader, NDArrayDataset, digits


def accuracy(model: nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    model.eval()
    with ndl.no_grad():
        guesses = model(ndl.tensor(images)).argmax(1).numpy()
    model.train()
    return float(np.mean(guesses == labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    np.random.seed(options.seed)
    model = nn.Sequential(
        nn.Linear(64, options.hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(options.hidden, 10)
    )
    print(ndl.summary(model, (50, 64)))
    loader = DataLoader(NDArrayDataset(*digits("train")), batch_size=50, shuffle=True)
    optimizer = ndl.optim.AdamW(model.parameters(), lr=options.lr)
    schedule = ndl.optim.CosineAnnealingLR(optimizer, options.epochs)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(1, options.epochs + 1):
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward(create_graph=False)
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        print(f"epoch {epoch:2}  loss {np.mean(losses):.4f}")
    print(f"test accuracy {accuracy(model, *digits('test')):.2%} (target 97%)")


if __name__ == "__main__":
    main()
