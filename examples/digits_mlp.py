"""A two-layer net on 8 x 8 handwritten digits, with tensors alone.

    python examples/digits_mlp.py [--epochs 30] [--hidden 128] [--lr 0.8] [--curve runs/digits.svg]

Target: at least 97 % of the test images, in seconds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import needle as ndl
from needle.data import digits

BATCH = 50
BARS = "▁▂▃▄▅▆▇█"


def init_weights(hidden: int) -> list[ndl.Tensor]:
    """w1 (64, H), b1 (H,), w2 (H, 10), b2 (10,)"""
    w1, w2 = ndl.init.kaiming_normal(64, hidden), ndl.init.kaiming_normal(hidden, 10)
    weights = [w1, ndl.init.zeros(hidden), w2, ndl.init.zeros(10)]
    return [w.requires_grad_() for w in weights]


def predict(x: ndl.Tensor, weights: list[ndl.Tensor]) -> ndl.Tensor:
    """x (B, 64) -> logits (B, 10)"""
    w1, b1, w2, b2 = weights
    return ndl.relu(x @ w1 + b1) @ w2 + b2


def cross_entropy(logits: ndl.Tensor, labels: np.ndarray) -> ndl.Tensor:
    """mean of log(sum exp z) - z[label]"""
    picked = logits[np.arange(len(labels)), labels]
    return (ndl.logsumexp(logits, axes=1) - picked).mean()


def train_epoch(x: np.ndarray, y: np.ndarray, weights: list[ndl.Tensor], lr: float) -> float:
    """One pass over the shuffled data by gradient descent; returns the mean loss."""
    losses = []
    for batch in np.split(np.random.permutation(len(y)), range(BATCH, len(y), BATCH)):
        loss = cross_entropy(predict(ndl.Tensor(x[batch], requires_grad=False), weights), y[batch])
        loss.backward(create_graph=False)
        for w in weights:
            w.data = w.data - lr * w.grad
        losses.append(loss.item())
    return float(np.mean(losses))


def accuracy(x: np.ndarray, y: np.ndarray, weights: list[ndl.Tensor]) -> float:
    with ndl.no_grad():
        guesses = predict(ndl.Tensor(x, requires_grad=False), weights).argmax(1).numpy()
    return float(np.mean(guesses == y))


def scaled(values: list[float]) -> np.ndarray:
    """The values from 0 (the lowest) to 1 (the highest)."""
    return (np.array(values) - min(values)) / ((max(values) - min(values)) or 1)


def svg_curve(values: list[float], title: str, color: str, left: int) -> str:
    across, up = np.linspace(10, 470, len(values)), 160 * scaled(values)
    points = " ".join(f"{x:.0f},{210 - y:.0f}" for x, y in zip(across, up, strict=True))
    text = f"{title}: {values[0]:.4f} to {values[-1]:.4f}"
    return (
        f'<text x="{left}" y="25" fill="{color}">{text}</text>'
        f'<polyline points="{points}" fill="none" stroke="{color}"/>'
    )


def write_curves(path: Path, losses: list[float], accuracies: list[float]) -> None:
    """Both curves, each from its lowest to its highest value, as a picture for any browser."""
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 220" font-size="14">'
    svg += svg_curve(losses, "loss", "#d62728", 10)
    svg += svg_curve(accuracies, "test accuracy", "#1f77b4", 240)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg + "</svg>\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.8, help="goes down to 0 by the last epoch")
    parser.add_argument("--curve", type=Path, default=Path("runs/digits.svg"))
    options = parser.parse_args()
    np.random.seed(0)
    train, test = digits("train"), digits("test")
    weights = init_weights(options.hidden)
    losses, accuracies = [], []
    start = time.perf_counter()
    for epoch in range(options.epochs):
        losses.append(train_epoch(*train, weights, options.lr * (1 - epoch / options.epochs)))
        known = accuracy(*train, weights)
        accuracies.append(accuracy(*test, weights))
        print(
            f"epoch {epoch + 1:2}  loss {losses[-1]:.4f}  train {known:7.2%}  "
            f"test {accuracies[-1]:7.2%}"
        )
    for title, values in (("loss", losses), ("test accuracy", accuracies)):
        bars = "".join(BARS[round(v * (len(BARS) - 1))] for v in scaled(values))
        print(f"{title:13}  {bars}  {values[0]:.4f} to {values[-1]:.4f}")
    write_curves(options.curve, losses, accuracies)
    print(f"test accuracy {accuracies[-1]:.2%} in {time.perf_counter() - start:.1f} s")
    print(f"the curves are in {options.curve}")


if __name__ == "__main__":
    main()
