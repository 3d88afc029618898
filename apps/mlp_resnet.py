"""The course's MLP with residual blocks, trained on MNIST."""

from __future__ import annotations

from typing import Any

import numpy as np

import needle as ndl
import needle.nn as nn


def ResidualBlock(
    dim: int, hidden_dim: int, norm: Any = nn.BatchNorm1d, drop_prob: float = 0.1
) -> nn.Module:
    """ReLU(x + norm(Linear(Dropout(ReLU(norm(Linear(x)))))))"""
    body = nn.Sequential(
        nn.Linear(dim, hidden_dim),
        norm(hidden_dim),
        nn.ReLU(),
        nn.Dropout(drop_prob),
        nn.Linear(hidden_dim, dim),
        norm(dim),
    )
    return nn.Sequential(nn.Residual(body), nn.ReLU())


def MLPResNet(
    dim: int,
    hidden_dim: int = 100,
    num_blocks: int = 3,
    num_classes: int = 10,
    norm: Any = nn.BatchNorm1d,
    drop_prob: float = 0.1,
) -> nn.Module:
    """Linear, ReLU, residual blocks, Linear; images are flattened first."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(dim, hidden_dim),
        nn.ReLU(),
        *(ResidualBlock(hidden_dim, hidden_dim // 2, norm, drop_prob) for _ in range(num_blocks)),
        nn.Linear(hidden_dim, num_classes),
    )


def epoch(dataloader: Any, model: nn.Module, opt: Any = None) -> tuple[float, float]:
    """One pass, training when an optimizer is given: (error rate, mean loss per sample)."""
    np.random.seed(4)
    loss_fn = nn.SoftmaxLoss()
    model.train(opt is not None)
    wrong, total_loss, count = 0, 0.0, 0
    for X, y in dataloader:
        logits = model(X)
        loss = loss_fn(logits, y)
        if opt is not None:
            opt.reset_grad()
            loss.backward()
            opt.step()
        wrong += int((logits.numpy().argmax(axis=1) != y.numpy()).sum())
        total_loss += float(loss.numpy()) * len(y)
        count += len(y)
    return wrong / count, total_loss / count


def train_mnist(
    batch_size: int = 100,
    epochs: int = 10,
    optimizer: Any = ndl.optim.Adam,
    lr: float = 0.001,
    weight_decay: float = 0.001,
    hidden_dim: int = 100,
    data_dir: str = "data",
) -> tuple[float, float, float, float]:
    """Train on the files in data_dir: (train error, train loss, test error, test loss)."""
    np.random.seed(4)
    train = ndl.data.MNISTDataset(
        f"{data_dir}/train-images-idx3-ubyte.gz", f"{data_dir}/train-labels-idx1-ubyte.gz"
    )
    test = ndl.data.MNISTDataset(
        f"{data_dir}/t10k-images-idx3-ubyte.gz", f"{data_dir}/t10k-labels-idx1-ubyte.gz"
    )
    model = MLPResNet(28 * 28, hidden_dim)
    opt = optimizer(model.parameters(), lr=lr, weight_decay=weight_decay)
    train_loader = ndl.data.DataLoader(train, batch_size, shuffle=True)
    for _ in range(epochs):
        train_error, train_loss = epoch(train_loader, model, opt)
    test_error, test_loss = epoch(ndl.data.DataLoader(test, batch_size), model)
    return train_error, train_loss, test_error, test_loss


if __name__ == "__main__":
    print(train_mnist(data_dir="data"))
