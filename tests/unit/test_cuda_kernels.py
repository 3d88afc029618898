"""CUDA kernels stay within the registers and shared memory of every architecture."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from needle.backend.gpu import nvrtc
from needle.backend.gpu.modules import SOURCES

TOOL = Path(__file__).resolve().parents[2] / "tools" / "kernel_table.py"


def load_tool():
    spec = importlib.util.spec_from_file_location("kernel_table", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


table = load_tool()
KERNELS = [(file, given) for file, all_given in table.KERNELS.items() for given in all_given]
needs_ptxas = pytest.mark.skipif(
    shutil.which("ptxas") is None or not nvrtc.is_there(), reason="no ptxas, or no NVRTC"
)
# Two blocks of 256 threads share a multiprocessor. Convolutions, which compute where
# words are, and attention, whose adjoints hold four tiles, may have them alone.
ALONE = ("attention", "attention_by_key", "attention_by_query", "conv", "conv_by_weight")
MOST_SHARED = 48 * 1024


def test_the_page_has_every_kernel():
    page = table.PAGE.read_text()
    assert table.KERNELS.keys() == {path.stem for path in SOURCES.glob("*.cu")}
    for file in table.KERNELS:
        assert f"| `{file}` " in page


@needs_ptxas
@pytest.mark.parametrize(("file", "given"), KERNELS, ids=lambda x: x if isinstance(x, str) else "")
def test_kernels_use_no_local_memory(file, given):
    for architecture in (table.ARCHITECTURES[0], table.ARCHITECTURES[-1]):
        used = table.usage(file, given, architecture)
        assert used.spilled == used.stack == 0
        assert used.registers <= (255 if file in ALONE else 128)
        assert used.shared <= MOST_SHARED
