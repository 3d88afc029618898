"""An LSTM over many steps as `ndl.scan` and as a Python loop: calls, first call, arena.

python benchmarks/loops.py [--steps 1000] [--units 128]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import needle as ndl
from needle import nn


def loss_by_scan(cell: nn.LSTMCell, x: Any, state: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        state = cell(x, state)
        return state, state[0]

    return (ndl.scan(step, state, x)[1] ** 2).mean()


def loss_by_loop(cell: nn.LSTMCell, x: Any, state: Any) -> Any:
    outputs = []
    for k in range(x.shape[0]):
        state = cell(x[k], state)
        outputs.append(state[0])
    return (ndl.stack(outputs, 0) ** 2).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--units", type=int, default=128)
    options = parser.parse_args()
    cell = nn.LSTMCell(options.units, options.units)
    x = ndl.randn(options.steps, 16, options.units)
    state = ndl.zeros(16, options.units), ndl.zeros(16, options.units)
    print("| loop | calls | first call, s | arena, MB | loss |\n|---|---|---|---|---|")
    for loss in (loss_by_scan, loss_by_loop):

        @ndl.jit
        def step(x: Any, loss: Any = loss) -> Any:
            value = loss(cell, x, state)
            value.backward(create_graph=False)
            return value

        start = time.perf_counter()
        value = step(x).item()
        seconds = time.perf_counter() - start
        plan = step.program.plan
        print(f"| {loss.__name__} | {len(step.kernels)} | {seconds:.2f} | "
              f"{plan.arena_bytes / 1e6:.0f} | {value:.6f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
