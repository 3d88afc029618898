"""Counters are exact and the same in each run: sectors, bank conflicts, divergence, barriers."""

from __future__ import annotations

import numpy as np
import pytest

from .driver import Buffer, Module, compile_cuda, settings

TRANSPOSE = """extern "C" __global__ void k(const float* in, float* out, int n) {
  __shared__ float tile[32][32 + PAD];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = in[y * n + x];
  __syncthreads();
  int ox = blockIdx.y * 32 + threadIdx.x, oy = blockIdx.x * 32 + threadIdx.y;
  out[oy * n + ox] = tile[threadIdx.x][threadIdx.y];
}"""
NAIVE = """extern "C" __global__ void k(const float* in, float* out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  out[x * n + y] = in[y * n + x];
}"""


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(
    ("source", "store_sectors", "conflicts"),
    [
        (NAIVE, 32, 0),  # each of 32 threads writes a sector of its own
        (TRANSPOSE.replace("PAD", "0"), 4, 31),  # a column of the tile lies in one bank
        (TRANSPOSE.replace("PAD", "1"), 4, 0),
    ],
)
def test_transpose(source: str, store_sectors: int, conflicts: int, seed: int) -> None:
    array = np.arange(64 * 64, dtype="f").reshape(64, 64)
    to = Buffer(array, fill=False)
    with settings(seed=seed):
        c = Module(compile_cuda(source)).run("k", [2, 2], [32, 32], Buffer(array), to, 64)
        assert np.array_equal(to.read(), array.T)
    warps = 4 * 32
    assert c.global_loads == c.global_stores == warps
    assert c.global_load_sectors == 4 * warps
    assert c.global_store_sectors == store_sectors * warps
    assert c.shared_conflicts == conflicts * warps
    assert c.barriers == (0 if source is NAIVE else warps)
    assert c.divergent_branches == 0


def test_divergence() -> None:
    source = """extern "C" __global__ void k(float* a) {
  int i = threadIdx.x; float v = a[i];
  if (i % 2) { for (int k = 0; k < (int)a[0]; k++) v = v * v + 1; a[i] = v; }
}"""
    with settings():
        c = Module(compile_cuda(source)).run("k", [1], [64], Buffer(np.full(64, 3, "f")))
    assert c.divergent_branches >= 2
    assert c.thread_instructions < 32 * c.instructions
    assert list(c.grid) == [1, 1, 1] and list(c.block) == [64, 1, 1] and c.kernel == b"k"


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (8, 32), (32, 32)])
def test_sectors_of_strided_loads(stride: int, sectors: int) -> None:
    source = 'extern "C" __global__ void k(const float* a, float* b, int s) {' \
             "b[threadIdx.x] = a[threadIdx.x * s]; }"  # fmt: skip
    with settings():
        c = Module(compile_cuda(source)).run(
            "k", [1], [32], Buffer(np.zeros(1024, "f")), Buffer(np.zeros(32, "f")), stride
        )
    assert (c.global_loads, c.global_load_sectors) == (1, sectors)


def test_counters_do_not_depend_on_host_threads() -> None:
    array = np.arange(256 * 256, dtype="f").reshape(256, 256)
    found = set()
    for threads in (1, 2, 4):
        with settings(threads=threads):
            c = Module(compile_cuda(TRANSPOSE.replace("PAD", "1"))).run(
                "k", [8, 8], [32, 32], Buffer(array), Buffer(array, fill=False), 256
            )
            found.add((c.instructions, c.thread_instructions, c.shared_waves, c.branches))
    assert len(found) == 1
