"""The course's warm-up: softmax regression and a two-layer net in plain NumPy."""

from __future__ import annotations

import gzip
import struct

import numpy as np


def add(x, y):
    """x + y"""
    return x + y


def parse_mnist(image_filename: str, label_filename: str) -> tuple[np.ndarray, np.ndarray]:
    """MNIST files -> (n, 784) float32 in [0, 1] and (n,) uint8 labels."""
    with gzip.open(image_filename) as file:
        _, count, rows, columns = struct.unpack(">4I", file.read(16))
        pixels = np.frombuffer(file.read(), np.uint8).reshape(count, rows * columns)
    with gzip.open(label_filename) as file:
        file.read(8)
        labels = np.frombuffer(file.read(), np.uint8)
    return pixels.astype(np.float32) / np.float32(255), labels


def softmax_loss(Z: np.ndarray, y: np.ndarray) -> np.floating:
    """Mean of ln Σ e^Z - Z[y] for logits (n, k) and class ids (n,)."""
    return np.mean(np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(len(y)), y])


def _logit_gradient(Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """d(sum of losses)/dZ = softmax(Z) - one_hot(y)"""
    G = np.exp(Z)
    G /= G.sum(axis=1, keepdims=True)
    G[np.arange(len(y)), y] -= 1
    return G


def softmax_regression_epoch(
    X: np.ndarray, y: np.ndarray, theta: np.ndarray, lr: float = 0.1, batch: int = 100
) -> None:
    """One pass of SGD over logits = X theta, in order; theta changes in place."""
    for i in range(0, len(X), batch):
        part, labels = X[i : i + batch], y[i : i + batch]
        theta -= lr / len(part) * part.T @ _logit_gradient(part @ theta, labels)


def nn_epoch(
    X: np.ndarray,
    y: np.ndarray,
    W1: np.ndarray,
    W2: np.ndarray,
    lr: float = 0.1,
    batch: int = 100,
) -> None:
    """One pass of SGD over logits = ReLU(X W1) W2, in order; W1 and W2 change in place."""
    for i in range(0, len(X), batch):
        part, labels = X[i : i + batch], y[i : i + batch]
        hidden = np.maximum(part @ W1, 0)
        G2 = _logit_gradient(hidden @ W2, labels)
        G1 = (hidden > 0) * (G2 @ W2.T)
        W1 -= lr / len(part) * part.T @ G1
        W2 -= lr / len(part) * hidden.T @ G2


def loss_err(h: np.ndarray, y: np.ndarray) -> tuple[np.floating, np.floating]:
    """Softmax loss and error rate of logits h."""
    return softmax_loss(h, y), np.mean(h.argmax(axis=1) != y)


def softmax_regression_epoch_cpp(
    X: np.ndarray, y: np.ndarray, theta: np.ndarray, lr: float = 0.1, batch: int = 100
) -> None:
    """The same pass in C++ (simple_ml_ext.cpp; build it with `make` in this folder)."""
    import simple_ml_ext

    simple_ml_ext.softmax_regression_epoch_cpp(X, y, theta, lr, batch)
