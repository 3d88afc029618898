"""Trainer: the loop, its records, stopping and going on."""

from __future__ import annotations

import io
import math
import os
import signal
import sys
import threading

import numpy as np
import pytest
from needle.trainer import Callback, Diverged, Interrupted, Trainer, accuracy

import needle as ndl
from needle import nn, optim
from needle.data import DataLoader, RandomSampler
from needle.data.dataset import IterableDataset, NDArrayDataset

from .small_run import make_trainer


def line_trainer(lr=0.1, loader=None, **options) -> Trainer:
    """y = 2 x by gradient descent, on four points in two batches."""
    x = np.array([[1.0], [2.0], [3.0], [4.0]], np.float32)
    model = nn.Linear(1, 1, bias=False)
    model.weight.data = ndl.tensor([[0.5]])
    loader = DataLoader(NDArrayDataset(x, 2 * x), 2) if loader is None else loader
    return Trainer(model, optim.SGD(model.parameters(), lr=lr), squares, loader, **options)


def squares(output, target):
    return ((output - target) * (output - target)).mean()


def weight(trainer: Trainer) -> float:
    return float(trainer.model.weight.numpy()[0, 0])


def test_the_loop_is_plain_gradient_descent():
    trainer = line_trainer(lr=0.01)
    history = trainer.fit(3)
    w, losses = 0.5, []
    for _ in range(3):
        for x in (np.array([1.0, 2.0]), np.array([3.0, 4.0])):
            losses.append(np.mean((w * x - 2 * x) ** 2))
            w -= 0.01 * np.mean(2 * (w * x - 2 * x) * x)
    assert weight(trainer) == pytest.approx(w, rel=1e-5)
    expected = np.reshape(losses, (3, 2)).mean(1)
    assert [r["train_loss"] for r in history] == pytest.approx(expected.tolist(), rel=1e-5)
    assert [(r["epoch"], r["step"]) for r in history] == [(1, 2), (2, 4), (3, 6)]
    assert trainer.fit(3) is history and len(history) == 3, "three epochs in all, not three more"


def test_means_count_samples_and_not_batches():
    x = np.arange(3, dtype=np.float32)[:, None]
    trainer = line_trainer(lr=0.0, loader=DataLoader(NDArrayDataset(x, 2 * x), 2))
    (record,) = trainer.fit(1)
    assert record["train_loss"] == pytest.approx(np.mean((0.5 * x - 2 * x) ** 2))
    assert trainer.evaluate(trainer.train_loader) == {"loss": pytest.approx(record["train_loss"])}


def test_callbacks_in_order():
    events = []

    class Note(Callback):
        def on_start(self, trainer):
            events.append("start")

        def on_step(self, trainer):
            events.append((trainer.step, trainer.batch, set(trainer.running())))

        def on_epoch(self, trainer):
            events.append(f"epoch {trainer.epoch}")

        def on_end(self, trainer):
            events.append("end")

    line_trainer(callbacks=[Note(), Callback()]).fit(1)
    assert events == ["start", (1, 1, {"loss"}), (2, 2, {"loss"}), "epoch 1", "end"]


def test_quiet(capsys, tmp_path):
    make_trainer(tmp_path, save_every=None).fit(1, progress=False)
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_line_per_epoch(capsys):
    trainer = line_trainer()
    trainer.fit(2)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:10] for line in lines] == ["epoch 1/2 ", "epoch 2/2 "]
    assert f"loss {trainer.history[1]['train_loss']:.4f}" in lines[1]
    assert not trainer.callbacks, "the bar goes when training ends"


@pytest.mark.parametrize("sized", [True, False])
def test_progress_is_a_bar_on_a_terminal(monkeypatch, sized):
    monkeypatch.setattr("sys.stdout", Terminal())
    loader = line_trainer().train_loader
    trainer = line_trainer(loader=loader if sized else (batch for batch in loader))
    trainer.fit(1)
    written = sys.stdout.getvalue()
    assert ("[####" in written) is sized and ("batch 1 " in written) is not sized
    assert written.rstrip().rpartition("\r")[2].startswith("epoch 1/1  loss"), "the bar is gone"


@pytest.mark.parametrize("width", [30, 50, 62, 70, 100])
def test_the_bar_fits_its_terminal(monkeypatch, width):
    """A narrow one shows the numbers without a bar."""
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((width, 20)))
    line_trainer().fit(1)
    bars = [line for line in sys.stdout.getvalue().split("\r") if "%" in line]
    assert bars and all(len(line) < width and "[]" not in line for line in bars)
    assert all(("[" in line) is (width >= 62) for line in bars), bars


def test_modes_and_graphs():
    modes = []

    class Model(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(ndl.ones(1, 1))

        def forward(self, x):
            modes.append((self.training, ndl.is_grad_enabled()))
            return x @ self.weight

    model = Model()
    x = np.ones((2, 1), np.float32)
    loader = DataLoader(NDArrayDataset(x, x), 2)
    Trainer(model, optim.SGD(model.parameters(), lr=0.1), squares, loader, loader).fit(2)
    assert modes == [(True, True), (False, False)] * 2
    assert model.training


def test_evaluating_leaves_the_mode():
    trainer = line_trainer()
    for training in (False, True):
        trainer.model.train(training)
        trainer.evaluate(trainer.train_loader)
        assert trainer.model.training is training
        with pytest.raises(ValueError, match="no batch to evaluate"):
            trainer.evaluate([])
        assert trainer.model.training is training


def test_early_stopping_keeps_the_best(tmp_path):
    trainer = line_trainer(lr=1.0, patience=2, folder=tmp_path)  # diverges: every epoch is worse
    history = trainer.fit(50)
    assert trainer.stopped_early and trainer.best_epoch == 1 and len(history) == 3
    last = weight(trainer)
    trainer.load_best()
    assert abs(weight(trainer) - 2) < abs(last - 2)


def test_monitor():
    trainer = line_trainer(metrics={"minus": lambda o, t: -float(squares(o, t).item())})
    trainer.monitor, trainer.higher_is_better = "train_minus", True
    trainer.fit(2)
    assert trainer.best == max(r["train_minus"] for r in trainer.history)
    mistyped = line_trainer(monitor="val_loss")
    with pytest.raises(ValueError, match=r"must be one of \['train_loss'\], got 'val_loss'"):
        mistyped.fit(1)
    assert mistyped.step == 0, "nothing was trained in vain"


def test_clipping():
    trainer = line_trainer(lr=1.0, clip_norm=0.25)
    batch = next(iter(trainer.train_loader))
    trainer._train_step(batch)
    assert weight(trainer) == pytest.approx(0.75, rel=1e-5)


@pytest.mark.parametrize(("per", "steps"), [("step", 4), ("epoch", 2)])
def test_schedules(per, steps):
    trainer = line_trainer()
    scheduler = optim.ExponentialLR(trainer.optimizer, 0.5)
    trainer.scheduler, trainer.scheduler_per = scheduler, per
    trainer.fit(2)
    assert trainer.optimizer.lr == pytest.approx(0.1 * 0.5**steps)


def test_plateau_sees_the_monitored_value():
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    x = np.ones((2, 1), np.float32)
    loader = DataLoader(NDArrayDataset(x, x), 2)
    scheduler = optim.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    trainer = Trainer(model, optimizer, squares, loader, scheduler=scheduler)
    trainer.fit(2)
    assert scheduler.best == trainer.best and scheduler.last_epoch == 2


def test_a_loss_that_is_not_a_number_stops_before_the_step():
    trainer = line_trainer(lr=1e30)
    with pytest.raises(ValueError, match=r"\[Trainer\] the loss is (inf|nan) at step 1; lower"):
        trainer.fit(5)
    assert math.isfinite(weight(trainer))


def with_validation(values, **options):
    """A trainer whose validation targets are these, one batch for each epoch; loss = target²."""
    model = nn.Linear(1, 1, bias=False)
    model.weight.data = ndl.zeros(1, 1)
    x = np.zeros((2, 1), np.float32)
    batches = iter([(ndl.tensor(x), ndl.tensor(np.full_like(x, value))) for value in values])

    class OnePerEpoch:
        def __iter__(self):
            yield next(batches)

    optimizer = optim.SGD(model.parameters(), lr=0.0)
    loader = DataLoader(NDArrayDataset(x, x), 2)
    return Trainer(model, optimizer, squares, loader, OnePerEpoch(), **options)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_validation_loss_that_is_not_finite_is_a_warning(capsys, value, tmp_path):
    """Training goes on, later epochs can still be best, and the warning names the user's line."""
    trainer = with_validation([value, 3.0, 2.0], folder=tmp_path)
    with pytest.warns(RuntimeWarning, match=rf"validation loss is {value} after epoch 1") as found:
        trainer.fit(3)
    assert [warning.filename for warning in found] == [__file__]
    assert f"val loss {value}" in capsys.readouterr().out
    assert (trainer.best, trainer.best_epoch, len(trainer.history)) == (4.0, 3, 3)


def test_no_epoch_is_best_without_a_number(tmp_path):
    trainer = with_validation([math.nan, math.nan], folder=tmp_path, patience=2)
    with pytest.warns(RuntimeWarning, match="validation loss is nan"):
        trainer.fit(5)
    assert trainer.stopped_early and trainer.best is None
    with pytest.raises(ValueError, match=r"\[Trainer\] expected .*best.ndl; .* is a number"):
        trainer.load_best()


def test_a_program_without_a_console_trains(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    assert len(line_trainer().fit(2)) == 2


def test_wrong_use():
    with pytest.raises(ValueError, match="at least 1 epoch, got 0"):
        line_trainer().fit(0)
    with pytest.raises(ValueError, match="need a folder"):
        line_trainer().fit(1, resume=True)
    with pytest.raises(ValueError, match="save_every=3 must be at least 1, and needs a folder"):
        line_trainer(save_every=3)
    with pytest.raises(ValueError, match="scheduler_per must be 'step' or 'epoch', got 'day'"):
        line_trainer(scheduler_per="day")
    with pytest.raises(ValueError, match="gave no batch"):
        line_trainer(loader=[]).fit(1)
    with pytest.raises(ValueError, match="no batch to evaluate"):
        line_trainer().evaluate([])
    with pytest.raises(ValueError, match="only if there is a folder"):
        line_trainer().load_best()


def test_accuracy():
    scores = ndl.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    assert accuracy(scores, ndl.tensor([1, 0, 0, 0])) == 0.75
    assert accuracy(scores.reshape((2, 2, 2)), ndl.tensor([[1, 0], [0, 0]])) == 0.75


# Stopping and going on --------------------------------------------------------------------------


class Stop(Callback):
    """Presses Ctrl-C after a step."""

    def __init__(self, step: int):
        self.step = step

    def on_step(self, trainer: Trainer) -> None:
        if trainer.step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("step", [1, 11, 12, 13, 24])
def test_ctrl_c_saves_between_steps(tmp_path, step):
    whole = make_trainer(None, save_every=None)
    whole.fit(3)
    stopped = make_trainer(tmp_path, save_every=None, callbacks=[Stop(step)])
    with pytest.raises(Interrupted, match=rf"after step {step}; saved in .*last.ndl.*resume=True"):
        stopped.fit(3)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    resumed = make_trainer(tmp_path, save_every=None)
    resumed.fit(3, resume=True)
    assert resumed.step == whole.step
    for p, q in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())
    losses = [[r["train_loss"], r["val_loss"]] for t in (resumed, whole) for r in t.history]
    assert losses[:3] == losses[3:]


def test_compiled_steps_train_alike():
    eager, compiled = (make_trainer(None, save_every=None, compile=c) for c in (False, True))
    for trainer in (eager, compiled):
        np.random.seed(3)  # the loaders' order
        ndl.manual_seed(4)
        trainer.fit(1)
    (expected,), (found,) = eager.history, compiled.history
    for name in ("train_loss", "train_accuracy", "val_loss", "val_accuracy"):
        assert found[name] == pytest.approx(expected[name], rel=1e-3)
    for p, q in zip(compiled.model.parameters(), eager.model.parameters(), strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-2, atol=1e-3)


def test_compiled_steps_resume_bit_for_bit(tmp_path):
    whole = make_trainer(None, save_every=None, compile=True)
    whole.fit(2)
    stopped = make_trainer(tmp_path, save_every=None, compile=True, callbacks=[Stop(7)])
    with pytest.raises(Interrupted):
        stopped.fit(2)
    resumed = make_trainer(tmp_path, save_every=None, compile=True)
    resumed.fit(2, resume=True)
    for p, q in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_compiled_steps_follow_changed_settings():
    """A loss, a norm to clip to and an optimizer that are set between steps."""
    found = []
    for compiled in (False, True):
        trainer = line_trainer(compile=compiled)
        batch = next(iter(trainer.train_loader))
        weights = []
        for change in (
            {},
            {"clip_norm": 1e-2},
            {"clip_norm": None, "optimizer": optim.SGD(trainer.model.parameters(), lr=0.02)},
            {"loss_fn": lambda output, target: squares(output, target) * 3},
        ):
            for name, value in change.items():
                setattr(trainer, name, value)
            trainer._train_step(batch)
            weights.append(weight(trainer))
        found.append(weights)
    assert found[1] == pytest.approx(found[0], rel=1e-5) and len(set(found[0])) == 4


def test_a_compiled_step_that_diverges_is_told():
    trainer = line_trainer(lr=1e30, compile=True)
    with pytest.raises(Diverged, match=r"the loss is (inf|nan) at step [12]; lower the learning"):
        trainer.fit(3)


def test_ctrl_c_while_validating(tmp_path):
    """The epoch's training is not done twice, and its validation is done from the start."""

    class Pressing:
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            for batch in self.loader:
                os.kill(os.getpid(), signal.SIGINT)
                yield batch

    whole = make_trainer(None, save_every=None)
    whole.fit(2)
    stopped = make_trainer(tmp_path, save_every=None)
    stopped.val_loader = Pressing(stopped.val_loader)
    with pytest.raises(Interrupted, match="in epoch 1 after step 12"):
        stopped.fit(2)
    resumed = make_trainer(tmp_path, save_every=None)
    resumed.fit(2, resume=True)
    assert resumed.step == 24
    assert [r["val_loss"] for r in resumed.history] == [r["val_loss"] for r in whole.history]


def test_ctrl_c_without_a_folder():
    with pytest.raises(Interrupted, match="nothing was saved, since there is no folder"):
        line_trainer(callbacks=[Stop(1)]).fit(1)


def test_fit_after_ctrl_c_goes_on_in_the_same_epoch():
    x = np.random.rand(40, 1).astype(np.float32)

    def make(**options) -> Trainer:
        loader = DataLoader(NDArrayDataset(x, 3 * x), 8, shuffle=True)
        return line_trainer(loader=loader, **options)

    whole, stopped = make(), make(callbacks=[Stop(7)])
    np.random.seed(0)
    whole.fit(3)
    np.random.seed(0)
    with pytest.raises(Interrupted):
        stopped.fit(3)
    stopped.fit(3)
    assert stopped.step == 15 and weight(stopped) == weight(whole)


def test_fit_outside_the_main_thread():
    trainer = line_trainer()
    thread = threading.Thread(target=trainer.fit, args=(1,))
    thread.start()
    thread.join()
    assert trainer.epoch == 1


def test_resume_without_a_checkpoint_starts(tmp_path):
    trainer = line_trainer(folder=tmp_path / "new")
    trainer.fit(1, resume=True)
    assert (tmp_path / "new" / "last.ndl").is_file() and trainer.epoch == 1


def test_a_sampler_with_a_seed_goes_on(tmp_path):
    x = np.random.rand(40, 1).astype(np.float32)

    def make(folder) -> Trainer:
        data = NDArrayDataset(x, 3 * x)
        loader = DataLoader(data, 8, sampler=RandomSampler(40, seed=3))
        return line_trainer(loader=loader, folder=folder, save_every=None if folder is None else 3)

    whole = make(None)
    whole.fit(4)
    for epochs in (1, 2, 4):
        resumed = make(tmp_path)
        resumed.fit(epochs, resume=True)
    assert weight(resumed) == weight(whole)


def test_a_stream_goes_on(tmp_path):
    class Points(IterableDataset):
        def __iter__(self):
            x = np.arange(1.0, 7.0, dtype=np.float32)[:, None]
            return iter([*zip(x, (2 + x) * x, strict=True)])

    def make(**options) -> Trainer:
        return line_trainer(lr=0.01, loader=DataLoader(Points(), 2), **options)

    whole = make()
    whole.fit(2)
    with pytest.raises(Interrupted):
        make(folder=tmp_path, callbacks=[Stop(4)]).fit(2)
    resumed = make(folder=tmp_path)
    resumed.fit(2, resume=True)
    assert resumed.step == 6 and weight(resumed) == weight(whole)


def test_batches_in_a_list_are_skipped(tmp_path):
    x = ndl.tensor([[1.0], [2.0]])
    batches = [(x, 2 * x), (x, 3 * x), (x, 4 * x)]
    whole = line_trainer(lr=0.01, loader=batches)
    whole.fit(2)
    stopped = line_trainer(lr=0.01, loader=batches, folder=tmp_path, callbacks=[Stop(4)])
    with pytest.raises(Interrupted):
        stopped.fit(2)
    resumed = line_trainer(lr=0.01, loader=batches, folder=tmp_path)
    resumed.fit(2, resume=True)
    assert resumed.step == 6 and weight(resumed) == weight(whole)
