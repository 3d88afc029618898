"""The course's training functions: a two-layer net on MNIST, CIFAR-10 networks, language models."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import numpy as np

import needle as ndl
import needle.nn as nn

# A two-layer network on MNIST ---------------------------------------------------------------------


def parse_mnist(image_filename: str, label_filename: str) -> tuple[np.ndarray, np.ndarray]:
    """MNIST files -> (n, 784) float32 in [0, 1] and (n,) uint8 labels."""
    with gzip.open(image_filename) as file:
        _, count, rows, columns = struct.unpack(">4I", file.read(16))
        pixels = np.frombuffer(file.read(), np.uint8).reshape(count, rows * columns)
    with gzip.open(label_filename) as file:
        file.read(8)
        labels = np.frombuffer(file.read(), np.uint8)
    return pixels.astype(np.float32) / np.float32(255), labels


def softmax_loss(Z: ndl.Tensor, y_one_hot: ndl.Tensor) -> ndl.Tensor:
    """Mean of ln Σ e^Z - Z[y]: logits (n, k) and one-hot labels (n, k)."""
    picked = (Z * y_one_hot).sum((1,))
    return (ndl.logsumexp(Z, axes=(1,)) - picked).sum() / Z.shape[0]


def nn_epoch(
    X: np.ndarray,
    y: np.ndarray,
    W1: ndl.Tensor,
    W2: ndl.Tensor,
    lr: float = 0.1,
    batch: int = 100,
) -> tuple[ndl.Tensor, ndl.Tensor]:
    """One pass of SGD over logits = ReLU(X W1) W2, in order; returns the new (W1, W2)."""
    classes = W2.shape[1]
    for start in range(0, len(X), batch):
        labels = y[start : start + batch]
        inputs = ndl.Tensor(X[start : start + batch], requires_grad=False)
        one_hot = ndl.Tensor(np.eye(classes, dtype=X.dtype)[labels], requires_grad=False)
        softmax_loss(ndl.relu(inputs @ W1) @ W2, one_hot).backward()
        W1 = ndl.Tensor(W1.numpy() - lr * W1.grad.numpy())
        W2 = ndl.Tensor(W2.numpy() - lr * W2.grad.numpy())
    return W1, W2


def loss_err(h: ndl.Tensor, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Softmax loss and error rate of logits h for labels y."""
    one_hot = ndl.Tensor(np.eye(h.shape[-1])[y])
    return softmax_loss(h, one_hot).numpy(), float(np.mean(h.numpy().argmax(axis=1) != y))


# CIFAR-10 -----------------------------------------------------------------------------------------


def epoch_general_cifar10(
    dataloader: Any, model: nn.Module, loss_fn: Any = None, opt: Any = None
) -> tuple[float, float]:
    """One pass, training when an optimizer is given: (accuracy, mean loss per image)."""
    np.random.seed(4)
    loss_fn = nn.SoftmaxLoss() if loss_fn is None else loss_fn
    model.train(opt is not None)
    correct, total_loss, count = 0, 0.0, 0
    for X, y in dataloader:
        logits = model(X)
        loss = loss_fn(logits, y)
        if opt is not None:
            opt.reset_grad()
            loss.backward()
            opt.step()
        correct += int((logits.numpy().argmax(axis=1) == y.numpy()).sum())
        total_loss += float(loss.numpy()) * len(y)
        count += len(y)
    return correct / count, total_loss / count


def train_cifar10(
    model: nn.Module,
    dataloader: Any,
    n_epochs: int = 1,
    optimizer: Any = ndl.optim.Adam,
    lr: float = 0.001,
    weight_decay: float = 0.001,
    loss_fn: Any = nn.SoftmaxLoss,
) -> tuple[float, float]:
    """Train, and give the last epoch's (accuracy, loss)."""
    np.random.seed(4)
    opt = optimizer(model.parameters(), lr=lr, weight_decay=weight_decay)
    result = (0.0, 0.0)
    for _ in range(n_epochs):
        result = epoch_general_cifar10(dataloader, model, loss_fn(), opt)
    return result


def evaluate_cifar10(
    model: nn.Module, dataloader: Any, loss_fn: Any = nn.SoftmaxLoss
) -> tuple[float, float]:
    """(accuracy, loss) in eval mode."""
    np.random.seed(4)
    return epoch_general_cifar10(dataloader, model, loss_fn())


# Penn Treebank ------------------------------------------------------------------------------------


def _detached(h: Any) -> Any:
    if isinstance(h, (tuple, list)):
        return tuple(_detached(part) for part in h)
    return None if h is None else h.detach()


def epoch_general_ptb(
    data: np.ndarray,
    model: nn.Module,
    seq_len: int = 40,
    loss_fn: Any = None,
    opt: Any = None,
    clip: float | None = None,
    device: Any = None,
    dtype: Any = "float32",
) -> tuple[float, float]:
    """One pass in chunks of seq_len, the state carried on: (accuracy, mean loss per token)."""
    np.random.seed(4)
    loss_fn = nn.SoftmaxLoss() if loss_fn is None else loss_fn
    model.train(opt is not None)
    correct, total_loss, count = 0, 0.0, 0
    h = None
    for i in range(0, len(data) - 1, seq_len):
        X, y = ndl.data.get_batch(data, i, seq_len, device=device, dtype=dtype)
        logits, h = model(X, h)
        h = _detached(h)
        loss = loss_fn(logits, y)
        if opt is not None:
            opt.reset_grad()
            loss.backward()
            if clip is not None:
                opt.clip_grad_norm(clip)
            opt.step()
        correct += int((logits.numpy().argmax(axis=1) == y.numpy()).sum())
        total_loss += float(loss.numpy()) * len(y)
        count += len(y)
    return correct / count, total_loss / count


def train_ptb(
    model: nn.Module,
    data: np.ndarray,
    seq_len: int = 40,
    n_epochs: int = 1,
    optimizer: Any = ndl.optim.SGD,
    lr: float = 4.0,
    weight_decay: float = 0.0,
    loss_fn: Any = nn.SoftmaxLoss,
    clip: float | None = None,
    device: Any = None,
    dtype: Any = "float32",
) -> tuple[float, float]:
    """Train, and give the last epoch's (accuracy, loss)."""
    np.random.seed(4)
    opt = optimizer(model.parameters(), lr=lr, weight_decay=weight_decay)
    result = (0.0, 0.0)
    for _ in range(n_epochs):
        result = epoch_general_ptb(data, model, seq_len, loss_fn(), opt, clip, device, dtype)
    return result


def evaluate_ptb(
    model: nn.Module,
    data: np.ndarray,
    seq_len: int = 40,
    loss_fn: Any = nn.SoftmaxLoss,
    device: Any = None,
    dtype: Any = "float32",
) -> tuple[float, float]:
    """(accuracy, loss) in eval mode."""
    np.random.seed(4)
    return epoch_general_ptb(data, model, seq_len, loss_fn(), device=device, dtype=dtype)
