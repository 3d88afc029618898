"""Train a small GPT: fit.py FOLDER [--compile] [--resume] [--kill STEP] [--interrupt STEP].

Rank 0 writes each step's loss, in all of its digits, to FOLDER/losses.txt."""

import argparse
import os
import signal
from pathlib import Path

import numpy as np

from needle import distributed as d, optim
from needle.cli.tasks import loss_of
from needle.data import DataLoader, TextDataset
from needle.train.callback import Callback
from needle.train.models import text_model
from needle.train.trainer import Interrupted, Trainer

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--compile", action="store_true")
parser.add_argument("--resume", action="store_true")
parser.add_argument("--kill", type=int, default=-1)
parser.add_argument("--interrupt", type=int, default=-1)
options = parser.parse_args()
options.folder.mkdir(exist_ok=True)
d.init()
np.random.seed(0)
text = "".join(np.random.default_rng(0).choice(list("abc de\n"), 1000))
data = TextDataset(text, 16)
model = text_model("gpt", len(set(text)), 16, width=16, heads=2, layers=1)
optimizer = optim.AdamW(model.parameters(), 3e-3)
loader = DataLoader(data, 8, shuffle=True, drop_last=True)


class Watch(Callback):
    """The loss of each step, from the sums of the epoch; and what happens to a rank."""

    sums = 0.0

    def on_start(self, trainer: Trainer) -> None:
        self.sums = trainer._means.sums.get("loss", 0.0)

    def on_step(self, trainer: Trainer) -> None:
        total = trainer._means.sums["loss"]
        loss, self.sums = total if trainer.batch == 1 else total - self.sums, total
        with (options.folder / "losses.txt").open("a") as file:
            file.write(f"{trainer.step} {loss / 8:.9g} {float(total).hex()}\n")


trainer = Trainer(
    model, optimizer, loss_of, loader,
    callbacks=[Watch()], compile=options.compile, clip_norm=1.0,
    folder=options.folder, save_every=10,
)  # fmt: skip
plain = trainer._train_step


def step(batch: object) -> None:
    """A step; before it, what happens to the last rank."""
    if d.rank() == d.world_size() - 1:
        if trainer.step == options.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if trainer.step == options.interrupt:
            os.kill(os.getpid(), signal.SIGINT)
    plain(batch)


trainer._train_step = step
try:
    trainer.fit(1, resume=options.resume, progress=False)
except Interrupted as stop:
    print(stop)
