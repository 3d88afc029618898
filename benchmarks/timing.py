"""The only timer of the benchmarks: two libraries in turn, many times, and ratios of neighbours."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from peer import torch

import needle as ndl

RESULTS = Path(__file__).parent / "results"

# Seconds that a batch of calls lasts at least: the clock costs nothing, and calls of milliseconds
# follow each other as in a training loop (one after a sleep finds its threads asleep).
BATCH = 1e-2
# Seconds of calls before a batch, and of sleep before a long call: PyTorch's second thread keeps
# its CPU busy for 8 to 9 ms after the last call (libgomp waits by spinning), at the cost of whoever
# is timed next.
SETTLE = 12e-3
FEWEST_ROUNDS = 5

Call = Callable[[], Any]


class Comparison(NamedTuple):
    """Median seconds per call, and the median over all rounds of (theirs / ours)."""

    ours: float
    theirs: float
    speed: float


def compare(ours: Call, theirs: Call, seconds: float = 1.0) -> Comparison:
    """Time two calls for about `seconds` together, in alternating batches.

    Two neighbouring batches meet the same noise, so their ratio is steadier than their times.
    """
    calls = (ours, theirs)
    counts = [_calls_per_batch(call) for call in calls]
    rounds: list[list[float]] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds) < FEWEST_ROUNDS:
        order = (0, 1) if len(rounds) % 2 else (1, 0)
        found = [0.0, 0.0]
        for i in order:
            found[i] = _batch(calls[i], counts[i])
        rounds.append(found)
    return Comparison(
        statistics.median(a for a, _ in rounds),
        statistics.median(b for _, b in rounds),
        statistics.median(b / a for a, b in rounds),
    )


def best_time(call: Call, seconds: float = 0.2) -> float:
    """Seconds per call in the quickest batch: for limits of the machine."""
    count = _calls_per_batch(call)
    end = time.perf_counter() + seconds
    times = [_batch(call, count)]
    while time.perf_counter() < end or len(times) < FEWEST_ROUNDS:
        times.append(_batch(call, count))
    return min(times)


def _batch(call: Call, count: int) -> float:
    if count > 1:
        settled = time.perf_counter() + SETTLE
        call()
        while time.perf_counter() < settled:
            call()
    else:
        time.sleep(SETTLE)
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def _calls_per_batch(call: Call) -> int:
    call()  # warm-up
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        if time.perf_counter() - start >= BATCH:
            return count
        count *= 2


def busy(seconds: float = 0.3) -> float | None:
    """The share of the CPUs that other processes use now; None where /proc does not tell."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None

    def ticks() -> list[int]:
        return [int(n) for n in stat.read_text().splitlines()[0].split()[1:]]

    before = ticks()
    time.sleep(seconds)
    spent = [b - a for a, b in zip(before, ticks(), strict=True)]
    return 1 - (spent[3] + spent[4]) / sum(spent)  # idle, waiting for a disk


def commit() -> str:
    """The commit that is measured, marked if the code differs from it."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        root = Path(__file__).parents[1]
        found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
        return found.stdout.strip()

    code = ("python", "native", "benchmarks/*.py")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *code)
    return git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")


def store(path: Path, rows: Any, **more: Any) -> None:
    """Results with what is needed to judge them: the machine, the commit and the command."""
    record = {
        "command": " ".join(["python", *sys.argv]),
        "commit": commit(),
        "machine": machine() | more,
        "rows": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def machine() -> dict[str, Any]:
    """What the figures depend on besides the code."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].partition(":")[2].strip() if names else cpu
    return {
        "cpu": cpu,
        "threads": ndl.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
