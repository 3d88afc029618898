"""How speed grows with size, beside what the machine can do: pictures for docs/performance.md.

    python benchmarks/roofline.py [--seconds 0.3] [--draw]

Times needle and PyTorch in turn with 1 and 2 threads, over four decades of sizes: matrix products
in GFLOP/s against the peak of multiply-adds, elementwise functions and sums in GB/s against a plain
loop over the same memory. Stores the figures in benchmarks/results/roofline.json and draws
docs/images/roofline-*.png; `--draw` only draws what is stored. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from limits import add_bandwidth, fma_peak, sum_bandwidth
from peer import torch
from timing import RESULTS, compare, store

import needle as ndl

STORED = RESULTS / "roofline.json"
IMAGES = Path(__file__).parents[1] / "docs" / "images"
THREADS = (1, 2)
SIDES = (16, 32, 64, 128, 256, 512, 1024, 2048)
COUNTS = tuple(round(10 ** (k / 2)) for k in range(6, 16))  # 10^3 ... 10^7.5


class Kind(NamedTuple):
    """One picture: what is done, in both libraries, and the work of it."""

    title: str
    unit: str
    sizes: tuple[int, ...]
    shapes: Callable[[int], list[tuple[int, ...]]]
    call: Callable[..., Any]
    work: Callable[[int], float]  # floating-point operations, or bytes
    limit: Callable[[int, int], float | None]  # of a size and a number of threads, per second


KINDS = {
    "matmul": Kind(
        "float32 matrix product (n, n) @ (n, n)",
        "GFLOP/s",
        SIDES,
        lambda n: [(n, n), (n, n)],
        lambda a, b: a @ b,
        lambda n: 2.0 * n**3,
        lambda n, threads: fma_peak(threads),
    ),
    "add": Kind(
        "elementwise sum x + y",
        "GB/s",
        COUNTS,
        lambda n: [(n,), (n,)],
        lambda a, b: a + b,
        lambda n: 12.0 * n,
        add_bandwidth,
    ),
    "exp": Kind(
        "exponential of each element",
        "GB/s",
        COUNTS,
        lambda n: [(n,)],
        lambda a: a.exp(),
        lambda n: 8.0 * n,
        add_bandwidth,
    ),
    "sum": Kind(
        "sum of all elements",
        "GB/s",
        COUNTS,
        lambda n: [(n,)],
        lambda a: a.sum(),
        lambda n: 4.0 * n,
        sum_bandwidth,
    ),
}


def measure(kind: Kind, threads: int, seconds: float) -> Iterator[dict[str, Any]]:
    """A point per size: rates of needle, of PyTorch and of the machine, in 10^9 per second."""
    ndl.set_num_threads(threads)
    torch.set_num_threads(threads)
    for size in kind.sizes:
        rng = np.random.default_rng(size)
        arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in kind.shapes(size)]
        ours, theirs = [ndl.tensor(a) for a in arrays], [torch.tensor(a) for a in arrays]
        expected = kind.call(*theirs).numpy()
        np.testing.assert_allclose(
            kind.call(*ours).numpy(), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max()
        )
        found = compare(partial(kind.call, *ours), partial(kind.call, *theirs), seconds)
        limit = kind.limit(size, threads)
        yield {
            "size": size,
            "threads": threads,
            "needle": kind.work(size) / found.ours / 1e9,
            "torch": kind.work(size) / found.theirs / 1e9,
            "limit": None if limit is None else limit / 1e9,
        }


def draw(rows: dict[str, list[dict[str, Any]]]) -> None:
    """A picture per kind, one panel per number of threads, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    IMAGES.mkdir(exist_ok=True)
    for name, points in rows.items():
        kind = KINDS[name]
        figure, panels = plt.subplots(1, len(THREADS), figsize=(9, 3.6), sharey=True)
        for panel, threads in zip(panels, THREADS, strict=True):
            chosen = [p for p in points if p["threads"] == threads]
            sizes = [p["size"] for p in chosen]
            if chosen[0]["limit"] is not None:
                limits = [p["limit"] for p in chosen]
                panel.plot(sizes, limits, "--", color="0.5", label="measured limit")
            panel.plot(
                sizes, [p["torch"] for p in chosen], "s-", color="tab:orange", label="PyTorch"
            )
            panel.plot(sizes, [p["needle"] for p in chosen], "o-", color="tab:blue", label="needle")
            panel.set(xscale="log", yscale="log", xlabel="n")
            panel.set_title(f"{threads} thread" + "s" * (threads > 1), fontsize=10)
            panel.grid(alpha=0.3)
        panels[0].set_ylabel(kind.unit)
        panels[0].legend(fontsize=8)
        figure.suptitle(kind.title, fontsize=11)
        figure.tight_layout()
        figure.savefig(IMAGES / f"roofline-{name}.png", dpi=110)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each point")
    parser.add_argument("--draw", action="store_true", help="draw the stored figures again")
    options = parser.parse_args()
    if not options.draw:
        found: dict[str, list[dict[str, Any]]] = {}
        for name, kind in KINDS.items():
            found[name] = []
            for threads in THREADS:
                for point in measure(kind, threads, options.seconds):
                    found[name].append(point)
                    rates = "".join(f"{point[k] or 0:10.2f}" for k in ("needle", "torch", "limit"))
                    print(f"{name:8}{threads:3}{point['size']:10}{rates} {kind.unit}", flush=True)
        store(STORED, found)
    draw(json.loads(STORED.read_text())["rows"])


if __name__ == "__main__":
    main()
