"""The only timer of the benchmarks: peers in turn, many times, and the spread beside the median."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SHORTEST = 200e-6  # one sample lasts at least this long, so that the clock's own cost vanishes


class Timing(NamedTuple):
    """Seconds per call: the median and the 10th and 90th percentile of the samples."""

    median: float
    p10: float
    p90: float


def measure(peers: Mapping[str, Callable[[], Any]], seconds: float = 0.5) -> dict[str, Timing]:
    """Time every peer for about `seconds`. Peers take turns, so that all meet the same noise.

    A sample is a run of calls that lasts at least SHORTEST. The first call of each is the warm-up.
    """
    repeats = {name: _repeats(call) for name, call in peers.items()}
    samples: dict[str, list[float]] = {name: [] for name in peers}
    end = time.perf_counter() + seconds * len(peers)
    while time.perf_counter() < end or len(next(iter(samples.values()))) < 5:
        for name, call in peers.items():
            samples[name].append(_sample(call, repeats[name]))
    return {
        name: Timing(*(float(q) for q in np.percentile(taken, [50, 10, 90])))
        for name, taken in samples.items()
    }


def _sample(call: Callable[[], Any], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _repeats(call: Callable[[], Any]) -> int:
    call()
    repeats = 1
    while _sample(call, repeats) * repeats < SHORTEST:
        repeats *= 2
    return repeats


def write_json(path: Path, rows: Any) -> None:
    """Results with what is needed to judge them: the commit, the machine and the command."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    record = {
        "command": " ".join(sys.argv),
        "commit": commit.stdout.strip(),
        "machine": _machine(),
        "rows": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def _machine() -> dict[str, Any]:
    import needle as ndl

    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].partition(":")[2].strip() if names else cpu
    return {
        "cpu": cpu,
        "threads": ndl.get_num_threads(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
