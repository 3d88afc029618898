"""What a Trainer tells along the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trainer import Trainer


class Callback:
    """What a Trainer tells about its progress; override what you need."""

    def on_start(self, trainer: Trainer) -> None:
        """Training starts, or continues from a checkpoint."""

    def on_step(self, trainer: Trainer) -> None:
        """A batch is done: see trainer.step, trainer.batch and trainer.running()."""

    def on_epoch(self, trainer: Trainer) -> None:
        """An epoch is done and validated: trainer.history[-1]."""

    def on_end(self, trainer: Trainer) -> None:
        """Training is over: all epochs, or early."""
