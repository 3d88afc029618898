"""Kernels against NumPy, and PyTorch if it can be imported: each answer is checked, then timed.

    python benchmarks/ops.py [--quick] [--only matmul] [--json benchmarks/results/ops.json]

All peers use the same number of threads (NumPy's matmul uses its BLAS' own setting). The last
columns are needle's time relative to each peer's: below 1 needle is faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from timing import measure, write_json

import needle as ndl

try:
    import torch
except ImportError:
    torch = None


class Case(NamedTuple):
    name: str
    inputs: tuple[np.ndarray[Any, Any], ...]
    needle: Callable[..., Any]
    numpy: Callable[..., Any]
    torch: Callable[..., Any]
    work: float  # bytes moved or floating-point operations
    unit: str  # GB/s or GFLOP/s


def cases(quick: bool) -> Iterator[Case]:
    rng = np.random.default_rng(0)

    def array(*shape: int) -> np.ndarray[Any, Any]:
        return rng.standard_normal(shape, dtype=np.float32)

    for n in (1_000, 1_000_000) if quick else (1_000, 100_000, 1_000_000, 10_000_000):
        a, b, size = array(n), array(n), 4.0 * n
        yield Case(f"add {n}", (a, b), ndl.add, np.add, lambda x, y: x + y, 3 * size, "GB/s")
        yield Case(f"exp {n}", (a,), ndl.exp, np.exp, lambda x: x.exp(), 2 * size, "GB/s")
        yield Case(f"tanh {n}", (a,), ndl.tanh, np.tanh, lambda x: x.tanh(), 2 * size, "GB/s")
        yield Case(f"sum {n}", (a,), lambda x: x.sum(), np.sum, lambda x: x.sum(), size, "GB/s")
    side = 1_000
    matrix, row = array(side, side), array(side)
    size = 4.0 * side * side
    yield Case(
        "add matrix + row", (matrix, row), ndl.add, np.add, lambda x, y: x + y, 2 * size, "GB/s"
    )
    for axis in (0, 1):
        yield Case(
            f"sum axis {axis}",
            (matrix,),
            lambda x, axis=axis: x.sum(axis),
            lambda x, axis=axis: x.sum(axis),
            lambda x, axis=axis: x.sum(axis),
            size,
            "GB/s",
        )
    yield Case(
        "copy transposed",
        (matrix,),
        lambda x: x.transpose().clone(),
        lambda x: x.T.copy(),
        lambda x: x.T.contiguous(),
        2 * size,
        "GB/s",
    )
    for n in (64, 512) if quick else (16, 64, 256, 512, 1024, 2048):
        yield Case(
            f"matmul {n}",
            (array(n, n), array(n, n)),
            ndl.matmul,
            np.matmul,
            lambda x, y: x @ y,
            2.0 * n**3,
            "GFLOP/s",
        )


def check(case: Case, result: Any) -> None:
    """The answer first: against float64, within what float32 sums may lose."""
    expected = case.numpy(*(a.astype(np.float64) for a in case.inputs))
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-5 * scale)


def run(case: Case, seconds: float) -> dict[str, Any]:
    tensors = [ndl.Tensor(a, requires_grad=False) for a in case.inputs]
    check(case, case.needle(*tensors))
    peers = {
        "needle": lambda: case.needle(*tensors),
        "numpy": lambda: case.numpy(*case.inputs),
    }
    if torch is not None:
        torch_inputs = [torch.from_numpy(a) for a in case.inputs]
        peers["torch"] = lambda: case.torch(*torch_inputs)
    timings = measure(peers, seconds)
    return {
        "case": case.name,
        "rate": case.work / timings["needle"].median / 1e9,
        "unit": case.unit,
        "microseconds": {name: [1e6 * t for t in timing] for name, timing in timings.items()},
        "ratio": {
            name: timings["needle"].median / timing.median
            for name, timing in timings.items()
            if name != "needle"
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes, shorter runs")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    if torch is not None:
        torch.set_num_threads(ndl.get_num_threads())
    print(f"{'float32':18}{'needle, µs':>11}{'(p10 - p90)':>20}{'/ numpy':>23}{'/ torch':>9}")
    rows = []
    for case in cases(options.quick):
        if options.only not in case.name:
            continue
        row = run(case, 0.1 if options.quick else 0.5)
        rows.append(row)
        median, p10, p90 = row["microseconds"]["needle"]
        ratios = (row["ratio"].get(peer) for peer in ("numpy", "torch"))
        print(
            f"{row['case']:18} {median:10.1f} {f'({p10:.1f} - {p90:.1f})':>19} "
            f"{row['rate']:6.1f} {row['unit']:7}"
            + "".join(" " * 9 if ratio is None else f"{ratio:9.2f}" for ratio in ratios)
        )
    if options.json:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
