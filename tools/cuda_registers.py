"""Assembles the kernels of cuda() for every GPU by ptxas, and prints what they need of it.

    python tools/cuda_registers.py [--all]     needs NVRTC and ptxas

No kernel may spill registers or use local memory; tests/cuda/test_ptxas.py holds them to that.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from needle.backend.gpu import catalog, modules

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
USED = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
    r"Used (\d+) registers(?:.*?(\d+) bytes smem)?",
    re.S,
)


class Needs(NamedTuple):
    """Of one kernel on one architecture; local is bytes of each thread's local memory."""

    local: int
    spills: int
    registers: int
    shared: int


def assembler() -> str | None:
    """The path of ptxas, if it is there."""
    return shutil.which("ptxas")


def needs(ptx: bytes, architecture: int) -> Needs:
    """What ptxas says of a kernel."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_bytes(ptx)
        command = [assembler() or "ptxas", "-v", f"-arch=sm_{architecture}", str(source)]
        done = subprocess.run(
            [*command, "-o", str(source.with_suffix(".cubin"))], capture_output=True, text=True
        )
    if done.returncode != 0:
        raise RuntimeError(f"ptxas refused a kernel for sm_{architecture}:\n{done.stderr}")
    found = USED.findall(done.stderr)
    local, stores, loads, registers, shared = (
        max(int(row[k] or 0) for row in found) for k in range(5)
    )
    return Needs(local, stores + loads, registers, shared)


def main(arguments: list[str]) -> None:
    chosen = catalog.catalog() if "--all" in arguments else catalog.sample()
    print("kernel".ljust(60), *(f"sm_{a}".rjust(10) for a in ARCHITECTURES))
    for one in chosen:
        ptx = modules.ptx(one.file, **one.definitions)
        cells = []
        for architecture in ARCHITECTURES:
            n = needs(ptx, architecture)
            cells.append(f"{n.registers}r" + (f" {n.shared}s" if n.shared else "")
                         + (f" {n.local}L" if n.local else ""))  # fmt: skip
        words = " ".join(f"{k}={v}" for k, v in one.definitions.items())
        print(f"{one.file} {words}".ljust(60), *(c.rjust(10) for c in cells), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
