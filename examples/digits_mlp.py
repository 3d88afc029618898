"""A two-layer net on 8 x 8 handwritten digits, with tensors alone.

    python examples/digits_mlp.py [--epochs 30] [--hidden 128] [--lr 0.3] [--out runs/digits]

Target: at least 97 % of the test images.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import needle as ndl

BATCH = 50
BARS = "▁▂▃▄▅▆▇█"


def init_weights(hidden: int) -> list[ndl.Tensor]:
    """w1 (64, H), b1 (H,), w2 (H, 10), b2 (10,): normal with variance 2 / inputs, biases 0."""
    w1 = np.random.randn(64, hidden) * np.sqrt(2 / 64)
    w2 = np.random.randn(hidden, 10) * np.sqrt(2 / hidden)
    return [ndl.Tensor(w) for w in (w1, np.zeros(hidden), w2, np.zeros(10))]


def predict(x: ndl.Tensor, weights: list[ndl.Tensor]) -> ndl.Tensor:
    """x (B, 64) -> logits (B, 10)"""
    w1, b1, w2, b2 = weights
    return ndl.relu(x @ w1 + b1) @ w2 + b2


def cross_entropy(logits: ndl.Tensor, labels: np.ndarray) -> ndl.Tensor:
    """mean of log(sum exp z) - z[label]"""
    one_hot = ndl.Tensor(np.eye(10)[labels], requires_grad=False)
    return (ndl.logsumexp(logits, axes=1) - (logits * one_hot).sum(1)).mean()


def train_epoch(
    x: np.ndarray, y: np.ndarray, weights: list[ndl.Tensor], learning_rate: float
) -> float:
    """One pass over the shuffled data by gradient descent; returns the mean loss."""
    losses = []
    for batch in np.split(np.random.permutation(len(y)), range(BATCH, len(y), BATCH)):
        loss = cross_entropy(predict(ndl.Tensor(x[batch], requires_grad=False), weights), y[batch])
        loss.backward(create_graph=False)
        for w in weights:
            w.data = w.data - learning_rate * w.grad
        losses.append(loss.item())
    return float(np.mean(losses))


def accuracy(x: np.ndarray, y: np.ndarray, weights: list[ndl.Tensor]) -> float:
    with ndl.no_grad():
        guesses = predict(ndl.Tensor(x, requires_grad=False), weights).numpy().argmax(axis=1)
    return float(np.mean(guesses == y))


def sparkline(values: list[float]) -> str:
    """The values as a row of bars, lowest to highest."""
    low, high = min(values), max(values)
    scale = (len(BARS) - 1) / ((high - low) or 1)
    return "".join(BARS[round((v - low) * scale)] for v in values)


def write_curve(path: Path, title: str, values: list[float]) -> None:
    """One curve as an SVG picture, which any browser shows."""
    low, high, width, height = min(values), max(values), 480, 240
    across = [40 + i * (width - 60) / max(len(values) - 1, 1) for i in range(len(values))]
    down = [height - 30 - (v - low) / ((high - low) or 1) * (height - 70) for v in values]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="40" y="22">{title}, epochs 1 to {len(values)}: {values[0]:.4f} to '
        f'{values[-1]:.4f}</text><polyline points="{points}" fill="none" stroke="#1f77b4" '
        f'stroke-width="2"/></svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.3)
    parser.add_argument("--out", type=Path, default=Path("runs/digits"), help="folder for curves")
    options = parser.parse_args()
    np.random.seed(0)
    train, test = ndl.data.digits("train"), ndl.data.digits("test")
    weights = init_weights(options.hidden)
    curves: dict[str, list[float]] = {"loss": [], "test accuracy": []}
    start = time.perf_counter()
    for epoch in range(1, options.epochs + 1):
        loss = train_epoch(*train, weights, options.lr)
        correct = [accuracy(*part, weights) for part in (train, test)]
        curves["loss"].append(loss)
        curves["test accuracy"].append(correct[1])
        print(f"epoch {epoch:2}  loss {loss:.4f}  train {correct[0]:7.2%}  test {correct[1]:7.2%}")
    for title, values in curves.items():
        write_curve(options.out / f"{title.replace(' ', '-')}.svg", title, values)
        print(f"{title:13}  {sparkline(values)}  {values[0]:.4f} -> {values[-1]:.4f}")
    seconds = time.perf_counter() - start
    print(f"test accuracy {curves['test accuracy'][-1]:.2%} in {seconds:.1f} s")
    print(f"curves in {options.out}")


if __name__ == "__main__":
    main()
