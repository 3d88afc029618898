"""Peak memory of eager training steps, needle's and PyTorch's, each in a process of its own.

    python benchmarks/memory.py [--only resnet18] [--steps 3]

"peak" is the most that the process had resident, with its imports; "step" is what of that came
after the imports: weights, moments, gradients, activations. "held" is the most bytes that needle's
arrays had at once.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

TRAINED = ("mlp", "resnet9", "resnet18", "lstm lm", "gpt")
THREADS = 2


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, peer: str, weights: str, steps: int) -> None:
    """Runs in the process of one library, and prints a JSON document."""
    from steps import make_step

    if peer == "needle":
        import needle as ndl  # noqa: F401
    else:
        import torch  # noqa: F401
    imports = peak_mb()
    step = make_step(name, peer, THREADS, weights, dropout=False)
    for _ in range(steps):
        step()
    found = {"peak": peak_mb(), "step": peak_mb() - imports}
    if peer == "needle":
        from needle import _native

        found["held"] = _native.memory_stats()["peak"] / 2**20
    print(json.dumps(found))


def in_process(name: str, peer: str, weights: str, steps: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--worker", name, peer, weights, "--steps", str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="works with this in a name")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return measure(*options.worker, options.steps)
    print(f"{'work':12}{'':8}{'peak, MB':>10}{'step':>8}{'held':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name in TRAINED:
            if options.only and not any(part in name for part in options.only):
                continue
            weights = str(Path(folder) / "weights.npz")
            in_process(name, "weights", weights, 0)
            for peer in ("needle", "eager"):
                found = in_process(name, peer, weights, options.steps)
                held = f"{found['held']:8.0f}" if "held" in found else ""
                shown = "PyTorch" if peer == "eager" else peer
                print(f"{name:12}{shown:8}{found['peak']:10.0f}{found['step']:8.0f}{held}")


if __name__ == "__main__":
    main()
