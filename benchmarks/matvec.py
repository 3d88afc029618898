"""Products of one row with GPT-2's weights, in GB/s of weights: benchmarks/matvec.py

    python benchmarks/matvec.py [--rows 1] [--seconds 0.3] [--json]

Weights in float32, bfloat16 and int8 beside a float32 row, in needle; float32 and bfloat16 in
PyTorch, whose row has the dtype of its weights. So many matrices are multiplied in turn that they
come from memory, not from a cache. Kinds alternate; a figure is the median over rounds. "rows" are
weights (in, out) as nn.Linear keeps them, "columns" (out, in) as PyTorch does. The limit is a plain
loop that sums floats on as many threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from limits import sum_bandwidth
from peer import torch
from timing import RESULTS, SETTLE, store

import needle as ndl

SHAPES = ((768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50_257))
BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}
BEYOND_CACHES = 100e6  # bytes of weights

Call = Callable[[], Any]


def calls(rows: int, shape: tuple[int, int], layout: str) -> dict[str, tuple[Call, float]]:
    """By name: what multiplies with many matrices, and their bytes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, shape[0]), dtype=np.float32)
    stored = shape if layout == "rows" else shape[::-1]
    weight = rng.integers(-127, 128, stored).astype(np.float32)
    found: dict[str, tuple[Call, float]] = {}
    for library, dtype in (
        ("needle", "float32"), ("needle", "bfloat16"), ("needle", "int8"),
        ("torch", "float32"), ("torch", "bfloat16"),
    ):  # fmt: skip
        size = weight.size * BYTES[dtype]
        count = max(1, round(BEYOND_CACHES / size))
        if library == "needle":
            row: Any = ndl.tensor(x)
            weights = [ndl.tensor(weight).astype(dtype).clone() for _ in range(count)]
        else:
            kind = getattr(torch, dtype)
            row = torch.tensor(x).to(kind)
            weights = [torch.tensor(weight).to(kind).clone() for _ in range(count)]
        factors = weights if layout == "rows" else [w.T for w in weights]
        found[f"{library} {dtype}"] = (_products(row, factors), size * count)
    return found


def _products(row: Any, factors: list[Any]) -> Call:
    def run() -> None:
        for factor in factors:
            row @ factor

    return run


def measure(works: dict[str, tuple[Call, float]], seconds: float) -> dict[str, float]:
    """GB/s of each, in turn until the time of all is over."""
    rates: dict[str, list[float]] = {name: [] for name in works}
    end = time.perf_counter() + seconds * len(works)
    while time.perf_counter() < end or len(rates["needle int8"]) < 3:
        for name, (call, size) in works.items():
            time.sleep(SETTLE)  # the other library's threads spin for a while
            call()
            begin = time.perf_counter()
            call()
            rates[name].append(size / (time.perf_counter() - begin) / 1e9)
    return {name: round(statistics.median(found), 1) for name, found in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each figure")
    parser.add_argument("--json", action="store_true", help="print and store rows")
    options = parser.parse_args()
    ndl.set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    limit = round(sum_bandwidth(1 << 25, options.threads) / 1e9, 1)
    print(f"{options.rows} x k x n, {options.threads} threads; a loop that sums: {limit} GB/s")
    rows = []
    for shape in SHAPES:
        for layout in ("rows", "columns"):
            found = measure(calls(options.rows, shape, layout), options.seconds)
            rows.append({"shape": shape, "weights": layout, "limit": limit} | found)
            rates = "  ".join(f"{name} {rate:5.1f}" for name, rate in found.items())
            print(f"{shape[0]:5} x {shape[1]:<6} {layout:8}{rates}", flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
        store(RESULTS / f"matvec-{options.rows}.json", rows)


if __name__ == "__main__":
    main()
