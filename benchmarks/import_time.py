"""What `import needle` costs beyond `import numpy`, in fresh processes; exit code 1 above the bar.

Usage: python benchmarks/import_time.py [--runs 30] [--modules 8]

Each process imports numpy, then needle, then makes the first step of a small model, and times the
three by itself, so that each run compares them at the same moment. Given are the best and the
median of all runs. Bytecode is cached, as it is for an installed package.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from statistics import median

BAR = 0.4  # of numpy's own import

TIMED = """
from time import perf_counter
times = [perf_counter()]
import numpy
times.append(perf_counter())
import needle as ndl
times.append(perf_counter())
from needle import nn, optim
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = optim.Adam(model.parameters())
nn.functional.cross_entropy(model(ndl.zeros(50, 64)), ndl.zeros(50, dtype="int64")).backward()
optimizer.step()
times.append(perf_counter())
print(*(1000 * (b - a) for a, b in zip(times, times[1:])))
"""


def run(code: str, cache: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": cache},
    )


def import_times(package: str, cache: str) -> dict[str, float]:
    """Milliseconds that each module took itself, without what it imports."""
    times = {}
    for line in run(f"import {package}", cache, "-X", "importtime").stderr.splitlines():
        own, _, name = line.removeprefix("import time:").split("|")
        if own.strip().isdigit():
            times[name.strip()] = int(own) / 1000
    return times


def costliest(count: int, runs: int, cache: str) -> None:
    """The modules that take longest, each at its best of all runs."""
    known = import_times("numpy", cache)
    measured = [import_times("needle", cache) for _ in range(runs)]
    best = {name: min(run[name] for run in measured) for name in measured[0] if name not in known}
    print(f"{len(best)} modules beyond numpy's {len(known)}")
    for name in sorted(best, key=best.__getitem__, reverse=True)[:count]:
        print(f"  {best[name]:6.1f} ms  {name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--modules", type=int, default=0, help="also list the costliest modules")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        run(TIMED, cache)  # fills the cache
        runs = [run(TIMED, cache).stdout.split() for _ in range(options.runs)]
        if options.modules:
            costliest(options.modules, options.runs, cache)
    numpy, needle, step = ([float(times[i]) for times in runs] for i in range(3))
    for name, of in ("best", min), ("median", median):
        print(
            f"{name:>6} of {options.runs}: numpy {of(numpy):.1f} ms; needle {of(needle):.1f} ms "
            f"beyond it, {of(needle) / of(numpy):.2f} of it; first step {of(step):.1f} ms"
        )
    ratio = min(needle) / min(numpy)
    print(f"import needle: {ratio:.2f} of numpy's import beyond it (the bar is {BAR})")
    return int(ratio > BAR)


if __name__ == "__main__":
    sys.exit(main())
