"""needle beside PyTorch, kernel by kernel and for whole training steps, in one process.

    python benchmarks/kernels.py [--only gemm --only conv] [--json] [--threads 2] [--seconds 1]
    python benchmarks/kernels.py --docs    puts the stored table into docs/performance.md

Answers are compared first, then both are timed in alternating batches: speed = PyTorch's time /
needle's, the median over pairs of neighbouring batches. `--json` prints a list of rows and stores
it with the machine, the commit and the command in benchmarks/results/kernels.json (with --only, in
a file of that name beside it). Where a row has "against", speed is a fraction of that limit.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from limits import amx_peak
from peer import torch
from steps_needle import needle_model, needle_step
from steps_torch import torch_model, torch_step, weights_of
from timing import RESULTS, busy, compare, store
from workloads import WORKLOADS
from works import Call, Work, works

import needle as ndl
from needle import _native

STEPS_COMPARED = 2
STEPS = {"c": "resnet18", "d": "lstm lm", "e": "gpt"}
DOCS = Path(__file__).parents[1] / "docs" / "performance.md"
TABLE_START, TABLE_END = "<!-- kernels.py writes from here -->", "<!-- to here -->"
QUIET = 0.1  # of the CPUs may be used by others


def steps() -> Iterator[Work]:
    """Whole training steps in eager mode."""
    for letter, name in STEPS.items():
        yield Work(f"step {letter} {name}", 1.0, partial(_step, name), tolerance=5e-3)


def _step(name: str) -> tuple[Call, Call]:
    workload = WORKLOADS[name]()
    theirs = torch_model(workload)
    ours = needle_model(workload, weights_of(theirs))
    return needle_step(workload, ours), torch_step(workload, theirs)


def check(work: Work, ours: Call, theirs: Call) -> None:
    """Equal answers; of a training step, equal losses of the first steps from the same weights."""
    for _ in range(STEPS_COMPARED):
        for mine, other in zip(_arrays(ours()), _arrays(theirs()), strict=True):
            np.testing.assert_allclose(
                mine, other, rtol=0, atol=work.tolerance * np.abs(other).max(), err_msg=work.name
            )


def _arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(result, list):
        return [array for item in result for array in _arrays(item)]
    if isinstance(result, torch.Tensor):
        result = result.detach()
        return [(result.float() if result.dtype is torch.bfloat16 else result).numpy()]
    return [result.numpy() if isinstance(result, ndl.Tensor) else np.asarray(result)]


def run(work: Work, seconds: float) -> dict[str, Any]:
    """One row of the table; without times where the work has no meaning on this machine."""
    row: dict[str, Any] = {"work": work.name, "speed": None, "bar": work.bar}
    if work.needs_amx and "amx" not in _native.instruction_sets():
        return row | {"needle_ms": None, "torch_ms": None, "against": "no AMX here"}
    best = _native.instruction_set()
    chosen = work.instruction_set
    if chosen is not None and chosen in _native.instruction_sets():
        _native.use_instruction_set(chosen)
    try:
        ours, theirs = work.make()
        check(work, ours, theirs)
        found = compare(ours, theirs, seconds)
    finally:
        _native.use_instruction_set(best)
    row |= {
        "speed": round(found.speed, 3),
        "needle_ms": round(1e3 * found.ours, 4),
        "torch_ms": round(1e3 * found.theirs, 4),
    }
    peak = None if work.operations is None else amx_peak(ndl.get_num_threads())
    if work.operations is not None and peak is not None:
        row["speed"] = round(work.operations / found.ours / peak, 3)
        row["against"] = f"AMX peak, {peak / 1e9:.0f} GFLOP/s"
    return row


def line(row: dict[str, Any]) -> str:
    speed, bar = row["speed"], row["bar"]
    mark = "" if speed is None else "ok" if speed >= bar else "below"
    shown = "-" if speed is None else f"{speed:.2f}"
    times = "".join(f"{milliseconds(row[name]):>11}" for name in ("needle_ms", "torch_ms"))
    about = row.get("against", "")
    return f"{row['work']:34}{shown:>7}{bar:7.2f}  {mark:6}{times}  {about}".rstrip()


def milliseconds(time: float | None) -> str:
    return "-" if time is None else f"{time:.3f}"


def write_docs() -> None:
    """The stored rows as the table of docs/performance.md."""
    stored = json.loads((RESULTS / "kernels.json").read_text())
    machine = stored["machine"]
    lines = [
        f"`{stored['command']}` at {stored['commit']}: {machine['cpu']}, {machine['threads']} "
        f"threads, PyTorch {machine['torch']}, Python {machine['python']}.",
        "",
        "| work | speed | bar | needle, ms | PyTorch, ms |",
        "|---|---|---|---|---|",
    ]
    for row in stored["rows"]:
        about = row.get("against", "")
        speed = about if row["speed"] is None else f"{row['speed']:.2f}"
        limit = f" of the {about}" if about and row["speed"] is not None else ""
        times = f"{milliseconds(row['needle_ms'])} | {milliseconds(row['torch_ms'])}"
        lines.append(f"| {row['work']} | {speed}{limit} | {row['bar']} | {times} |")
    before, _, rest = DOCS.read_text().partition(TABLE_START)
    after = rest.partition(TABLE_END)[2]
    DOCS.write_text("\n".join([before + TABLE_START, *lines, TABLE_END + after]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="works with this in a name")
    parser.add_argument("--json", action="store_true", help="print and store rows")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each work")
    parser.add_argument("--docs", action="store_true", help="write the stored table to docs/")
    options = parser.parse_args()
    if options.docs:
        return write_docs()
    ndl.set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    others = busy()
    if others is not None and others > QUIET:
        print(f"others use {others:.0%} of the CPUs: do not trust the ratios", file=sys.stderr)
    table = sys.stderr if options.json else sys.stdout
    header = ("speed", "bar", "needle, ms", "torch, ms")
    print(f"{'work':34}{header[0]:>7}{header[1]:>7}{header[2]:>19}{header[3]:>11}", file=table)
    rows = []
    for work in (*works(), *steps()):
        if options.only and not any(part in work.name for part in options.only):
            continue
        rows.append(run(work, options.seconds))
        print(line(rows[-1]), file=table, flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
        part = "".join("-" + re.sub(r"\W+", "_", name) for name in options.only or ())
        store(RESULTS / f"kernels{part}.json", rows, used_by_others=others)


if __name__ == "__main__":
    main()
