"""Recurrent layers of many sizes, against PyTorch's: benchmarks/recurrent.py

    python benchmarks/recurrent.py [--seconds 0.5] [--json]

A layer with as many inputs as units runs over a sequence: without gradients, and forward with the
gradients of inputs and weights. Small weights stay in a core's cache; large ones are shared out
between the cores, as those of few rows are. A speed is PyTorch's time divided by needle's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from peer import torch
from timing import RESULTS, compare, store

import needle as ndl

STEPS = 20
WORKS = (
    *(("LSTM", batch, units) for units in (128, 512, 1024) for batch in (1, 16, 64)),
    ("GRU", 16, 256),
    ("RNN", 16, 256),
)

Pair = tuple[Callable[[], Any], Callable[[], Any]]


def layers(kind: str, batch: int, units: int) -> tuple[Pair, Pair]:
    """Inference and training, each as a call of needle's and PyTorch's layer."""
    x = np.random.default_rng(0).standard_normal((STEPS, batch, units), dtype=np.float32)
    theirs = getattr(torch.nn, kind)(units, units)
    ours = getattr(ndl.nn, kind)(units, units)
    ours.load_state_dict(theirs.state_dict(), layout="torch")
    mine, other = ndl.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    np.testing.assert_allclose(
        ours(mine)[0].numpy(), theirs(other)[0].detach().numpy(), rtol=0, atol=1e-4
    )

    def infer() -> Any:
        with ndl.no_grad():
            return ours(mine)

    def their_infer() -> Any:
        with torch.no_grad():
            return theirs(other)

    def train() -> None:
        ours(mine)[0].backward(mine.detach(), create_graph=False)

    def their_train() -> None:
        theirs.zero_grad()
        other.grad = None
        theirs(other)[0].backward(other.detach())

    return (infer, their_infer), (train, their_train)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    parser.add_argument("--json", action="store_true", help="print and store rows")
    options = parser.parse_args()
    ndl.set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    rows = []
    print(f"{'':24}{'forward':>22}{'forward and backward':>26}   needle, PyTorch in ms; speed")
    for kind, batch, units in WORKS:
        row: dict[str, Any] = {"layer": kind, "batch": batch, "units": units}
        shown = []
        names = ("forward", "both")
        for name, pair in zip(names, layers(kind, batch, units), strict=True):
            found = compare(*pair, options.seconds)
            ours, theirs = round(1e3 * found.ours, 3), round(1e3 * found.theirs, 3)
            row |= {f"{name}_ms": ours, f"torch_{name}_ms": theirs}
            row[f"{name}_speed"] = round(found.speed, 2)
            shown.append(f"{ours:9.2f}{theirs:9.2f}{found.speed:7.2f}")
        rows.append(row)
        print(f"{kind:5} {batch:3} x {units:<6}   {'   '.join(shown)}", flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
        store(RESULTS / "recurrent.json", rows)


if __name__ == "__main__":
    main()
