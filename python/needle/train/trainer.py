"""Trainer: the training loop, for people's own scripts. Using it is optional.

What should happen along the way (a log, a picture) is a `Callback`; the progress bar is one.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..autograd import Tensor, no_grad
from ..compiler import jit
from ..io import Checkpoint, load, save
from ..optim import ReduceLROnPlateau, clip_grad_norm_
from ..system.writing import remove_abandoned
from .callback import Callback as Callback
from .progress import Progress
from .ranks import Ranks

if TYPE_CHECKING:
    from ..nn.module import Module
    from ..optim.optimizer import Optimizer
    from ..optim.schedule import LRScheduler
    from ..types import PathLike

Metric = Callable[[Tensor, Tensor], Any]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came, and training stopped between two steps; the message says what was saved."""


class Diverged(ValueError):
    """The loss is not a finite number any more."""


def accuracy(output: Tensor, target: Tensor) -> float:
    """The share of rows whose largest output is at the target: (..., C) and ids (...)."""
    with no_grad():
        hits: Tensor = output.detach().argmax(-1).eq(target.astype("int64"))
        return float(hits.astype("float32").mean().item())


class _Means:
    """Means over samples of what was measured per batch."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.count = 0

    def add(self, values: Mapping[str, float], count: int) -> None:
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value) * count
        self.count += count

    def values(self) -> dict[str, float]:
        return {name: total / self.count for name, total in self.sums.items()}

    def over(self, ranks: Ranks, names: Sequence[str]) -> _Means:
        """Those of all ranks; one that has measured nothing counts too."""
        own = {name: self.sums.get(name, 0.0) for name in names}
        totals = ranks.totals({**own, " count": self.count})
        found = _Means()
        found.count = round(totals.pop(" count"))
        found.sums = totals
        return found


def _count(loader: object) -> int | None:
    """How many batches an epoch has; None if the loader cannot know."""
    try:
        return len(loader)  # type: ignore[arg-type]
    except TypeError:
        return None


@contextmanager
def _evaluating(model: Module) -> Iterator[None]:
    """Eval mode within this context, then the former mode."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


class Trainer:
    """Trains a model on batches (inputs..., target), validates, saves, and resumes exactly.

        trainer = Trainer(model, optimizer, loss_fn, train_loader, val_loader,
                          metrics={"accuracy": accuracy}, folder="runs/mine")
        trainer.fit(epochs=10)           # fit(10, resume=True) continues where it stopped
        trainer.evaluate(test_loader)    # {"loss": ..., "accuracy": ...}

    loss_fn     loss_fn(model(*inputs), target) -> a tensor of one element, a mean over the batch
    scheduler   stepped after every optimizer step, or every epoch (scheduler_per="epoch");
                ReduceLROnPlateau sees the monitored value after every epoch
    metrics     {name: metric(output, target)}, means over a batch
    clip_norm   gradients are scaled so that their common norm is at most this
    compile     steps run compiled (`ndl.jit`), if model and loss can: several times as fast for
                small networks. A loss that is not finite is then seen after its update
    monitor     the record's entry that says which epoch is best; by default the validation loss
    patience    stop after this many epochs without a better one
    folder      where last.ndl (all that is needed to resume) and best.ndl (the best epoch's model)
                are written after every epoch; last.ndl also every save_every steps

    On many ranks (`mpirun`) each takes its rows of every batch, gradients are averaged, and rank 0
    writes the files, shows the progress and has the callbacks. Checkpoints do not depend on the
    number of ranks.

    Stopped at any moment and resumed, training reaches the same weights bit for bit. Ctrl-C waits
    for the step to end, saves, and raises Interrupted.
    """

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        loss_fn: Callable[..., Tensor],
        train_loader: Iterable[object],
        val_loader: Iterable[object] | None = None,
        *,
        scheduler: LRScheduler | None = None,
        scheduler_per: str = "step",
        metrics: Mapping[str, Metric] | None = None,
        callbacks: Sequence[Callback] = (),
        clip_norm: float | None = None,
        compile: bool = False,
        monitor: str | None = None,
        higher_is_better: bool = False,
        patience: int | None = None,
        folder: PathLike | None = None,
        save_every: int | None = None,
    ):
        if scheduler_per not in ("step", "epoch"):
            raise ValueError(
                f"[Trainer] scheduler_per must be 'step' or 'epoch', got {scheduler_per!r}."
            )
        if save_every is not None and (folder is None or save_every < 1):
            raise ValueError(
                f"[Trainer] save_every={save_every} must be at least 1, and needs a folder."
            )
        self.ranks = Ranks()
        self.ranks.prepare(model)
        self.model = model
        self.optimizer = optimizer
        self.loss_fn = loss_fn
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.scheduler = scheduler
        self.scheduler_per = "epoch" if isinstance(scheduler, ReduceLROnPlateau) else scheduler_per
        self.metrics = dict(metrics or {})
        self.callbacks = list(callbacks) if self.ranks.is_first else []
        self.clip_norm = clip_norm
        self._compiled_step = jit(self._whole_step) if compile else None
        self.monitor = monitor or ("train_loss" if val_loader is None else "val_loss")
        self.higher_is_better = higher_is_better
        self.patience = patience
        self.folder = None if folder is None else Path(folder)
        self.save_every = save_every

        self.epochs = 0  # how many there will be
        self.epoch = 0  # how many are done
        self.batch = 0  # batches done in this epoch
        self.step = 0  # optimizer steps in all
        self.history: list[dict[str, Any]] = []  # one record per epoch
        self.best: float | None = None
        self.best_epoch = 0
        self._means = _Means()
        self._seconds = 0.0  # of this epoch, also before it was interrupted
        self._all_batches_done = False  # of this epoch
        self._interrupted = False  # has Ctrl-C come to any rank, as all of them know?
        self._signalled = False  # has it come to this one?

    # Training ---------------------------------------------------------------------------------

    def fit(
        self, epochs: int, *, resume: bool = False, progress: bool = True
    ) -> list[dict[str, Any]]:
        """Train until `epochs` epochs are done in all; returns one record per epoch.

        resume=True first loads last.ndl if there is one. The progress is written to the standard
        output: a bar on a terminal, and a line per epoch; progress=False is silent. A training
        loss that is not finite is an error, before it can spoil the weights; a validation loss
        that is not is a warning."""
        if epochs < 1:
            raise ValueError(f"[Trainer] expected at least 1 epoch, got {epochs}.")
        self._check_monitor()
        self.epochs = epochs
        if resume and self._checkpoint().exists():
            self.load()
        if self.folder is not None and self.ranks.is_first:
            remove_abandoned(self.folder)
        with self._showing(progress), self._deferred_interrupt():
            self._tell("on_start")
            while self.epoch < epochs and not self.stopped_early:
                self._run_epoch()
            self._tell("on_end")
        return self.history

    @contextmanager
    def _showing(self, progress: bool) -> Iterator[None]:
        """A bar among the callbacks within this context, unless there is one already."""
        has_one = any(isinstance(callback, Progress) for callback in self.callbacks)
        has_console = sys.stdout is not None and self.ranks.is_first
        if not progress or has_one or not has_console:
            yield
            return
        bar = Progress(sys.stdout, _count(self.train_loader))
        self.callbacks.append(bar)
        try:
            yield
        finally:
            bar.clear()
            self.callbacks.remove(bar)

    @property
    def stopped_early(self) -> bool:
        """Has patience run out?"""
        return self.patience is not None and self.epoch - self.best_epoch >= self.patience > 0

    def running(self) -> dict[str, float]:
        """Means of this epoch so far."""
        return self._means.values() if self._means.count else {}

    @property
    def samples_per_second(self) -> float:
        """The speed of this epoch so far."""
        return self._means.count / max(self._seconds, 1e-9)

    def _check_monitor(self) -> None:
        parts = ["train"] if self.val_loader is None else ["train", "val"]
        names = [f"{part}_{name}" for part in parts for name in ("loss", *self.metrics)]
        if self.monitor not in names:
            raise ValueError(f"[Trainer] monitor must be one of {names}, got {self.monitor!r}.")

    def _run_epoch(self) -> None:
        start = time.perf_counter() - self._seconds
        self.model.train()
        for batch in self._remaining_batches():
            self._train_step(batch)
            self._seconds = time.perf_counter() - start
            self._tell("on_step")
            self._stop_if_interrupted()
            if self.save_every and self.step % self.save_every == 0:
                self.save()
        self._all_batches_done = True
        if self._means.count == 0:
            raise ValueError("[Trainer] the training loader gave no batch.")
        measured = {f"train_{name}": value for name, value in self.running().items()}
        if self.val_loader is not None:
            validated = self.evaluate(self.val_loader)
            self._stop_if_interrupted()
            measured |= {f"val_{name}": value for name, value in validated.items()}
        self._finish_epoch(measured)

    def _remaining_batches(self) -> Iterator[object]:
        """The loader's batches; one that cannot save its position skips those that were done."""
        if self._all_batches_done:  # stopped while validating
            return iter(())
        loader: Any = self.train_loader
        if not hasattr(loader, "state_dict"):
            return islice(loader, self.batch, None)
        if self.batch:  # stopped in this epoch
            loader.load_state_dict(loader.state_dict())
        return iter(loader)

    def _train_step(self, batch: object) -> None:
        batch = self.ranks.share(batch)
        if self._compiled_step is not None:
            # What the step reads from this object: when one of these changes, it is traced again.
            settings = (self.model, self.optimizer, self.loss_fn, self.clip_norm)
            loss, output, target = self._compiled_step(batch, settings)
            value = self._finite(loss)
        else:
            loss, output, target = self.compute(batch)
            value = self._finite(loss)
            self._update(loss)
        if self.scheduler is not None and self.scheduler_per == "step":
            self.scheduler.step()
        self.step += 1
        self.batch += 1
        own = _Means()
        own.add({"loss": value, **self._measure(output, target)}, target.shape[0])
        own.sums["signalled"] = float(self._signalled)
        step = own.over(self.ranks, [*own.sums])
        self._interrupted = step.sums.pop("signalled") > 0
        self._means.add(step.values(), step.count)

    def _whole_step(self, batch: object, settings: object) -> tuple[Tensor, Any, Tensor]:
        """What is compiled, for these settings."""
        loss, output, target = self.compute(batch)
        self._update(loss)
        return loss, output, target

    def _update(self, loss: Tensor) -> None:
        self.optimizer.reset_grad()
        loss.backward(create_graph=False)
        self.ranks.average(self.optimizer.params)
        if self.clip_norm is not None:
            clip_grad_norm_(self.optimizer.params, self.clip_norm)
        self.optimizer.step()

    def _finite(self, loss: Tensor) -> float:
        value = float(loss.item())
        if not math.isfinite(value):
            raise Diverged(
                f"[Trainer] the loss is {value} at step {self.step}; lower the learning rate, or "
                "set clip_norm."
            )
        return value

    def compute(self, batch: Any) -> tuple[Tensor, Any, Tensor]:
        """Loss, output and target of a batch (inputs..., target); override for other batches."""
        *inputs, target = batch
        output = self.model(*inputs)
        return self.loss_fn(output, target), output, target

    def _measure(self, output: Any, target: Tensor) -> dict[str, float]:
        return {name: float(metric(output, target)) for name, metric in self.metrics.items()}

    def _finish_epoch(self, measured: dict[str, float]) -> None:
        self.epoch += 1
        record = {
            "epoch": self.epoch,
            "step": self.step,
            "lr": float(self.optimizer.lr),
            "seconds": round(self._seconds, 3),
            "samples_per_second": round(self.samples_per_second, 1),
            **measured,
        }
        value = record[self.monitor]
        self.history.append(record)
        if self.scheduler is not None and self.scheduler_per == "epoch":
            plateau = isinstance(self.scheduler, ReduceLROnPlateau)
            self.scheduler.step(*([value] if plateau else []))
        self.batch, self._means, self._seconds = 0, _Means(), 0.0
        self._all_batches_done = False
        if self._is_better(value):
            self.best, self.best_epoch = value, self.epoch
            if self.folder is not None and self.ranks.is_first:
                self.folder.mkdir(parents=True, exist_ok=True)
                save(self.model.state_dict(), self.folder / "best.ndl")
        if self.folder is not None:
            self.save()
        self._tell("on_epoch")
        loss = record.get("val_loss", 0.0)
        if not math.isfinite(loss):
            warnings.warn(
                f"[Trainer] the validation loss is {loss} after epoch {self.epoch}, though losses "
                "of training are finite; look for data that training does not have.",
                RuntimeWarning,
                stacklevel=4,  # the line that calls fit
            )

    def _is_better(self, value: float) -> bool:
        """Than all epochs before? What is not a number is never better."""
        if self.best is None or math.isnan(value):
            return not math.isnan(value)
        return value > self.best if self.higher_is_better else value < self.best

    # Measuring --------------------------------------------------------------------------------

    def evaluate(self, loader: Iterable[object]) -> dict[str, float]:
        """Mean loss and metrics over a loader, in eval mode and without a graph."""
        means = _Means()
        with _evaluating(self.model), no_grad():
            for batch in self.ranks.own_batches(loader):
                loss, output, target = self.compute(batch)
                measured = {"loss": float(loss.item()), **self._measure(output, target)}
                means.add(measured, target.shape[0])
                if self._signalled:
                    break
        means.sums["signalled"] = float(self._signalled)
        means = means.over(self.ranks, ["loss", *self.metrics, "signalled"])
        self._interrupted = means.sums.pop("signalled") > 0
        if not means.count:
            raise ValueError("[Trainer] the loader gave no batch to evaluate.")
        return means.values()

    # Saving -----------------------------------------------------------------------------------

    def _checkpoint(self) -> Checkpoint:
        if self.folder is None:
            raise ValueError("[Trainer] saving and resuming need a folder.")
        parts = {"model": self.model, "optimizer": self.optimizer}
        if self.scheduler is not None:
            parts["scheduler"] = self.scheduler
        return Checkpoint(self.folder / "last.ndl", **parts)

    def save(self) -> None:
        """Write last.ndl: between two steps, also in the middle of an epoch."""
        if self.ranks.is_first:
            self._write()
        self.ranks.wait()

    def _write(self) -> None:
        loader: Any = self.train_loader
        self._checkpoint().save(
            epoch=self.epoch,
            batch=self.batch,
            step=self.step,
            history=self.history,
            best=self.best,
            best_epoch=self.best_epoch,
            sums=self._means.sums,
            count=self._means.count,
            seconds=self._seconds,
            all_batches_done=self._all_batches_done,
            data=loader.state_dict() if hasattr(loader, "state_dict") else None,
        )

    def load(self) -> None:
        """Go back to what last.ndl holds."""
        saved = self._checkpoint().load()
        self.epoch, self.batch, self.step = saved["epoch"], saved["batch"], saved["step"]
        self.history, self.best = saved["history"], saved["best"]
        self.best_epoch, self._seconds = saved["best_epoch"], saved["seconds"]
        self._means = _Means()
        self._means.sums, self._means.count = saved["sums"], saved["count"]
        self._all_batches_done = saved["all_batches_done"]
        loader: Any = self.train_loader
        if saved["data"] is not None:
            loader.load_state_dict(saved["data"])

    def load_best(self) -> None:
        """Put the weights of the best epoch into the model."""
        if self.folder is None:
            raise ValueError("[Trainer] the best weights are kept only if there is a folder.")
        best = self.folder / "best.ndl"
        if not best.exists():
            raise ValueError(
                f"[Trainer] expected the best epoch's weights in {best}; they are written after "
                f"an epoch whose {self.monitor} is a number."
            )
        self.model.load_state_dict(load(best))

    # Callbacks and Ctrl-C ---------------------------------------------------------------------

    def _tell(self, event: str) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self)

    def _stop_if_interrupted(self) -> None:
        is_alone = self.ranks.count == 1
        if not self._interrupted and not (is_alone and self._signalled):
            return
        self._interrupted = self._signalled = False
        where = f"stopped in epoch {self.epoch + 1} after step {self.step}"
        if self.folder is None:
            raise Interrupted(f"{where}; nothing was saved, since there is no folder.")
        self.save()
        raise Interrupted(
            f"{where}; saved in {self.folder / 'last.ndl'}; fit(..., resume=True) continues."
        )

    @contextmanager
    def _deferred_interrupt(self) -> Iterator[None]:
        """The first Ctrl-C only sets a flag, so no step is cut in half; the second one is real."""
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            self._signalled = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
