"""Learning-rate schedules: what the rate is at step t.

Each schedule is a formula `at(base, t, i)` of the first rate of group i and the number of steps
taken. That makes schedules composable (one after the other, or one on top of the other), and their
state is one number. They give PyTorch's sequences.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, SupportsFloat, TypeVar

from ..ops.common import whole_number
from ..system import saved
from .group import ParamGroup
from .optimizer import Optimizer

__all__ = [
    "LRScheduler", "LambdaLR", "StepLR", "MultiStepLR", "ExponentialLR", "PolynomialLR",
    "LinearLR", "LinearWarmup", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "OneCycleLR", "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau",
]  # fmt: skip

T = TypeVar("T")


class LRScheduler:
    """Sets the learning rates of an optimizer's groups; call `step` after the optimizer's steps.

    `last_epoch` counts the calls. A rate that something else changed in between keeps that change
    as a factor, so schedulers of one optimizer can be stepped side by side.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer = _check_optimizer(optimizer)
        self.last_epoch = last_epoch
        for group in optimizer.groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ValueError(
                    f"[schedule] last_epoch={last_epoch} needs the first rates: load the "
                    "optimizer's state before."
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.groups]
        self.step()

    def at(self, base: float, t: int, i: int) -> float:
        """The rate at step t of group i, which starts with the rate base."""
        raise TypeError(f"[{type(self).__name__}] define at(base, t, i).")

    def step(self) -> None:
        """Move to the next step."""
        groups, bases = self.optimizer.groups, self.base_lrs
        if len(groups) != len(bases):
            raise ValueError(
                f"[{type(self).__name__}] the schedule began with {len(bases)} groups of "
                f"parameters, now there are {len(groups)}; make a new one."
            )
        t = self.last_epoch + 1
        rates = [self._rate(group["lr"], bases[i], t, i) for i, group in enumerate(groups)]
        self.last_epoch = t
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate

    def _rate(self, current: float, base: float, t: int, i: int) -> float:
        before = self.at(base, t - 1, i) if t > 0 else base
        now = self.at(base, t, i)
        return now if before in (0, current) else current * (now / before)

    def get_last_lr(self) -> list[float]:
        """The current rates of the groups."""
        return [group["lr"] for group in self.optimizer.groups]

    def state_dict(self) -> dict[str, Any]:
        """How far the schedule is; the rates themselves are in the optimizer's state."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a saved state."""
        kinds = {"last_epoch": saved.whole, "base_lrs": saved.numbers}
        epoch, rates = saved.entries(type(self).__name__, state, kinds)
        if len(rates) != len(self.optimizer.groups):
            raise ValueError(
                f"[load_state_dict] {type(self).__name__} expected the first rates of "
                f"{len(self.optimizer.groups)} groups of parameters, got {rates}."
            )
        self.last_epoch, self.base_lrs = epoch, rates


class LambdaLR(LRScheduler):
    """lr = base f(t), with one function or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ):
        self.lr_lambdas = _per_group("lr_lambda", lr_lambda, _check_optimizer(optimizer))
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"[LambdaLR] expected functions, got {type(function).__name__}.")
        super().__init__(optimizer, last_epoch)

    def at(self, base: float, t: int, i: int) -> float:
        return base * float(self.lr_lambdas[i](t))


class StepLR(LRScheduler):
    """lr = base γ^⌊t / step_size⌋"""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ):
        if step_size < 1:
            raise ValueError(f"[StepLR] step_size must be at least 1, got {step_size}.")
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def at(self, base: float, t: int, i: int) -> float:
        return base * self.gamma ** (t // self.step_size)


class MultiStepLR(LRScheduler):
    """lr = base γ^(number of milestones that t has reached)"""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ):
        self.milestones = [whole_number("MultiStepLR", "a milestone", m) for m in milestones]
        self.milestones.sort()
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def at(self, base: float, t: int, i: int) -> float:
        return base * self.gamma ** bisect_right(self.milestones, t)


class ExponentialLR(LRScheduler):
    """lr = base γ^t"""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def at(self, base: float, t: int, i: int) -> float:
        return base * self.gamma**t


class PolynomialLR(LRScheduler):
    """lr = base (1 - t / total_iters)^power, then 0"""

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ):
        if total_iters < 1:
            raise ValueError(f"[PolynomialLR] total_iters must be at least 1, got {total_iters}.")
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def at(self, base: float, t: int, i: int) -> float:
        return float(base * (1 - min(t / self.total_iters, 1)) ** self.power)


class LinearLR(LRScheduler):
    """lr = base f, where f goes from start_factor to end_factor in total_iters steps"""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError(
                "[LinearLR] start_factor must be in (0, 1] and end_factor in [0, 1], "
                f"got {start_factor} and {end_factor}."
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def at(self, base: float, t: int, i: int) -> float:
        part = min(t / self.total_iters, 1.0) if self.total_iters > 0 else 1.0
        return base * _line(self.start_factor, self.end_factor, part)


class LinearWarmup(LinearLR):
    """lr = base min(1, (t + 1) / steps): the first step has base / steps, not 0"""

    def __init__(self, optimizer: Optimizer, steps: int, last_epoch: int = -1):
        if steps < 1:
            raise ValueError(f"[LinearWarmup] steps must be at least 1, got {steps}.")
        super().__init__(optimizer, 1 / steps, 1.0, steps - 1, last_epoch)


class CosineAnnealingLR(LRScheduler):
    """lr = η + (base - η) (1 + cos(π t / T_max)) / 2, with η = eta_min"""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ):
        if T_max < 1:
            raise ValueError(f"[CosineAnnealingLR] T_max must be at least 1, got {T_max}.")
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def at(self, base: float, t: int, i: int) -> float:
        return _cosine(base, self.eta_min, t / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """The same in periods, each T_mult times as long as the one before; the first is T_0"""

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ):
        if T_0 < 1 or T_mult < 1:
            raise ValueError(
                "[CosineAnnealingWarmRestarts] T_0 and T_mult must be at least 1, got "
                f"{T_0} and {T_mult}."
            )
        self.T_0 = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def at(self, base: float, t: int, i: int) -> float:
        period = self.T_0
        while t >= period:
            t, period = t - period, period * self.T_mult
        return _cosine(base, self.eta_min, t / period)


class OneCycleLR(LRScheduler):
    """Up to max_lr and down to almost nothing, with momentum the other way (Smith, 2018).

    The rate goes from max_lr / div_factor to max_lr during pct_start of total_steps (or epochs *
    steps_per_epoch), then down by div_factor * final_div_factor; three_phase puts the way back
    to the first rate between. Momentum (or beta1) goes from max_momentum to base_momentum and back.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        if total_steps is None and epochs is not None and steps_per_epoch is not None:
            total_steps = epochs * steps_per_epoch
        if total_steps is None or total_steps < 1:
            raise ValueError(
                "[OneCycleLR] expected total_steps, or epochs and steps_per_epoch, above 0, got "
                f"{total_steps}, {epochs} and {steps_per_epoch}."
            )
        if not 0 <= pct_start <= 1 or anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "[OneCycleLR] expected pct_start in [0, 1] and anneal_strategy 'cos' or 'linear', "
                f"got {pct_start} and {anneal_strategy!r}."
            )
        self.total_steps = total_steps
        self.anneal = _cosine if anneal_strategy == "cos" else _line
        self.max_lrs = _per_group("max_lr", max_lr, optimizer)
        self.base_momentums = _per_group("base_momentum", base_momentum, optimizer)
        self.max_momentums = _per_group("max_momentum", max_momentum, optimizer)
        self.momentum_name = _momentum_name(optimizer) if cycle_momentum else None
        self.final_div_factor = final_div_factor
        up = float(pct_start * total_steps) - 1
        # (last step, which of the levels first, peak and final it ends at)
        self.phases = [(up, "peak"), (float(total_steps - 1), "final")]
        if three_phase:
            self.phases.insert(1, (float(2 * pct_start * total_steps) - 2, "first"))
        if last_epoch == -1:
            for group, peak in zip(optimizer.groups, self.max_lrs, strict=True):
                group["lr"] = group["initial_lr"] = peak / div_factor
        super().__init__(optimizer, last_epoch)

    def step(self) -> None:
        super().step()
        if self.momentum_name is not None:
            for i, group in enumerate(self.optimizer.groups):
                high, low = self.max_momentums[i], self.base_momentums[i]
                group[self.momentum_name] = self._level(high, low, high, self.last_epoch)

    def at(self, base: float, t: int, i: int) -> float:
        return self._level(base, self.max_lrs[i], base / self.final_div_factor, t)

    def _level(self, first: float, peak: float, final: float, t: int) -> float:
        if t > self.total_steps:
            raise ValueError(
                f"[OneCycleLR] step {t} is after the last of total_steps={self.total_steps}."
            )
        levels = {"first": first, "peak": peak, "final": final}
        start, value = 0.0, first
        for end, name in self.phases:
            if t <= end or end == self.phases[-1][0]:
                return self.anneal(value, levels[name], (t - start) / (end - start))
            start, value = end, levels[name]
        return value


class SequentialLR(LRScheduler):
    """Schedules one after the other: each milestone starts the next one at its own t = 0."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ):
        _check_composable("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"[SequentialLR] expected {len(schedulers) - 1} milestones for {len(schedulers)} "
                f"schedulers, got {list(milestones)}."
            )
        self.schedulers = list(schedulers)
        self.milestones = list(milestones)
        if last_epoch == -1:
            _rewind(optimizer.groups)
        super().__init__(optimizer, last_epoch)

    def at(self, base: float, t: int, i: int) -> float:
        k = bisect_right(self.milestones, t)
        return self.schedulers[k].at(base, t - (self.milestones[k - 1] if k else 0), i)


class ChainedScheduler(LRScheduler):
    """Schedules on top of one another: the rate that one gives is the base of the next."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        chosen = optimizer or (schedulers[0].optimizer if schedulers else None)
        _check_composable("ChainedScheduler", schedulers, chosen)
        assert chosen is not None
        self.schedulers = list(schedulers)
        _rewind(chosen.groups)
        super().__init__(chosen)

    def at(self, base: float, t: int, i: int) -> float:
        for scheduler in self.schedulers:
            base = scheduler.at(base, t, i)
        return base


class ReduceLROnPlateau:
    """lr <- max(factor lr, min_lr) when a metric has not improved for more than patience steps.

    mode "min" or "max" says which way is better; an improvement is one by more than threshold, as
    a part of the best value ("rel") or as it is ("abs"). After a reduction, cooldown steps pass
    without counting.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ):
        if not factor < 1 or mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                "[ReduceLROnPlateau] expected factor < 1, mode 'min' or 'max' and threshold_mode "
                f"'rel' or 'abs', got {factor}, {mode!r} and {threshold_mode!r}."
            )
        self.optimizer = _check_optimizer(optimizer)
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.min_lrs = _per_group("min_lr", min_lr, optimizer)
        self.eps = eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        self.last_epoch = 0

    def step(self, metrics: SupportsFloat) -> None:
        """Look at a new value of the metric (a number, or a tensor of one element)."""
        value = float(metrics)
        self.last_epoch += 1
        if self._better(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0

    def _better(self, value: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            return sign * value > sign * self.best * (1 + sign * self.threshold)
        return sign * value > sign * self.best + self.threshold

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.groups, self.min_lrs, strict=True):
            old = group["lr"]
            new = max(old * self.factor, least)
            if old - new > self.eps:
                group["lr"] = new

    def get_last_lr(self) -> list[float]:
        """The current rates of the groups."""
        return [group["lr"] for group in self.optimizer.groups]

    def state_dict(self) -> dict[str, Any]:
        """The best value and the counters."""
        return {
            "best": self.best,
            "num_bad_epochs": self.num_bad_epochs,
            "cooldown_counter": self.cooldown_counter,
            "last_epoch": self.last_epoch,
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a saved state."""
        counters = dict.fromkeys(("num_bad_epochs", "cooldown_counter", "last_epoch"), saved.whole)
        found = saved.entries("ReduceLROnPlateau", state, {"best": saved.number, **counters})
        self.best, self.num_bad_epochs, self.cooldown_counter, self.last_epoch = found


def _check_optimizer(optimizer: object) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"[schedule] expected an Optimizer, got {type(optimizer).__name__}.")
    return optimizer


def _line(start: float, end: float, part: float) -> float:
    return start + (end - start) * part


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * part)) / 2


def _per_group(name: str, value: T | Sequence[T], optimizer: Optimizer) -> list[T]:
    """One value for each group, from one or a list."""
    count = len(optimizer.groups)
    values: list[Any] = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ValueError(f"[schedule] expected one {name} or {count}, got {len(values)}.")
    return values


def _momentum_name(optimizer: Optimizer) -> str:
    for name in ("beta1", "momentum"):
        if name in optimizer.defaults:
            return name
    raise ValueError(
        f"[OneCycleLR] {type(optimizer).__name__} has no momentum; pass cycle_momentum=False."
    )


def _check_composable(
    name: str, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None
) -> None:
    if not schedulers:
        raise ValueError(f"[{name}] expected at least one scheduler.")
    for scheduler in schedulers:
        if not isinstance(scheduler, LRScheduler):
            raise TypeError(
                f"[{name}] expected schedules of the step alone, got {type(scheduler).__name__}."
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"[{name}] expected schedulers of one optimizer.")
        if isinstance(scheduler, OneCycleLR) and scheduler.momentum_name is not None:
            raise ValueError(f"[{name}] OneCycleLR needs cycle_momentum=False here.")


def _rewind(groups: Iterable[ParamGroup]) -> None:
    """Undo the first step of the schedulers that are being combined."""
    for group in groups:
        group["lr"] = group["initial_lr"]
