"""What `import needle` costs beyond `import numpy`, by `python -X importtime` in fresh processes.

Bytecode is cached, as it is for an installed package.

Usage: python benchmarks/import_time.py [--runs 15] [--modules 8]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

BAR = 60.0  # ms beyond numpy's own import


def modules_of(package: str, cache: str) -> list[tuple[float, float, str]]:
    """(own ms, ms with what it imports, name) of every module that importing the package loads."""
    process = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import {package}"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": cache},
    )
    rows = []
    for line in process.stderr.splitlines():
        own, total, name = line.removeprefix("import time:").split("|")
        if own.strip().isdigit():
            rows.append((int(own) / 1000, int(total) / 1000, name.strip()))
    return rows


def total_of(package: str, rows: list[tuple[float, float, str]]) -> float:
    return next(total for _, total, name in rows if name == package)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--modules", type=int, default=0, help="also list the costliest modules")
    options = parser.parse_args()
    beyond, rows = [], []
    with tempfile.TemporaryDirectory() as cache:
        modules_of("needle", cache)  # fills the cache
        for _ in range(options.runs):
            numpy_alone = total_of("numpy", modules_of("numpy", cache))
            rows = modules_of("needle", cache)
            beyond.append(total_of("needle", rows) - numpy_alone)
    spread = f"{min(beyond):.1f} - {max(beyond):.1f}"
    median = statistics.median(beyond)
    print(f"import needle: {median:.1f} ms beyond numpy ({spread}; the bar is {BAR:.0f} ms)")
    ours = [row for row in rows if row[2].startswith("needle")]
    for own, _, name in sorted(ours, reverse=True)[: options.modules]:
        print(f"  {own:6.1f} ms  {name}")


if __name__ == "__main__":
    main()
