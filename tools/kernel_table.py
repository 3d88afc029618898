"""Registers and memory of every CUDA kernel on every architecture, as ptxas reports them.

    python tools/kernel_table.py            writes docs/cuda-kernels.md

It takes NVRTC and ptxas (of CUDA 13 or later), and no GPU. Kernels are compiled for definitions
that stand for the others.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from needle.backend.gpu.modules import SOURCES, ptx

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cuda-kernels.md"
ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
PTX_VERSION = b".version 8.8"  # the oldest that has all of these

LARGE = {"THREADS": 16, "GROUPS": 2}
SMALL = {"THREADS": 8, "GROUPS": 1}
PRODUCT = {"OUT": "f32", "LEFT": "f32", "RIGHT": "f32", "RANK": 2}
CONV = {"OUT": "f32", "DTYPE": "f32", "AXES": 2}
ATTENTION = {"DTYPE": "f32", "MASK": "NUMBER_MASK", "RANK": 2}

# What each file is compiled for.
KERNELS: dict[str, tuple[dict[str, object], ...]] = {
    "arg_reduce": ({"DTYPE": "f64", "IS_LARGEST": 1, "KEPT": 2, "TEAM": 32},),
    "attention": (ATTENTION, ATTENTION | {"DTYPE": "bf16_t"}, ATTENTION | {"DTYPE": "f64"}),
    "attention_by_key": (ATTENTION, ATTENTION | {"DTYPE": "f64"}),
    "attention_by_query": (ATTENTION | {"SCORES": 1}, ATTENTION | {"DTYPE": "f64"}),
    "attention_shift": ({"DTYPE": "f32", "RANK": 4},),
    "binary": ({"FUNCTION": "power", "DTYPE": "f64", "RANK": 4},),
    "conv": (CONV | LARGE, CONV | SMALL, CONV | SMALL | {"AXES": 3}),
    "conv_by_weight": (CONV | LARGE, CONV | SMALL, CONV | SMALL | {"AXES": 3}),
    "copy": ({"OUT": "f16_t", "DTYPE": "f64", "RANK": 4},),
    "fill": ({"DTYPE": "f32", "RANK": 4},),
    "gather": ({"ITEM": "u64", "RANK": 4},),
    "index_places": ({"INDICES": 2, "RANK": 4},),
    "matmul": (
        PRODUCT | LARGE,
        PRODUCT | LARGE | {"RIGHT": "bf16_t"},
        PRODUCT | LARGE | {"OUT": "f64", "LEFT": "f64", "RIGHT": "f64"},
        PRODUCT | SMALL,
    ),
    "mix": ({"DTYPE": "f64", "RANK": 4},),
    "mix_check": ({"STARTS": 1},),
    "nonzero": ({"DTYPE": "f32", "RANK": 4}, {"DTYPE": "f32", "RANK": 4, "STARTS": 1}),
    "product_parts": ({"OUT": "bf16_t", "LEFT": "bf16_t", "RANK": 2},),
    "random": ({"DTYPE": "f64", "NAME": "normal"}, {"DTYPE": "f16_t", "NAME": "uniform"}),
    "recurrence_slopes": ({"DTYPE": "f32", "CELL": "lstm"}, {"DTYPE": "f64", "CELL": "gru"}),
    "recurrence_step": ({"DTYPE": "f32", "CELL": "lstm"}, {"DTYPE": "f64", "CELL": "gru"}),
    "reduce": ({"OP": "sum", "DTYPE": "f32", "OUT": "f32", "KEPT": 2, "REDUCED": 2, "TEAM": 32},),
    "scan": ({"OP": "sum", "DTYPE": "f32", "OUT": "f32", "KEPT": 2, "TEAM": 32},),
    "scatter_add": ({"DTYPE": "f16_t", "RANK": 4},),
    "scatter_set": ({"ITEM": "u64", "RANK": 4},),
    "searchsorted": ({"DTYPE": "f64", "RANK": 4},),
    "sort_chunks": ({"DTYPE": "f64", "RANK": 2},),
    "sort_merge": ({"RANK": 2},),
    "transpose": ({"OUT": "f64", "DTYPE": "f16_t", "RANK": 4},),
    "unary": ({"FUNCTION": "gelu", "DTYPE": "f32", "RANK": 4},),
    "where": ({"DTYPE": "f64", "RANK": 4},),
}


class Usage(NamedTuple):
    registers: int
    shared: int
    stack: int
    spilled: int


def usage(file: str, definitions: dict[str, object], architecture: int) -> Usage:
    """What ptxas says about a kernel."""
    text = re.sub(rb"(?m)^\.version .*$", PTX_VERSION, ptx(file, **definitions), count=1)
    with tempfile.NamedTemporaryFile(suffix=".ptx") as source:
        source.write(text)
        source.flush()
        command = ["ptxas", "-v", f"-arch=sm_{architecture}", source.name, "-o", "/dev/null"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr

    def number(pattern: str) -> int:
        found = re.search(pattern, said)
        return int(found[1]) if found else 0

    return Usage(
        number(r"Used (\d+) registers"),
        number(r"(\d+) bytes smem"),
        number(r"(\d+) bytes stack frame"),
        number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
    )


def table() -> str:
    """The page's rows."""
    heads = " | ".join(f"sm_{a}" for a in ARCHITECTURES)
    lines = [f"| kernel | {heads} | shared |", "|---" * (len(ARCHITECTURES) + 2) + "|"]
    for file, variants in sorted(KERNELS.items()):
        for definitions in variants:
            found = [usage(file, definitions, a) for a in ARCHITECTURES]
            bad = [f"{u}" for u in found if u.stack or u.spilled]
            if bad:
                sys.exit(f"[kernel_table] {file} {definitions} uses local memory: {bad}")
            given = " ".join(f"{k}={v}" for k, v in definitions.items())
            cells = " | ".join(str(u.registers) for u in found)
            lines.append(f"| `{file}` {given} | {cells} | {max(u.shared for u in found)} |")
    return "\n".join(lines) + "\n"


HEAD = """# What the CUDA kernels take

Registers of a thread on each architecture, and bytes of shared memory of a block, as ptxas reports
them for the PTX that NVRTC makes. No kernel spills registers or uses local memory.
`tools/kernel_table.py` writes this page.

"""


def main() -> None:
    if shutil.which("ptxas") is None:
        sys.exit("[kernel_table] ptxas is not on the path.")
    missing = {path.stem for path in SOURCES.glob("*.cu")} ^ KERNELS.keys()
    if missing:
        sys.exit(f"[kernel_table] expected a row for every kernel; these differ: {missing}")
    PAGE.write_text(HEAD + table())


if __name__ == "__main__":
    main()
