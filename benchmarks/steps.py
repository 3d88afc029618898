"""Whole training steps, compiled, beside PyTorch eager and compiled: benchmarks/steps.py

    python benchmarks/steps.py [--only mlp] [--peers eager,whole] [--json] [--threads 2]

Each library runs in a process of its own, so that first calls are from cold and memory is its own.
Losses over 20 steps from the same weights are compared first; then batches of steps alternate, and
speed = the peer's time / needle's, the median over neighbouring batches. A peer is how PyTorch
runs: eager, fused (Adam in one call), compile (the forward and backward), compile_cl (in
channels-last order), whole (the update too). `needle` as a peer is needle without jit.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LOSSES = 20
# Relative, of all losses: small differences grow from step to step. On the MLP, PyTorch's float32
# losses leave its own float64 ones by 0.5 % after four steps; needle's stay within 1e-6.
TOLERANCE = {"mlp": 2e-2}
USUAL_TOLERANCE = 2e-3
ROUNDS = 7
SECONDS = 0.4  # of a batch

# Speed against eager and against the best compiled PyTorch that a workload is measured by.
BARS = {
    "mlp": {"eager": 5.0, "whole": 2.0},
    "resnet9": {"eager": 2.0, "whole": 1.3},
    "resnet18": {"eager": 1.25, "compile_cl": 1.1},
    "lstm lm": {"eager": 2.5, "compile": 1.5},
    "gpt": {"eager": 1.2, "fused": 1.15},
}
WITH_DROPOUT = {"mlp"}


# One library in a process of its own ------------------------------------------------------------


def worker(name: str, peer: str, threads: int) -> None:
    """Answer commands on stdin: `losses N`, `run N`; one JSON document each."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print does not belong there
    import torch
    from workloads import (
        all_workloads,
        needle_model,
        needle_step,
        torch_model,
        torch_step,
        without_dropout,
    )

    import needle as ndl

    torch.set_num_threads(threads)
    ndl.set_num_threads(threads)
    work = next(w for w in all_workloads() if w.name == name)
    theirs = torch_model(work)
    if os.environ.get("WITHOUT_DROPOUT"):
        without_dropout(theirs)
    built = time.perf_counter()
    if peer in ("jit", "needle"):
        ours = needle_model(work, theirs)
        if os.environ.get("WITHOUT_DROPOUT"):
            without_dropout(ours)
        ndl.manual_seed(0)
        step = needle_step(work, ours, compiled=peer == "jit")
        del theirs
    else:
        step = torch_step(work, theirs, peer)
    losses = [step()]
    first = time.perf_counter() - built
    for line in sys.stdin:
        command, count = line.split()
        answer: dict[str, Any] = {"first_call_s": first}
        if command == "losses":
            losses += [step() for _ in range(int(count) - len(losses))]
            answer["losses"] = losses
        else:
            answer["seconds"] = _timed(step, int(count))
        answer["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        channel.write(json.dumps(answer) + "\n")
        channel.flush()


def _timed(step: Callable[[], float], count: int) -> float:
    step()
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


class Peer:
    """A worker process."""

    def __init__(self, work: str, peer: str, threads: int, dropout: bool = True):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONWARNINGS="ignore")
        if not dropout:
            environment["WITHOUT_DROPOUT"] = "1"
        if peer == "whole":
            environment["TORCHINDUCTOR_CPP_WRAPPER"] = "1"
        arguments = ["--worker", work, peer, "--threads", str(threads)]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=os.path.dirname(os.path.abspath(__file__)),
        )

    def ask(self, command: str, count: int) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{command} {count}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"[steps] a worker ended with code {self.process.wait()}.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# Comparing --------------------------------------------------------------------------------------


def compare(work: str, peer: str, threads: int, checked: int) -> dict[str, Any]:
    """One row of the table."""
    if work in WITH_DROPOUT:
        check(work, *(_losses(Peer(work, p, threads, False), checked) for p in ("jit", peer)))
    ours, theirs = Peer(work, "jit", threads), Peer(work, peer, threads)
    try:
        found, expected = (p.ask("losses", checked) for p in (ours, theirs))
        if work not in WITH_DROPOUT:
            check(work, found["losses"], expected["losses"])
        single = [p.ask("run", 1)["seconds"] for p in (ours, theirs)]
        counts = [max(1, min(100, int(SECONDS / s))) for s in single]
        rounds = []
        for i in range(ROUNDS):
            pair = [0.0, 0.0]
            for k in (0, 1) if i % 2 else (1, 0):
                answer = (ours, theirs)[k].ask("run", counts[k])
                pair[k] = answer["seconds"]
            rounds.append(pair)
        peaks = [p.ask("run", 1)["peak_mb"] for p in (ours, theirs)]
    finally:
        ours.close()
        theirs.close()
    return {
        "work": work,
        "peer": peer,
        "speed": round(statistics.median(b / a for a, b in rounds), 3),
        "bar": BARS.get(work, {}).get(peer),
        "needle_ms": round(1e3 * statistics.median(a for a, _ in rounds), 3),
        "peer_ms": round(1e3 * statistics.median(b for _, b in rounds), 3),
        "first_call_s": round(found["first_call_s"], 3),
        "peer_first_call_s": round(expected["first_call_s"], 3),
        "peak_mb": round(peaks[0]),
        "peer_peak_mb": round(peaks[1]),
    }


def _losses(peer: Peer, count: int) -> list[float]:
    losses: list[float] = peer.ask("losses", count)["losses"]
    peer.close()
    return losses


def check(work: str, ours: list[float], theirs: list[float]) -> None:
    """Losses agree: the first to rounding, and still after all steps."""
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, err_msg=work)
    tolerance = TOLERANCE.get(work, USUAL_TOLERANCE)
    np.testing.assert_allclose(ours, theirs, tolerance, tolerance * theirs[0], err_msg=work)


def line(row: dict[str, Any]) -> str:
    bar = row["bar"]
    mark = "" if bar is None else "ok" if row["speed"] >= bar else "below"
    return (
        f"{row['work']:14}{row['peer']:12}{row['speed']:7.2f}{bar or 0:7.2f}  {mark:6}"
        f"{row['needle_ms']:10.2f}{row['peer_ms']:10.2f}{row['first_call_s']:9.2f}"
        f"{row['peak_mb']:8}{row['peer_peak_mb']:8}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="workloads of this name")
    parser.add_argument("--peers", default="eager", help="eager, fused, compile, whole, needle ...")
    parser.add_argument("--json", action="store_true", help="print and store rows")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--losses", type=int, default=LOSSES, help="steps that are compared")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(*options.worker, options.threads)
        return
    from timing import RESULTS, store

    table = sys.stderr if options.json else sys.stdout
    header = "work          peer          speed    bar        needle, ms  peer, ms  first, s"
    print(header + "  peak, MB (peer)", file=table)
    rows = []
    for work in BARS:
        if options.only and work not in options.only:
            continue
        for peer in options.peers.split(","):
            rows.append(compare(work, peer, options.threads, options.losses))
            print(line(rows[-1]), file=table, flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
        store(RESULTS / "steps.json", rows)


if __name__ == "__main__":
    main()
