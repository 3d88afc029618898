"""Whole steps, compiled, beside PyTorch (eager and compiled) and JAX: benchmarks/steps.py

    python benchmarks/steps.py [--only mlp] [--peers eager,whole,jax,needle] [--json] [--docs]

Works and networks: `workloads.py`. Peers: `steps_torch.py` says which ways of PyTorch there are;
`needle` is needle without jit, `float32` needle with jit and weights in float32, `without lanes`
needle with jit and without one of its mechanisms (`mechanisms.py`); without --peers, each workload
has those that BARS names.

Every library runs in a process of its own, which imports no other one: so first calls are from
cold, and peak memory is its own. Before anything is timed, the losses of 20 steps from the same
weights and batches are compared (not with JAX, whose weights differ; without dropout). Then batches
of steps alternate; speed = the peer's time / needle's, the median over neighbouring batches.
--json stores rows in results/steps.json, in the place of former rows of the same work and peer.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
from workloads import WORKLOADS, without_dropout

LOSSES = 20
# Relative, of all losses: small differences grow from step to step. On the MLP, PyTorch's float32
# losses leave its own float64 ones by 0.5 % after four steps; needle's stay within 1e-6.
TOLERANCE = {"mlp": 2e-2}
# Of weights that are rounded, for the first loss too.
ROUNDED = {"bfloat16": 5e-3, "int8": 2e-2}
USUAL_TOLERANCE = 2e-3
WITH_DROPOUT = {"mlp"}
WARM = 5  # seconds of steps before anything is timed: needle builds hot kernels meanwhile
ROUNDS = 7
SECONDS = 0.4  # of a batch

# Speed asked for: against eager PyTorch, against its best way and JAX, and against float32 weights.
BARS: dict[str, dict[str, float | None]] = {
    "mlp": {"eager": 5.0, "whole": 2.0, "jax": 2.0},
    "resnet9": {"eager": 2.0, "whole": 1.3, "jax": 1.3},
    "resnet18": {"eager": 1.25, "compile_cl": 1.1, "jax": 1.1},
    "lstm lm": {"eager": 2.5, "compile": 1.5, "jax": 1.5},
    "gpt": {"eager": 1.2, "fused": 1.15, "jax": 1.15},
    "gpt2 decode": {"eager": 1.1, "compile": 1.0, "jax": 1.0},
    "gpt2 prefill": {"eager": 1.3, "compile": 1.1, "jax": 1.1},
    "gpt2 decode bfloat16": {"float32": 1.7},
    "gpt2 decode int8": {"float32": None},
    "gpt2 prefill int8": {"float32": None},
}
DOCS = Path(__file__).parents[1] / "docs" / "performance.md"
TABLE_START, TABLE_END = "<!-- steps.py writes from here -->", "<!-- to here -->"


# One library in a process of its own ------------------------------------------------------------


def make_step(name: str, peer: str, threads: int, weights: str, dropout: bool) -> Any:
    """The step of a workload as a peer runs it. Libraries are imported here, one per process."""
    work = WORKLOADS[name]()
    if peer == "float32":
        work, peer = work._replace(weights="float32"), "jit"
    switched_off = peer.removeprefix("without ") if peer.startswith("without ") else ""
    if switched_off:
        peer = "jit"
    if peer == "jax":
        from steps_jax import jax_step

        return jax_step(work)
    if peer in ("jit", "needle"):
        from steps_needle import needle_model, needle_step

        import needle as ndl

        if switched_off:
            from mechanisms import switch_off

            switch_off(switched_off)
        ndl.set_num_threads(threads)
        ndl.manual_seed(0)
        model = needle_model(work, np.load(weights))
        if not dropout:
            without_dropout(model)
        return needle_step(work, model, compiled=peer == "jit")
    from steps_torch import torch, torch_model, torch_step, weights_of

    torch.set_num_threads(threads)
    model = torch_model(work)
    if peer == "weights":
        np.savez(weights, **weights_of(model))
        return lambda: 0.0
    if not dropout:
        without_dropout(model)
    return torch_step(work, model, peer)


def worker(name: str, peer: str, threads: int, weights: str, dropout: bool) -> None:
    """Answer commands on stdin (losses N, warm SECONDS, run N), with one JSON document each."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print does not belong there
    step = make_step(name, peer, threads, weights, dropout)
    begin = time.perf_counter()
    losses = [step()]
    first = time.perf_counter() - begin
    for line in sys.stdin:
        command, count = line.split()
        answer: dict[str, Any] = {"first_call_s": first}
        if command == "losses":
            losses += [step() for _ in range(int(count) - len(losses))]
            answer["losses"] = losses
        elif command == "warm":
            _warm(step, int(count))
        else:
            answer["seconds"] = _timed(step, int(count))
        answer["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        channel.write(json.dumps(answer) + "\n")
        channel.flush()


def _warm(step: Callable[[], float], seconds: int) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        step()


def _timed(step: Callable[[], float], count: int) -> float:
    if count > 1:
        step()
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


class Peer:
    """A worker process."""

    def __init__(self, work: str, peer: str, threads: int, weights: str, dropout: bool = True):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONWARNINGS="ignore")
        if peer.startswith("whole"):
            environment["TORCHINDUCTOR_CPP_WRAPPER"] = "1"
        arguments = ["--worker", work, peer, weights, "--threads", str(threads)]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments, *([] if dropout else ["--without-dropout"])],
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


def compare(work: str, peer: str, threads: int, checked: int, weights: str) -> dict[str, Any]:
    """One row of the table."""
    if work in WITH_DROPOUT and peer != "jax":
        pair = (Peer(work, p, threads, weights, dropout=False) for p in ("jit", peer))
        check(work, *(_losses(p, checked) for p in pair))
    checked = checked if peer != "jax" else 1
    with ExitStack() as stack:
        ours = stack.enter_context(closing(Peer(work, "jit", threads, weights)))
        found = ours.ask("losses", checked)  # before the other one starts: its first call is alone
        theirs = stack.enter_context(closing(Peer(work, peer, threads, weights)))
        expected = theirs.ask("losses", checked)
        if work not in WITH_DROPOUT and peer != "jax":
            check(work, found["losses"], expected["losses"])
        rounds, peaks = _alternate(ours, theirs)
    return {
        "work": work,
        "peer": peer,
        "speed": round(statistics.median(b / a for a, b in rounds), 3),
        "bar": BARS[work].get(peer),
        "needle_ms": round(1e3 * statistics.median(a for a, _ in rounds), 3),
        "peer_ms": round(1e3 * statistics.median(b for _, b in rounds), 3),
        "first_call_s": round(found["first_call_s"], 3),
        "peer_first_call_s": round(expected["first_call_s"], 3),
        "peak_mb": round(peaks[0]),
        "peer_peak_mb": round(peaks[1]),
    }


def _alternate(ours: Peer, theirs: Peer) -> tuple[list[list[float]], list[float]]:
    """Seconds per step of both in each round, and their peak memory."""
    peers = (ours, theirs)
    for peer in peers:
        peer.ask("warm", WARM)
    single = [min(p.ask("run", 1)["seconds"] for _ in range(2)) for p in peers]
    counts = [max(1, min(400, int(SECONDS / s))) for s in single]
    rounds = []
    peaks = [0.0, 0.0]
    for i in range(ROUNDS):
        pair = [0.0, 0.0]
        for k in (0, 1) if i % 2 else (1, 0):
            answer = peers[k].ask("run", counts[k])
            pair[k], peaks[k] = answer["seconds"], answer["peak_mb"]
        rounds.append(pair)
    return rounds, peaks


def _losses(peer: Peer, count: int) -> list[float]:
    losses: list[float] = peer.ask("losses", count)["losses"]
    peer.close()
    return losses


def check(work: str, ours: list[float], theirs: list[float]) -> None:
    """Losses agree: the first to rounding, and still after all steps."""
    rounding = ROUNDED.get(work.split()[-1])
    np.testing.assert_allclose(ours[0], theirs[0], rtol=rounding or 1e-5, err_msg=work)
    tolerance = rounding or TOLERANCE.get(work, USUAL_TOLERANCE)
    np.testing.assert_allclose(ours, theirs, tolerance, tolerance * theirs[0], err_msg=work)


# Showing ----------------------------------------------------------------------------------------


def line(row: dict[str, Any]) -> str:
    bar = row["bar"]
    mark = "" if bar is None else "ok" if row["speed"] >= bar else "below"
    return (
        f"{row['work']:22}{row['peer']:20}{row['speed']:7.2f}{bar or math.nan:7.2f}  {mark:6}"
        f"{row['needle_ms']:10.2f}{row['peer_ms']:10.2f}{row['first_call_s']:9.2f}"
        f"{row['peer_first_call_s']:9.2f}{row['peak_mb']:8}{row['peer_peak_mb']:8}"
    )


def keep(rows: list[dict[str, Any]]) -> None:
    """Store rows beside those of other runs, in the order of the bars."""
    from timing import RESULTS, commit, store

    path = RESULTS / "steps.json"
    known = json.loads(path.read_text())["rows"] if path.exists() else []
    new = {(row["work"], row["peer"]): row | {"commit": commit()} for row in rows}
    found = {(row["work"], row["peer"]): row for row in known} | new
    order = [(work, peer) for work, peers in BARS.items() for peer in (*peers, "needle")]
    rest = sorted(found.keys() - set(order))
    store(path, [found[key] for key in (*order, *rest) if key in found])


def write_docs() -> None:
    """The stored rows as the table of docs/performance.md."""
    from timing import RESULTS

    stored = json.loads((RESULTS / "steps.json").read_text())
    machine = stored["machine"]
    lines = [
        f"{machine['cpu']}, {machine['threads']} threads, PyTorch {machine['torch']}, Python "
        f"{machine['python']}; commits {', '.join(sorted({r['commit'] for r in stored['rows']}))}.",
        "",
        "| work | against | speed | bar | needle, ms | peer, ms | first call, s | peer's "
        "| peak, MB | peer's |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in stored["rows"]:
        bar = "" if r["bar"] is None else r["bar"]
        lines.append(
            f"| {r['work']} | {r['peer']} | {r['speed']:.2f} | {bar} | {r['needle_ms']:.2f} | "
            f"{r['peer_ms']:.2f} | {r['first_call_s']:.2f} | {r['peer_first_call_s']:.2f} | "
            f"{r['peak_mb']} | {r['peer_peak_mb']} |"
        )
    before, _, rest = DOCS.read_text().partition(TABLE_START)
    after = rest.partition(TABLE_END)[2]
    DOCS.write_text("\n".join([before + TABLE_START, *lines, TABLE_END + after]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="workloads of this name")
    parser.add_argument("--peers", help="eager, fused, compile, whole, jax, needle ...")
    parser.add_argument("--json", action="store_true", help="print and store rows")
    parser.add_argument("--docs", action="store_true", help="write the stored table to docs/")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--losses", type=int, default=LOSSES, help="steps that are compared")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--without-dropout", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, peer, weights = options.worker
        return worker(name, peer, options.threads, weights, not options.without_dropout)
    if options.docs:
        return write_docs()
    if unknown := set(options.only or ()) - set(BARS):
        parser.error(f"--only takes {', '.join(map(repr, BARS))}; got {', '.join(unknown)}")
    table = sys.stderr if options.json else sys.stdout
    header = f"{'work':22}{'peer':20}  speed    bar        needle, ms  peer, ms  first, s"
    print(header + " (peer)  peak, MB (peer)", file=table)
    rows = []
    for work in options.only or BARS:
        with tempfile.TemporaryDirectory() as folder:
            weights = f"{folder}/weights.npz"
            Peer(work, "weights", options.threads, weights).close()
            for peer in (options.peers or ",".join(BARS[work])).split(","):
                rows.append(compare(work, peer, options.threads, options.losses, weights))
                print(line(rows[-1]), file=table, flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
        keep(rows)


if __name__ == "__main__":
    main()
