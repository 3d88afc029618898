"""Every kernel goes through ptxas for every GPU, without spills or local memory."""

import sys
from pathlib import Path

import pytest

from needle.backend.gpu import catalog, modules, nvrtc

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import cuda_registers

pytestmark = [
    pytest.mark.skipif(cuda_registers.assembler() is None, reason="needs ptxas"),
    pytest.mark.skipif(not nvrtc.is_there(), reason="needs NVRTC"),
]
# CUDA's own reduction of large angles keeps their product with 2 / pi in an array.
LARGE_ANGLES = {"sin", "cos", "tan"}
REGISTERS = 64  # with which 1024 threads fit on a multiprocessor


@pytest.mark.parametrize("one", list(catalog.sample()), ids=lambda c: f"{c.file}-{c.definitions}")
def test_no_spills(one):
    ptx = modules.ptx(one.file, **one.definitions)
    for architecture in (75, 90, 120):
        needs = cuda_registers.needs(ptx, architecture)
        assert needs.spills == 0 and needs.registers <= REGISTERS
        assert needs.local == 0 or one.definitions.get("FUNCTION") in LARGE_ANGLES
        assert needs.shared <= 48 * 1024
