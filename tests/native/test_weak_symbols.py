"""Objects that are compiled per instruction set define no weak symbols.

A weak symbol (an inline function, a template) has one copy in the linked module, and the linker may
keep the one with AVX-512 instructions: a crash on older machines.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILDS = ("build", "build/for.venv")  # pip's and make's
OBJECTS = sorted(
    path
    for build in BUILDS
    for path in (ROOT / build).glob("CMakeFiles/needle_*.dir/native/kernels/**/*.o")
)
WEAK = set("WwVvu")
HARMLESS = {"DW.ref.__gxx_personality_v0"}  # a pointer, the same in every object


@pytest.mark.skipif(not OBJECTS or shutil.which("nm") is None, reason="needs build/ and nm")
@pytest.mark.parametrize("path", OBJECTS, ids=lambda p: f"{p.parts[-5]}/{p.stem}")
def test_no_weak_symbols(path):
    listing = subprocess.run(
        ["nm", "-C", "--defined-only", path], capture_output=True, text=True, check=True
    )
    symbols = [line.split(maxsplit=2) for line in listing.stdout.splitlines()]
    assert symbols
    assert {s[2] for s in symbols if s[1] in WEAK} <= HARMLESS
