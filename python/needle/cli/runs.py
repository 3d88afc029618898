"""A run is a folder: its settings, checkpoints, records and pictures.

config.json     settings and facts about the data
last.ndl        all that is needed to resume;  best.ndl  the best epoch's model
metrics.jsonl   one line per epoch;  events.out.tfevents.*  the same for TensorBoard
curve.png       loss and accuracy;  sample.txt  text that the model wrote
result.json     the test result
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io import load
from ..io.events import EventWriter
from ..nn import Module
from ..system.writing import write_whole
from ..train.trainer import Callback, Trainer
from .errors import UsageError
from .picture import draw_history, write_png
from .tasks import build_model

if TYPE_CHECKING:
    from ..types import PathLike


@dataclass
class Settings:
    """What a run was started with."""

    dataset: str
    model: str
    data: str | None
    epochs: int
    batch_size: int
    lr: float
    seed: int
    device: str
    patience: int
    save_every: int | None
    block: int
    compile: bool = False


class Run:
    """The files of a run."""

    def __init__(self, folder: PathLike):
        self.folder = Path(folder)
        self.config = self.folder / "config.json"

    def create(self, settings: Settings, facts: dict[str, object]) -> None:
        """Make the folder and write config.json."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {self.folder}: {error.strerror}") from None
        write_json(self.config, {"settings": asdict(settings), "facts": facts})

    def read_config(self) -> tuple[Settings, dict[str, Any]]:
        """Settings, and facts about the data."""
        try:
            saved = json.loads(self.config.read_text())
            return Settings(**saved["settings"]), saved["facts"]
        except FileNotFoundError:
            raise UsageError(f"{self.folder} is not a run: it has no config.json") from None
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.config} is damaged: {error}") from None

    def load_model(self) -> tuple[Module, Settings, dict[str, Any]]:
        """The best model so far, in eval mode."""
        settings, facts = self.read_config()
        best = self.folder / "best.ndl"
        if not best.is_file():
            raise UsageError(f"{self.folder} has no trained model yet: no epoch was finished")
        model = build_model(settings.model, facts)
        try:
            model.load_state_dict(load(best))
        except ValueError as error:
            raise UsageError(str(error).splitlines()[0]) from None
        return model.eval(), settings, facts

    def write_result(self, result: dict[str, object]) -> None:
        write_json(self.folder / "result.json", result)


def write_json(path: Path, value: object) -> None:
    """The value as text that people can read."""
    write_whole(path, json.dumps(value, indent=2) + "\n")


def new_folder(dataset: str, model: str) -> Path:
    """runs/<data set>-<model>, or with a number behind it."""
    base = Path("runs") / f"{dataset}-{model}"
    folder, number = base, 1
    while folder.exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


class RunLog(Callback):
    """Writes metrics.jsonl, TensorBoard events and curve.png."""

    def __init__(self, folder: Path, title: str):
        self.folder = folder
        self.title = title
        self.metrics = folder / "metrics.jsonl"
        self.events: EventWriter | None = None

    def on_start(self, trainer: Trainer) -> None:
        # An interrupted run may have recorded an epoch that its checkpoint does not have.
        write_whole(self.metrics, "".join(json.dumps(r) + "\n" for r in trainer.history))
        self.events = EventWriter(self.folder, trainer.step)

    def on_epoch(self, trainer: Trainer) -> None:
        record = trainer.history[-1]
        with self.metrics.open("a") as file:
            file.write(json.dumps(record) + "\n")
        scalars = {
            name.replace("train_", "train/").replace("val_", "validation/"): float(value)
            for name, value in record.items()
            if name not in ("epoch", "step")
        }
        assert self.events is not None
        self.events.add(trainer.step, scalars)
        write_png(self.folder / "curve.png", draw_history(trainer.history, self.title))
