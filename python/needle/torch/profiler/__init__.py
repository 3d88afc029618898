"""`torch.profiler`: how long the parts take that a program names with `record_function`."""

from __future__ import annotations

import enum
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule",
]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """Where time is spent."""

    CPU = 0
    XPU = 1
    CUDA = 2


class ProfilerAction(enum.Enum):
    """What a profiler does at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """Cycles of steps: wait, warm up, record."""
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0 or (repeat and step // cycle >= repeat):
            return ProfilerAction.NONE
        at = step % cycle
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        last = at == cycle - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


@dataclass(frozen=True)
class Row:
    """All spans of one name."""

    key: str
    count: int
    cpu_time_total: float  # microseconds


class Rows(list[Row]):
    """The spans by name."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: object) -> str:
        """Names, microseconds and counts."""
        rows = sorted(self, key=lambda row: -row.cpu_time_total)[:row_limit]
        lines = [f"{'Name':<40} {'CPU total (us)':>16} {'# of Calls':>12}"]
        lines += [f"{r.key:<40} {r.cpu_time_total:>16.1f} {r.count:>12}" for r in rows]
        return "\n".join(lines)


_running: list[profile] = []


class profile:
    """Records the spans inside it, in the steps that the schedule chooses."""

    def __init__(
        self, *, activities: object = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], object] | None = None, **options: object,
    ) -> None:  # fmt: skip
        self._action = schedule or (lambda step: ProfilerAction.RECORD)
        self._ready = on_trace_ready
        self._spans: dict[str, list[float]] = {}
        self.step_num = 0

    def start(self) -> None:
        """Begin."""
        _running.append(self)

    def stop(self) -> None:
        """End."""
        _running.remove(self)
        if self._ready is not None and self._spans:
            self._ready(self)

    def step(self) -> None:
        """The next step."""
        if self._action(self.step_num) is ProfilerAction.RECORD_AND_SAVE and self._ready:
            self._ready(self)
            self._spans = {}
        self.step_num += 1

    def note(self, name: str, seconds: float) -> None:
        """A span has ended."""
        if self._action(self.step_num) in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._spans.setdefault(name, []).append(seconds)

    def key_averages(self, **options: object) -> Rows:
        """The spans by name."""
        return Rows(Row(k, len(v), sum(v) * 1e6) for k, v in self._spans.items())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class record_function:
    """A named span, as a context or a decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        for profiler in _running:
            profiler.note(self.name, time.perf_counter() - self._start)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return inner
