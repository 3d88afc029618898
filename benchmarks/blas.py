"""Matrix products of needle beside those of BLAS libraries: best GFLOP/s of each.

    python benchmarks/blas.py [--threads 2] [--rounds 3]

NumPy's wheel brings OpenBLAS, PyTorch's brings MKL. Each library has a process of its own, since
their idle threads spin beside the others' work; the processes take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

SHAPES = ((64, 64, 64), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 384, 1536))
LIBRARIES = {"needle": "needle", "numpy": "OpenBLAS", "torch": "MKL"}
BATCH = 4e-3  # seconds of calls that are timed as one
SECONDS = 0.3  # for each shape in a round


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps([best_time(*operands(options, *shape)) for shape in SHAPES]))
        return
    rounds = []
    for _ in range(options.rounds):
        rounds.append({name: worker(name, options.threads) for name in LIBRARIES})
    print(f"{'m x k x n':18}" + "".join(f"{title:>10}" for title in LIBRARIES.values()))
    for i, (m, k, n) in enumerate(SHAPES):
        best = [min(found[name][i] for found in rounds) for name in LIBRARIES]
        rates = "".join(f"{2e-9 * m * k * n / seconds:10.1f}" for seconds in best)
        print(f"{m} x {k} x {n}".ljust(18) + rates)


def worker(library: str, threads: int) -> list[float]:
    """Seconds per product of each shape, in a process of the library's own."""
    command = [sys.executable, __file__, "--worker", library, "--threads", str(threads)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


def operands(options: argparse.Namespace, m: int, k: int, n: int) -> tuple[Any, Any]:
    import numpy as np

    a, b = (np.random.default_rng(0).standard_normal(s, dtype="f") for s in ((m, k), (k, n)))
    if options.worker == "needle":
        import needle as ndl

        ndl.set_num_threads(options.threads)
        return ndl.tensor(a), ndl.tensor(b)
    if options.worker == "torch":
        import torch

        torch.set_num_threads(options.threads)
        return torch.tensor(a), torch.tensor(b)
    return a, b


def best_time(a: Any, b: Any) -> float:
    """Seconds per product in the quickest batch."""
    count = max(1, round(BATCH / batch(a, b, 3)))
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        best = min(best, batch(a, b, count))
    return best


def batch(a: Any, b: Any, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        a @ b
    return (time.perf_counter() - start) / count


if __name__ == "__main__":
    main()
