"""Schedules in cycles: rates and momenta go up and down together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .lr_scheduler import LRScheduler, per_group
from .optimizer import Optimizer

__all__ = ["CyclicLR", "OneCycleLR"]


def _cos(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


def _linear(start: float, end: float, share: float) -> float:
    return (end - start) * share + start


class OneCycleLR(LRScheduler):
    """Up to max_lr, and down to almost nothing."""

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: Any = 0.85,
        max_momentum: Any = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
        three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        steps = total_steps if total_steps is not None else epochs * steps_per_epoch  # type: ignore[operator]
        if steps <= 0 or not isinstance(steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {steps}")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self.optimizer = optimizer
        self.total_steps = steps
        up = float(pct_start * steps) - 1
        phases = [
            (up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
            (steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"),
        ]
        if three_phase:
            down = float(2 * pct_start * steps) - 2
            phases[1:] = [
                (down, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases = [dict(zip(names, phase, strict=True)) for phase in phases]
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            rates = per_group(optimizer, "max_lr", max_lr)
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        if last_epoch == -1:  # from where the base class takes the first rate
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"]
        super().__init__(optimizer, last_epoch)

    def _start_momentum(self, base: Any, most: Any, last_epoch: int) -> None:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in defaults
        if last_epoch != -1:
            return
        pairs = zip(
            self.optimizer.param_groups, per_group(self.optimizer, "base_momentum", base),
            per_group(self.optimizer, "max_momentum", most), strict=True,
        )  # fmt: skip
        for group, low, high in pairs:
            set_momentum(group, self.use_beta1, high)
            group["max_momentum"], group["base_momentum"] = high, low

    def get_lr(self) -> list[Any]:
        t = self.last_epoch
        if t > self.total_steps:
            raise ValueError(
                f"Tried to step {t} times. The total number of steps is {self.total_steps}"
            )
        phases: list[dict[str, Any]] = self._schedule_phases
        anneal = _cos if self._anneal_func_type == "cos" else _linear
        found = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for i, phase in enumerate(phases):
                end: Any = phase["end_step"]
                if t <= end or i == len(phases) - 1:
                    share = (t - start) / (end - start)
                    lr = anneal(group[phase["start_lr"]], group[phase["end_lr"]], share)
                    if self.cycle_momentum:
                        momentum = anneal(
                            group[phase["start_momentum"]], group[phase["end_momentum"]], share
                        )
                        set_momentum(group, self.use_beta1, momentum)
                    break
                start = end
            found.append(lr)
        return found


def set_momentum(group: dict[str, Any], use_beta1: bool, value: float) -> None:
    """Give a group a momentum, or Adam's first beta."""
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """Between base_lr and max_lr, up and down."""

    _not_saved = ("optimizer", "_scale_fn_ref", "_custom")

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
        cycle_momentum: bool = True, base_momentum: Any = 0.8, max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = optimizer
        lows = per_group(optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                group["lr"] = low
        self.max_lrs = per_group(optimizer, "max_lr", max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError(
                    "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
                )
            self.use_beta1 = "betas" in optimizer.defaults
            self.base_momentums = per_group(optimizer, "base_momentum", base_momentum)
            self.max_momentums = per_group(optimizer, "max_momentum", max_momentum)
            if last_epoch == -1:
                pairs = zip(
                    self.max_momentums, self.base_momentums, optimizer.param_groups, strict=True
                )
                for high, low, group in pairs:
                    set_momentum(group, self.use_beta1, high)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """How high the peak of a cycle, or of an iteration, is."""
        if self._custom is not None:
            return self._custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        down = (x - 1) / (self.step_ratio - 1)
        height = x / self.step_ratio if x <= self.step_ratio else down
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                set_momentum(group, self.use_beta1, high - (high - low) * height * scale)
        return [
            low + (high - low) * height * scale
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]
