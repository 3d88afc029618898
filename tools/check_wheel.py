"""Is everything in the wheel that users need, and nothing that they do not? Says what was built.

Usage: python tools/check_wheel.py dist/needle_dl-*.whl
"""

from __future__ import annotations

import fnmatch
import re
import sys
import zipfile
from pathlib import Path

REQUIRED = [
    "needle/__init__.py",
    "needle/_native*.so",
    "needle/_native.pyi",
    "needle/py.typed",
    "needle/data/digits.npz",
    "needle/data/README.md",
    "needle/native/common/elements/elements.h",
    "needle/native/common/elementwise.def",
    "needle_dl-*.dist-info/licenses/LICENSE",
]
UNWANTED = ["tests/*", "native/*", "*.cc", "*__pycache__*", "*.a"]
LARGEST = 5.5e6  # bytes
ANY_MACHINE = {"x86_64": "baseline", "aarch64": "neon"}  # the set that every machine can run


def problems(wheel: Path) -> list[str]:
    names = zipfile.ZipFile(wheel).namelist()
    found = [f"no {want}" for want in REQUIRED if not fnmatch.filter(names, want)]
    found += [name for pattern in UNWANTED for name in fnmatch.filter(names, pattern)]
    if wheel.stat().st_size > LARGEST:
        found.append(f"{wheel.stat().st_size} bytes")
    needed = {name for machine, name in ANY_MACHINE.items() if machine in wheel.name}
    if not needed <= set(instruction_sets(wheel)):
        found.append(f"instruction sets {instruction_sets(wheel)} without {needed}")
    return found


def instruction_sets(wheel: Path) -> list[str]:
    """Those of the native module, which native/core/isa.cc names in an error message."""
    files = zipfile.ZipFile(wheel)
    for name in fnmatch.filter(files.namelist(), "needle/_native*.so"):
        if found := re.search(rb"built for the instruction sets ([\w ]+)", files.read(name)):
            return found[1].decode().split()
    return []


def pythons(wheel: Path) -> str:
    """The versions of Python that a wheel is for, from the tags in its name."""
    version, abi = wheel.stem.split("-")[-3:-1]
    number = f"{version[2]}.{version[3:]}"
    return f"{number} and newer" if abi == "abi3" else number


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        if wrong := problems(path):
            sys.exit(f"{path}: {', '.join(wrong)}")
        size = path.stat().st_size / 1e6
        sets = ", ".join(instruction_sets(path))
        print(f"{path}: {size:.1f} MB, Python {pythons(path)}, instruction sets {sets}")
