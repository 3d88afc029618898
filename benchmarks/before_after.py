"""Two trees of needle beside each other: has a change made anything slower?

    python benchmarks/before_after.py BEFORE [AFTER] [--only gemm] [--rounds 9]

BEFORE and AFTER (this tree, if it is not given) are checkouts with a built `_native` beside their
Python files. Each runs in a process of its own: the works of `works.py` in eager mode, then the
steps of `workloads.py`, compiled. Batches alternate; a row is the median of after / before over
neighbouring batches, so 1.03 means 3 % slower. The last line is the geometric mean of all rows.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 0.15  # of a batch


def calls() -> Iterator[tuple[str, Callable[[], Callable[[], object]]]]:
    """Names, and what makes the call that is timed."""
    from steps_needle import needle_model, needle_step
    from steps_torch import torch_model, weights_of
    from workloads import WORKLOADS
    from works import works

    def step(name: str) -> Callable[[], object]:
        work = WORKLOADS[name]()
        return needle_step(work, needle_model(work, weights_of(torch_model(work))), compiled=True)

    for work in works():
        if not work.needs_amx:
            yield work.name, lambda work=work: work.make()[0]  # type: ignore[misc]
    for name in WORKLOADS:
        yield f"step {name}", lambda name=name: step(name)  # type: ignore[misc]


def worker() -> None:
    """Answer on stdout: `make NAME` makes a call, `run N` gives its seconds per call."""
    made = dict(calls())
    print(*made, sep="\t", flush=True)
    call: Callable[[], object] = lambda: None  # noqa: E731
    for line in sys.stdin:
        command, _, rest = line.rstrip("\n").partition(" ")
        if command == "make":
            call = made[rest]()
            end = time.perf_counter() + 2  # hot programs are built meanwhile
            while time.perf_counter() < end:
                call()
        start = time.perf_counter()
        count = int(rest) if command == "run" else 1
        for _ in range(count):
            call()
        print((time.perf_counter() - start) / count, flush=True)


class Tree:
    """A worker of one tree."""

    def __init__(self, root: Path):
        environment = {**os.environ, "PYTHONPATH": str(root / "python")}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "before_after.py"), "--worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self.names = self._line().split("\t")

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"[before_after] a worker ended with code {self.process.wait()}.")
        return line.rstrip("\n")

    def ask(self, command: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return float(self._line())


def compare(before: Tree, after: Tree, name: str, rounds: int) -> tuple[float, float]:
    """Milliseconds before, and the median of after / before."""
    once = max(tree.ask(f"make {name}") for tree in (before, after))
    count = max(1, int(SECONDS / once))
    times = []
    for i in range(rounds):
        order = (before, after) if i % 2 else (after, before)
        taken = {tree: tree.ask(f"run {count}") for tree in order}
        times.append((taken[before], taken[after]))
    ratio = statistics.median(b / a for a, b in times)
    return 1e3 * statistics.median(a for a, _ in times), ratio


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("after", type=Path, nargs="?", default=HERE.parent)
    parser.add_argument("--only", action="append", default=[], help="works with this in the name")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker()
    if options.before is None:
        parser.error("which tree is compared with?")
    before, after = Tree(options.before.resolve()), Tree(options.after.resolve())
    ratios = []
    for name in (n for n in after.names if n in before.names):
        if not options.only or any(part in name for part in options.only):
            took, ratio = compare(before, after, name, options.rounds)
            ratios.append(ratio)
            print(f"{name:40}{took:10.3f} ms{ratio:8.3f}", flush=True)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"{'geometric mean':40}{'':10}   {mean:8.3f}")


if __name__ == "__main__":
    main()
