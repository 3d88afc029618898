"""Learning rates that change from epoch to epoch, or from step to step."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ... import torch
from ...tracing import active
from .optimizer import Optimizer
from .rule import number

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",  # noqa: F822
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",  # noqa: F822
]  # fmt: skip


def _set(group: dict[str, Any], value: Any) -> None:
    """Give a group a rate; one that is a tensor changes in place."""
    if isinstance(group["lr"], torch.Tensor):
        group["lr"].fill_(number(value))
    else:
        group["lr"] = value


def per_group(optimizer: Optimizer, name: str, given: Any) -> list[Any]:
    """One value for each group."""
    if not isinstance(given, (list, tuple)):
        return [given] * len(optimizer.param_groups)
    if len(given) != len(optimizer.param_groups):
        raise ValueError(
            f"Expected {len(optimizer.param_groups)} values for {name}, but got {len(given)}."
        )
    return list(given)


def check_untraced(scheduler: LRScheduler) -> None:
    """Raise while a function is traced: its program reads the rates, and would not change them."""
    if active() is not None:
        from ...compiler.errors import TraceError

        raise TraceError(
            f"[torch.optim.lr_scheduler.{type(scheduler).__name__}] call step() between calls of "
            "the compiled function, which reads the learning rate in every call."
        )


def _counting(step: Callable[..., Any], optimizer: Optimizer) -> Callable[..., Any]:
    """The optimizer's step, which notes that it was called."""

    def stepped(*args: Any, **kwargs: Any) -> Any:
        optimizer._opt_called = True  # type: ignore[attr-defined]
        return step(*args, **kwargs)

    stepped._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    return stepped


class LRScheduler:
    """Subclasses define `get_lr`, the rates for `last_epoch`."""

    _not_saved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                first = lr.clone() if isinstance(lr, torch.Tensor) else lr
                group.setdefault("initial_lr", first)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0."
                )
        self.base_lrs = [number(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        if not hasattr(optimizer.step, "_wrapped_by_lr_sched"):
            optimizer.step = _counting(optimizer.step, optimizer)  # type: ignore[method-assign]
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k not in self._not_saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates for `last_epoch`."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or to a given one."""
        check_untraced(self)
        self._step_count += 1
        if self._step_count == 2 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In "
                "PyTorch 1.1.0 "
                "and later, you should call them in the opposite order: `optimizer.step()` before "
                "`lr_scheduler.step()`.",
                UserWarning,
                stacklevel=2,
            )
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            rates = closed() if closed else self.get_lr()
        self._apply(rates)

    def _apply(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _set(group, rate)
        self._last_lr = [number(group["lr"]) for group in self.optimizer.param_groups]

    def _now(self) -> list[float]:
        return [number(group["lr"]) for group in self.optimizer.param_groups]


_LRScheduler = LRScheduler


class LambdaLR(LRScheduler):
    """The first rate times a function of the epoch."""

    multiplies = False

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        self.lr_lambdas = per_group(optimizer, "lr_lambdas", lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Functions are not in the state; the attributes of callable objects are."""
        state = {k: v for k, v in super().state_dict().items() if k != "lr_lambdas"}
        objects = [f if not hasattr(f, "__code__") else None for f in self.lr_lambdas]
        state["lr_lambdas"] = [None if f is None else dict(f.__dict__) for f in objects]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        given = dict(state_dict)
        for function, values in zip(self.lr_lambdas, given.pop("lr_lambdas"), strict=True):
            if values is not None:
                function.__dict__.update(values)
        self.__dict__.update(given)

    def get_lr(self) -> list[Any]:
        return [
            base * f(self.last_epoch)
            for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]


class MultiplicativeLR(LambdaLR):
    """The last rate times a function of the epoch."""

    def get_lr(self) -> list[Any]:
        if self._is_initial:
            return self._now()
        return [lr * f(self.last_epoch) for lr, f in zip(self._now(), self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Times gamma every step_size epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._now()
        return [lr * self.gamma for lr in self._now()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch not in self.milestones:
            return self._now()
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._now()]

    def _get_closed_form_lr(self) -> list[float]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times factor for the first total_iters epochs."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        change = 1.0
        if self.last_epoch == 0:
            change = self.factor
        elif self.last_epoch == self.total_iters:
            change = 1.0 / self.factor
        return [lr * change for lr in self._now()]

    def _get_closed_form_lr(self) -> list[float]:
        later = self.last_epoch >= self.total_iters
        return [base * (self.factor + later * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Times a factor that goes from one to another in a line."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
        total_iters: int = 5, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0 < start_factor <= 1.0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or "
                "equal to 1."
            )
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._now()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._now()
        span = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * span
        return [lr * (1.0 + span / before) for lr in self._now()]

    def _get_closed_form_lr(self) -> list[float]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * share
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self._is_initial:
            return self._now()
        return [lr * self.gamma for lr in self._now()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """(1 - t / T)^power of the first rate."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._now()
        left = 1.0 - self.last_epoch / self.total_iters
        change = (left / (1.0 - (self.last_epoch - 1) / self.total_iters)) ** self.power
        return [lr * change for lr in self._now()]

    def _get_closed_form_lr(self) -> list[float]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate to eta_min in T_max epochs."""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        t, period, least = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._now()
        if self._step_count == 1 and t > 0:
            return self._get_closed_form_lr_from(t)
        if (t - 1 - period) % (2 * period) == 0:
            rise = (1 - math.cos(math.pi / period)) / 2
            return [
                lr + (base - least) * rise
                for base, lr in zip(self.base_lrs, self._now(), strict=True)
            ]
        ratio = (1 + math.cos(math.pi * t / period)) / (1 + math.cos(math.pi * (t - 1) / period))
        return [ratio * (lr - least) + least for lr in self._now()]

    def _get_closed_form_lr_from(self, t: int) -> list[float]:
        share = (1 + math.cos(t * math.pi / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def _get_closed_form_lr(self) -> list[float]:
        return self._get_closed_form_lr_from(self.last_epoch)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines, each T_mult times as long as the one before."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        check_untraced(self)
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._enter(epoch)
        self.last_epoch = math.floor(epoch)
        self._apply(self.get_lr())

    def _enter(self, epoch: float) -> None:
        """The cosine that an epoch lies in, and where."""
        self.T_cur, self.T_i = epoch, self.T_0
        if epoch < self.T_0:
            return
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
        self.T_i = self.T_0 * self.T_mult**n


class SequentialLR(LRScheduler):
    """One scheduler after the other, changing at milestones."""

    _not_saved = ("optimizer", "_schedulers")

    def __init__(
        self, optimizer: Optimizer, schedulers: list[Any], milestones: list[int],
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler, but got no scheduler."
            )
        for scheduler in schedulers:
            if not hasattr(scheduler, "optimizer") or scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{type(self).__name__} expects all schedulers to belong to the same "
                    "optimizer, "
                    f"but got scheduler {type(scheduler).__name__}."
                )
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            _set(group, group["initial_lr"])
        for scheduler in schedulers:  # undo their first steps
            _undo(scheduler)
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        check_untraced(self)
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        starts = i > 0 and self._milestones[i - 1] == self.last_epoch
        self._schedulers[i].step(*([0] if starts else []))
        self._last_lr = self._schedulers[i].get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        given = dict(state_dict)
        for scheduler, state in zip(self._schedulers, given.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(state)
        self.__dict__.update(given)


def _undo(scheduler: Any) -> None:
    for inner in getattr(scheduler, "_schedulers", ()):
        _undo(inner)
    if not hasattr(scheduler, "_schedulers"):
        scheduler.last_epoch -= 1


class ChainedScheduler(LRScheduler):
    """Schedulers one on top of the other."""

    _not_saved = ("optimizer", "_schedulers")

    def __init__(self, schedulers: Sequence[Any], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        if any(scheduler.optimizer is not optimizer for scheduler in schedulers):
            raise ValueError(
                f"{type(self).__name__} expects all schedulers to belong to the same optimizer."
            )
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = self._now()

    def step(self) -> None:  # type: ignore[override]
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._now()

    state_dict = SequentialLR.state_dict
    load_state_dict = SequentialLR.load_state_dict


class ReduceLROnPlateau(LRScheduler):
    """Times factor when a metric has not become better for `patience` epochs."""

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0,
        min_lr: Any = 0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.optimizer = optimizer
        self.factor = factor
        self.min_lrs = per_group(optimizer, "min_lr", min_lr)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._now()
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self) -> None:
        self.best = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        check_untraced(self)
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._now()

    def _reduce_lr(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            old = number(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _set(group, new)

    @property
    def in_cooldown(self) -> bool:
        """Are bad epochs not counted now?"""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Is a better than the best, by more than the threshold?"""
        if self.threshold_mode == "rel":
            factor = 1.0 - self.threshold if self.mode == "min" else self.threshold + 1.0
            return a < best * factor if self.mode == "min" else a > best * factor
        return a < best - self.threshold if self.mode == "min" else a > best + self.threshold


def __getattr__(name: str) -> Any:
    from . import cycles

    if name in cycles.__all__:
        return getattr(cycles, name)
    raise AttributeError(f"module 'torch.optim.lr_scheduler' has no attribute {name!r}")
