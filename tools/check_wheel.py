"""Is everything in the wheel that users need, and nothing that they do not?

Usage: python tools/check_wheel.py dist/needle_dl-*.whl
"""

from __future__ import annotations

import fnmatch
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
LARGEST = 10e6  # bytes


def problems(wheel: Path) -> list[str]:
    names = zipfile.ZipFile(wheel).namelist()
    found = [f"no {want}" for want in REQUIRED if not fnmatch.filter(names, want)]
    found += [name for pattern in UNWANTED for name in fnmatch.filter(names, pattern)]
    if wheel.stat().st_size > LARGEST:
        found.append(f"{wheel.stat().st_size} bytes")
    return found


if __name__ == "__main__":
    path = Path(sys.argv[1])
    if wrong := problems(path):
        sys.exit(f"{path}: {', '.join(wrong)}")
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
