"""What training shows: a bar on a terminal, one plain line per epoch anywhere."""

from __future__ import annotations

import shutil
import time
from typing import IO, TYPE_CHECKING

from .callback import Callback

if TYPE_CHECKING:
    from .trainer import Trainer

REDRAW = 0.1  # seconds between two pictures of the bar
SHORTEST_BAR, LONGEST_BAR = 4, 24  # characters


def duration(seconds: float) -> str:
    """0:07, 12:40, 1:02:03"""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def describe(values: dict[str, float], prefix: str = "") -> str:
    """loss 0.1234  accuracy 91.20%"""
    return "  ".join(
        f"{prefix}{name} {value:.2%}" if name == "accuracy" else f"{prefix}{name} {value:.4f}"
        for name, value in values.items()
    )


class Progress(Callback):
    """Writes to a stream; the bar only if that is a terminal."""

    def __init__(self, stream: IO[str], batches: int | None):
        self.stream = stream
        self.batches = batches  # of an epoch; None if the loader does not know
        self.is_terminal = stream.isatty()
        self.started = 0.0
        self.first_step = 0
        self.drawn = 0.0
        self.shown = 0  # characters of the bar that stand on the line

    def on_start(self, trainer: Trainer) -> None:
        self.started = time.perf_counter()
        self.first_step = trainer.step

    def on_step(self, trainer: Trainer) -> None:
        now = time.perf_counter()
        if not self.is_terminal or (
            now - self.drawn < REDRAW and trainer.batch not in (1, self.batches)
        ):
            return
        self.drawn = now
        self._show(self.bar(trainer, now - self.started, shutil.get_terminal_size().columns - 1))

    def bar(self, trainer: Trainer, seconds: float, width: int) -> str:
        """epoch 3/10 [#####.....]  45%  loss 0.3120  accuracy 91.20%  8,123/s  0:12 left"""
        epoch = f"epoch {trainer.epoch + 1}/{trainer.epochs}"
        measured = f"{describe(trainer.running())}  {trainer.samples_per_second:,.0f}/s"
        if not self.batches:
            return f"{epoch}  batch {trainer.batch}  {measured}"[:width]
        share = min(trainer.batch / self.batches, 1.0)
        here = trainer.step - self.first_step
        left = max(0, trainer.epochs * self.batches - trainer.step) * seconds / here
        after = f" {share:4.0%}  {measured}  {duration(left)} left"
        length = min(LONGEST_BAR, width - len(epoch) - len(after) - len(" []"))
        full = round(share * length)
        drawn = f" [{'#' * full}{'.' * (length - full)}]" if length >= SHORTEST_BAR else ""
        return f"{epoch}{drawn}{after}"[:width]

    def on_epoch(self, trainer: Trainer) -> None:
        record = trainer.history[-1]
        parts = [f"epoch {trainer.epoch:{len(str(trainer.epochs))}}/{trainer.epochs}"]
        for prefix, key in (("", "train_"), ("val ", "val_")):
            values = {k.removeprefix(key): v for k, v in record.items() if k.startswith(key)}
            parts += [describe(values, prefix)] if values else []
        parts.append(f"{record['samples_per_second']:,.0f}/s  {record['seconds']:.1f} s")
        self.clear()
        print("  ".join(parts), file=self.stream, flush=True)

    def _show(self, line: str) -> None:
        self.stream.write("\r" + line.ljust(self.shown))
        self.stream.flush()
        self.shown = len(line)

    def clear(self) -> None:
        """Take the bar away."""
        if self.shown:
            self.stream.write("\r" + " " * self.shown + "\r")
            self.stream.flush()
            self.shown = 0
