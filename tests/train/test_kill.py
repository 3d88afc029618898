"""Killed at any moment and resumed, training reaches the same weights bit for bit."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import needle as ndl

from .small_run import EPOCHS, STEPS, make_trainer

SCRIPT = Path(__file__).with_name("small_run.py")
KILLS = 20


def tensors(value, path="") -> dict[str, bytes]:
    """The bytes of every tensor in nested dicts and lists."""
    if isinstance(value, ndl.Tensor):
        return {path: value.numpy().tobytes()}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = {}
    for key, item in items:
        if isinstance(item, (dict, list, tuple, ndl.Tensor)):
            found |= tensors(item, f"{path}.{key}")
    return found


def without_times(history):
    measured = ("epoch", "step", "lr", "train_loss", "train_accuracy", "val_loss", "val_accuracy")
    return [{name: record[name] for name in measured} for record in history]


def kill_somewhere(folder: Path, dice: random.Random) -> int:
    """Start or resume, let it do a few steps, and kill it in the middle of one; the steps seen."""
    command = [sys.executable, str(SCRIPT), str(folder)]
    steps = dice.randint(0, 6)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(steps)]
        time.sleep(dice.uniform(0, 0.03))
        process.kill()
    assert process.returncode == -9
    return len(seen)


def test_twenty_kills_change_nothing(tmp_path):
    dice = random.Random(20)
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    seen = sum(kill_somewhere(killed, dice) for _ in range(KILLS))
    assert 20 < seen < STEPS
    # What a kill in the middle of a write leaves behind; made here, since it is rarely hit.
    leftover = killed / ".last.ndl.needle-0123456789abcdef.part"
    leftover.write_bytes(b"half a checkpoint")

    resumed = make_trainer(killed).fit(EPOCHS, resume=True)
    whole = make_trainer(undisturbed).fit(EPOCHS)
    assert without_times(resumed) == without_times(whole)
    assert not leftover.exists()
    assert not list(killed.glob(".*.part"))

    first, second = ndl.load(killed / "last.ndl"), ndl.load(undisturbed / "last.ndl")
    assert tensors(first["parts"]) == tensors(second["parts"])
    assert len(tensors(first["parts"])) > 20
    assert first["random"] == second["random"]
    assert first["values"]["step"] == STEPS
    best = [ndl.load(folder / "best.ndl") for folder in (killed, undisturbed)]
    assert tensors(best[0]) == tensors(best[1])


def test_a_save_that_fails_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path)
    trainer.fit(1)
    before = (tmp_path / "last.ndl").read_bytes()

    def full_disk(descriptor: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    try:
        trainer.fit(2)
    except OSError as error:
        assert "No space" in str(error)
    monkeypatch.undo()
    assert (tmp_path / "last.ndl").read_bytes() == before
    assert not list(tmp_path.glob(".*.part"))
    again = make_trainer(tmp_path)
    again.load()
    assert again.epoch == 1
    np.testing.assert_array_equal(again.optimizer.state[again.model[0].weight]["step"].numpy(), 12)
