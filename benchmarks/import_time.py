"""What `import needle` costs beyond `import numpy`, by `python -X importtime` in fresh processes.

Usage: python benchmarks/import_time.py [--runs 15] [--modules 8]

The cost is the sum over all modules that `import numpy` does not load, each at its best of all
runs: a busy machine makes single runs useless. Bytecode is cached, as it is for an installed
package.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

BAR = 60.0  # ms beyond numpy's own import


def import_times(package: str, cache: str) -> dict[str, float]:
    """Milliseconds that each module took itself, without what it imports."""
    process = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import {package}"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": cache},
    )
    times = {}
    for line in process.stderr.splitlines():
        own, _, name = line.removeprefix("import time:").split("|")
        if own.strip().isdigit():
            times[name.strip()] = int(own) / 1000
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--modules", type=int, default=0, help="also list the costliest modules")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        import_times("needle", cache)  # fills the cache
        known = import_times("numpy", cache)
        runs = [import_times("needle", cache) for _ in range(options.runs)]
    best = {name: min(run[name] for run in runs) for name in runs[0] if name not in known}
    print(f"import needle: {sum(best.values()):.1f} ms beyond numpy (the bar is {BAR:.0f} ms)")
    for name in sorted(best, key=best.__getitem__, reverse=True)[: options.modules]:
        print(f"  {best[name]:6.1f} ms  {name}")


if __name__ == "__main__":
    main()
