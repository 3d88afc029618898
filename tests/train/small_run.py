"""A small training run that can be killed: everything in it that has state or draws numbers.

python small_run.py FOLDER        trains or goes on in FOLDER, one line on stdout per step
"""

from __future__ import annotations

import sys

import numpy as np
from needle.trainer import Callback, Trainer, accuracy

import needle as ndl
from needle import nn, optim
from needle.data import DataLoader, digits
from needle.data.dataset import NDArrayDataset

EPOCHS = 24  # long enough for a fast machine not to finish between twenty kills
STEPS = EPOCHS * 12


class Blurred(NDArrayDataset):
    """Digits with noise from NumPy's generator."""

    def finish(self, raw):
        x, y = raw
        return x + 0.1 * np.random.rand(*x.shape).astype(np.float32), y


def make_trainer(folder, **options) -> Trainer:
    """Dropout draws from a Philox stream, order and noise from NumPy."""
    np.random.seed(1)
    ndl.manual_seed(2)
    x, y = digits("train")
    model = nn.Sequential(
        nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10)
    )
    optimizer = optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
    settings = {
        "scheduler": optim.CosineAnnealingLR(optimizer, STEPS),
        "metrics": {"accuracy": accuracy},
        "clip_norm": 1.0,
        "folder": folder,
        "save_every": 1,
    }
    return Trainer(
        model,
        optimizer,
        nn.SoftmaxLoss(),
        DataLoader(Blurred(x[:360], y[:360]), 30, shuffle=True),
        DataLoader(NDArrayDataset(x[360:460], y[360:460]), 50),
        **(settings | options),
    )


class Announce(Callback):
    """Tells the parent process where training is."""

    def on_step(self, trainer: Trainer) -> None:
        print(trainer.step, flush=True)


if __name__ == "__main__":
    make_trainer(sys.argv[1], callbacks=[Announce()]).fit(EPOCHS, resume=True)
