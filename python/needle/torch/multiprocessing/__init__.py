"""`torch.multiprocessing`: Python's own, and `spawn`. Processes have copies of tensors."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing import *
from typing import Any

__all__ = [
    *multiprocessing.__all__, "ProcessExitedException", "ProcessRaisedException",
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn",
]  # fmt: skip

STRATEGY = "file_system"


class ProcessRaisedException(Exception):
    """A process ended with an error."""


class ProcessExitedException(ProcessRaisedException):
    """A process was ended by a signal or by itself."""


def get_all_sharing_strategies() -> set[str]:
    """How memory may be passed: the one name that there is."""
    return {STRATEGY}


def get_sharing_strategy() -> str:
    """How memory is passed."""
    return STRATEGY


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how memory is passed."""
    if new_strategy not in {STRATEGY, "file_descriptor"}:
        raise ValueError(f"[set_sharing_strategy] expected {STRATEGY!r}, got {new_strategy!r}.")


def spawn(
    fn: Callable[..., object], args: Sequence[Any] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> list[multiprocessing.process.BaseProcess] | None:  # fmt: skip
    """Run fn(i, *args) in `nprocs` processes, which are forked: none imports anew."""
    if start_method not in multiprocessing.get_all_start_methods():
        raise ValueError(f"[spawn] expected a start method, got {start_method!r}.")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for worker in workers:
        worker.start()
    if not join:
        return [*workers]
    for worker in workers:
        worker.join()
    for i, worker in enumerate(workers):
        if worker.exitcode:
            kind = ProcessRaisedException if worker.exitcode > 0 else ProcessExitedException
            raise kind(f"process {i} terminated with exit code {worker.exitcode}")
    return None
