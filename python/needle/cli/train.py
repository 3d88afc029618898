"""`needle train`: the main job."""

from __future__ import annotations

import math
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import device_named
from ..backend.native import kernels
from ..optim import AdamW, LambdaLR
from ..system.writing import write_whole
from ..train.progress import describe, duration
from ..train.ranks import Ranks
from ..train.trainer import Interrupted, Trainer, accuracy
from .errors import UsageError
from .generate import first_prompt, sample_text
from .runs import Run, RunLog, Settings, new_folder
from .tasks import BLOCK, FOLDERS, Task, build_model, load_task, loss_of, models_for

# (model, epochs, batch size, learning rate) for a data set, and what differs with other models.
DEFAULTS: dict[str, tuple[str, int, int, float]] = {
    "digits": ("mlp-resnet", 20, 50, 4e-3),
    "mnist": ("mlp-resnet", 10, 100, 2e-3),
    "fashion-mnist": ("resnet9", 12, 100, 3e-3),
    "cifar10": ("resnet9", 20, 100, 3e-3),
    "shakespeare": ("gpt", 20, 32, 3e-3),
}
EPOCHS = {("mnist", "cnn"): 8}
BETAS, WEIGHT_DECAY = (0.9, 0.99), 0.01
CLIP_NORM = 1.0
WARM_UP = 0.1  # part of all steps
FIXED_BY_RUN = (
    *("dataset", "model", "epochs", "batch_size", "lr", "seed", "device"),
    *("patience", "save_every", "compile", "out"),
)


def settings_from(options: Namespace) -> Settings:
    """The options, and the defaults of the data set where none was given."""
    dataset = options.dataset
    if dataset is None:
        raise UsageError("say which data set to train on, or --resume RUN")
    model, epochs, batch_size, lr = DEFAULTS[dataset]
    model = options.model or model
    if model not in models_for(dataset):
        raise UsageError(
            f"--model {model} does not fit {dataset}; choose from {', '.join(models_for(dataset))}"
        )
    if options.data and dataset not in FOLDERS:
        raise UsageError(f"{dataset} comes with needle: leave out --data")
    return Settings(
        dataset=dataset,
        model=model,
        data=options.data and str(Path(options.data).resolve()),
        epochs=options.epochs or EPOCHS.get((dataset, model), epochs),
        batch_size=options.batch_size or batch_size,
        lr=options.lr or lr,
        seed=0 if options.seed is None else options.seed,
        device=options.device or "cpu",
        patience=10 if options.patience is None else options.patience,
        save_every=options.save_every,
        block=BLOCK,
        compile=bool(options.compile),
    )


def resumed(options: Namespace) -> tuple[Run, Settings]:
    """The run to resume, and its settings; only the place of the data may be given again."""
    given = [name for name in FIXED_BY_RUN if getattr(options, name) is not None]
    if given:
        named = ", ".join(
            "DATASET" if n == "dataset" else f"--{n.replace('_', '-')}" for n in given
        )
        raise UsageError(f"--resume keeps the settings of the run: leave out {named}")
    run = Run(options.resume)
    settings, _ = run.read_config()
    if options.data:
        settings.data = str(Path(options.data).resolve())
    return run, settings


def started(options: Namespace) -> tuple[Run, Settings]:
    """A new run in a folder that has none yet."""
    settings = settings_from(options)
    run = Run(options.out or new_folder(settings.dataset, settings.model))
    if run.config.exists():
        raise UsageError(
            f"{run.folder} has a run already; continue it with --resume {run.folder}, or choose "
            "another --out"
        )
    return run, settings


def make_trainer(run: Run, settings: Settings, task: Task) -> Trainer:
    """Model, optimizer, schedule and loaders of a run. Weights are drawn from the seed."""
    np.random.seed(settings.seed)
    try:
        device = device_named(settings.device)
    except RuntimeError as error:
        raise UsageError(f"--device {settings.device}: {error}") from None
    model = build_model(settings.model, task.facts).to(device)
    train, validation, _ = task.loaders(settings.batch_size, device)
    if len(train) == 0:
        raise UsageError(f"--batch-size {settings.batch_size} is more than the training data has")
    total = settings.epochs * len(train)
    optimizer = AdamW(model.parameters(), settings.lr, betas=BETAS, weight_decay=WEIGHT_DECAY)
    title = f"{settings.dataset}, {settings.model}"
    return Trainer(
        model,
        optimizer,
        loss_of,
        train,
        validation,
        scheduler=LambdaLR(optimizer, lambda t: warm_up_and_cosine(t, total)),
        metrics={"accuracy": accuracy},
        callbacks=[RunLog(run.folder, title)],
        clip_norm=CLIP_NORM,
        compile=settings.compile,
        patience=settings.patience,
        folder=run.folder,
        save_every=settings.save_every,
    )


def warm_up_and_cosine(t: int, total: int) -> float:
    """Up to 1 in the first steps, then down to 0 in half a wave."""
    warm_up = max(1, round(WARM_UP * total))
    if t < warm_up:
        return (t + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * min(1, (t - warm_up) / max(1, total - warm_up))))


def run_train(options: Namespace) -> int:
    """The command; its exit code."""
    ranks = Ranks()
    run, settings = (resumed if options.resume else started)(options)
    if settings.batch_size % ranks.count:
        raise UsageError(
            f"--batch-size {settings.batch_size} is not divisible by {ranks.count} ranks"
        )
    run = Run(ranks.first_text(str(run.folder)))
    ranks.wait()  # all have looked at the folder before rank 0 writes into it
    if options.threads:
        kernels.set_num_threads(options.threads)
    task = load_task(settings.dataset, settings.data, settings.model, settings.block)
    trainer = make_trainer(run, settings, task)
    if not options.resume and ranks.is_first:
        run.create(settings, task.facts)
    if ranks.is_first:
        announce(settings, task, trainer)
    try:
        trainer.fit(settings.epochs, resume=bool(options.resume))
        finish(run, settings, task, trainer)
    except KeyboardInterrupt as stop:
        return interrupted(run, stop) if ranks.is_first else 130
    return 0


def announce(settings: Settings, task: Task, trainer: Trainer) -> None:
    """What is going to be trained."""
    parameters = sum(p.size for p in trainer.model.parameters())
    print(task.describe())
    epochs = f"{settings.epochs} epoch{'s' if settings.epochs > 1 else ''}"
    batches = len(trainer.train_loader)  # type: ignore[arg-type]
    print(
        f"{settings.model}: {parameters:,} parameters; {epochs} of {batches} batches of "
        f"{settings.batch_size}, learning rate {settings.lr:g}, seed {settings.seed}"
        + (f"; {trainer.ranks.count} ranks" if trainer.ranks.count > 1 else ""),
        flush=True,
    )


def interrupted(run: Run, stop: KeyboardInterrupt) -> int:
    """Print how to resume; returns the exit code of a program that Ctrl-C ended."""
    done = str(stop).partition(";")[0] if isinstance(stop, Interrupted) else "stopped"
    print(f"{done}. To continue: needle train --resume {run.folder}", flush=True)
    return 130


def finish(run: Run, settings: Settings, task: Task, trainer: Trainer) -> None:
    """The test result of the best epoch's model, a sample of text, and where everything is."""
    first = trainer.ranks.is_first
    if trainer.stopped_early and first:
        print(
            f"stopped early: nothing better than epoch {trainer.best_epoch} in "
            f"{trainer.patience} epochs"
        )
    trainer.load_best()
    _, _, test = task.loaders(settings.batch_size, device_named(settings.device))
    measured = trainer.evaluate(test)
    if not first:
        return
    seconds = sum(record["seconds"] for record in trainer.history)
    result: dict[str, Any] = {
        **{f"test_{name}": value for name, value in measured.items()},
        "best_epoch": trainer.best_epoch,
        "epochs": trainer.epoch,
        "training_seconds": round(seconds, 1),
        "finished": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
    }
    run.write_result(result)
    if task.is_text:
        prompt = first_prompt(task.facts["vocabulary"])
        text = sample_text(trainer.model, task.facts, prompt, 400, 0.8, settings.seed)
        write_whole(run.folder / "sample.txt", text)
        print(f"a sample:\n{text}\n")
    test_line = describe(dict(reversed(measured.items())), "test ")
    print(
        f"{test_line} (best epoch {trainer.best_epoch}, trained in {duration(seconds)}); "
        f"everything is in {run.folder}/"
    )
