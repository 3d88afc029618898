"""How much there is to read: the core, which docs/layout.md lists, and the whole.

Sizes are lines of files. A cap is a little above what stands there; whoever needs more says so by
raising it, and why in the commit.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE, NATIVE = ROOT / "python" / "needle", ROOT / "native"
CODE = {"python": {".py"}, "native": {".h", ".cc", ".def"}}

CAPS = {
    "the core": 13_400,
    "python/needle": 73_590,
    "python/needle/compiler": 11_470,
    "native": 30_620,
    "native/cuda": 1_050,
    "native/ptxsim": 7_520,
}


def core() -> list[Path]:
    """The files that the section "The core" of docs/layout.md lists."""
    page = (ROOT / "docs" / "layout.md").read_text()
    section = page.partition("\n## The core\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    names = re.findall(r"`([\w/]+\.\w+)`", "\n".join(rows))
    return [folder / n for n in names for folder in (PACKAGE, NATIVE) if (folder / n).exists()]


def files_of(part: str) -> list[Path]:
    if part == "the core":
        return core()
    suffixes = CODE[part.partition("/")[0]]
    return [path for path in (ROOT / part).rglob("*") if path.suffix in suffixes]


def lines_of(files: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in files)


@pytest.mark.parametrize("part", CAPS)
def test_size(part: str) -> None:
    count = lines_of(files_of(part))
    print(f"{part}: {count:,} lines; the cap is {CAPS[part]:,}")
    assert count <= CAPS[part], f"{part} has {count:,} lines, more than {CAPS[part]:,}"
    assert count > 0.8 * CAPS[part], f"{part} has shrunk to {count:,} lines: lower its cap"


def test_the_core_has_every_part() -> None:
    """Each file once; each row of the list has files that are there."""
    found = core()
    assert len(set(found)) == len(found)
    rooms = {path.relative_to(ROOT).parts[:3] for path in found}
    wanted = "backend tile ndarray autograd ops nn optim".split()
    assert {("python", "needle", room) for room in wanted} <= rooms
    assert {("native", "common"), ("native", "kernels"), ("native", "python")} <= {
        path.relative_to(ROOT).parts[:2] for path in found
    }
