"""Each check fires on a planted bug, whatever the order of warps and blocks, and not without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from .driver import SHARED_RACES, Buffer, CudaError, Module, compile_cuda, library, settings

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Case:
    """A kernel of `float* a, int n` (256 elements); GOOD replaces BUG where it stands."""

    name: str
    body: str
    bug: str
    good: str
    says: str
    grid: int = 1
    block: int = 256


CASES = [
    Case(
        "guard",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (BUG) a[i] = 1;",
        "i <= n",
        "i < n",
        "0 bytes after the end of an allocation of 1024 bytes",
        grid=2,
    ),
    Case("before", "a[BUG] = 1;", "(int)threadIdx.x - 1", "threadIdx.x", "4 bytes before the beg"),
    Case(
        "alignment",
        "float4 v = *(float4*)(a + BUG); if (v.x == 3) a[0] = v.y;",
        "1",
        "4",
        "expected an address that is a multiple of",
        block=32,
    ),
    Case(
        "no barrier before reading",
        "__shared__ float s[256]; s[threadIdx.x] = threadIdx.x; BUG;"
        "a[threadIdx.x] = s[(threadIdx.x + 37) % 256];",
        "",
        "__syncthreads()",
        "k.cu:1: ",
    ),
    Case(
        "no barrier before writing again",
        "__shared__ float s[256]; float t = 0; for (int k = 0; k < 4; k++) {"
        "s[threadIdx.x] = k + t; __syncthreads(); t += s[255 - threadIdx.x]; BUG; }"
        "a[threadIdx.x] = t;",
        "",
        "__syncthreads()",
        "expected a barrier between two accesses, got a race",
    ),
    Case(
        "early return",
        "__shared__ float s[256]; if (threadIdx.x >= BUG) return; s[threadIdx.x] = 1;"
        "__syncthreads(); a[threadIdx.x] = s[255 - threadIdx.x];",
        "n - 6",
        "n",
        "expected all threads of the block at a barrier, but thread (250,0,0) has ended",
    ),
    Case(
        "barrier in a branch",
        "if (threadIdx.x < BUG) { __syncthreads(); a[threadIdx.x] = 1; }",
        "100",
        "256",
        "expected all threads of the block at a barrier",
    ),
    Case(
        "shuffle with absent lanes",
        "if (threadIdx.x < 16) { float v = a[threadIdx.x];"
        "a[threadIdx.x] = v + __shfl_down_sync(BUG, v, 4, 16); }",
        "0xffffffffu",
        "0xffffu",
        "expected all threads of the shuffle's mask 0xffffffff, but lane 16 has ended",
        block=32,
    ),
    Case(
        "shared memory that nobody wrote",
        "__shared__ float s[256]; if (threadIdx.x < BUG) s[threadIdx.x] = 1; __syncthreads();"
        "a[threadIdx.x] = s[threadIdx.x];",
        "128",
        "256",
        "which nobody wrote",
    ),
    Case(
        "warp without __syncwarp",
        "__shared__ float s[64]; int t = threadIdx.x; s[t] = a[t]; s[t + 32] = 0; BUG;"
        "float v = s[t] + s[(t + 16) & 63]; a[t] = v;",
        "",
        "__syncwarp()",
        "got a race",
        block=32,
    ),
    Case(
        "two blocks write one place",
        "a[threadIdx.x BUG] = blockIdx.x;",
        "",
        "+ 128 * blockIdx.x",
        "expected blocks that do not depend on each other, got a race: a write and a write",
        grid=2,
        block=128,
    ),
    Case(
        "a block reads what another writes",
        "int i = blockIdx.x * 128 + threadIdx.x; a[i] = a[BUG] + 1;",
        "(i + 128) % 256",
        "i",
        "got a race: a ",
        grid=2,
        block=128,
    ),
    Case(
        "threads of a block in global memory",
        "a[threadIdx.x] = 1; BUG; float v = a[255 - threadIdx.x]; __syncthreads();"
        "a[threadIdx.x] = v;",
        "",
        "__syncthreads()",
        "of global memory and an access of another thread",
    ),
    Case(
        "local memory that nobody wrote",
        "float b[16]; b[n & 15] = 1; b[(n + 2) & 15] = 2; a[0] = b[(n + BUG) & 15];",
        "1",
        "2",
        "of local memory, which nobody wrote",
        block=1,
    ),
]


def kernel(body: str) -> Module:
    return Module(compile_cuda('extern "C" __global__ void k(float* a, int n) {' + body + "}"))


def run(case: Case, body: str, seed: int) -> None:
    with settings(seed=seed):
        kernel(body).run("k", [case.grid], [case.block], Buffer(np.zeros(256, "f")), 256)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_planted_bug(case: Case, seed: int) -> None:
    with pytest.raises(CudaError) as raised:
        run(case, case.body.replace("BUG", case.bug), seed)
    text = str(raised.value)
    assert text.startswith("[k] expected ")
    assert case.says in text
    assert "block (" in text and "thread (" in text and "PTX line" in text and "k.cu:1: " in text


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_correct_version(case: Case, seed: int) -> None:
    run(case, case.body.replace("BUG", case.good), seed)


def test_both_accesses_of_a_race_are_named() -> None:
    source = """extern "C" __global__ void k(float* a, int n) {
  __shared__ float s[64];
  s[threadIdx.x] = a[threadIdx.x];
  a[threadIdx.x] = s[63 - threadIdx.x];
}"""
    with settings(SHARED_RACES), pytest.raises(CudaError) as raised:
        Module(compile_cuda(source)).run("k", [1], [64], Buffer(np.zeros(64, "f")), 64)
    text = str(raised.value)
    assert "k.cu:3: st.shared" in text and "k.cu:4: ld.shared" in text
    assert "thread (63,0,0)" in text or "thread (31,0,0)" in text


def test_reports_do_not_depend_on_host_threads() -> None:
    body = "int i = blockIdx.x * 32 + threadIdx.x; for (int k = 0; k < 300; k++) a[i & 15] += k;"
    sites = set()
    for threads in (1, 2, 3):
        with settings(threads=threads), pytest.raises(CudaError) as raised:
            kernel(body).run("k", [64], [1], Buffer(np.zeros(256, "f")), 256)
        sites.add(tuple(str(raised.value).splitlines()[1:]))
    assert len(sites) == 1


def test_memory_that_was_freed() -> None:
    a = Buffer(np.zeros(256, "f"))
    a.free()
    with pytest.raises(CudaError, match="of memory that was freed"):
        kernel("a[threadIdx.x] = n;").run("k", [1], [256], a, 256)


def test_global_memory_that_nobody_wrote() -> None:
    a = Buffer(np.zeros(256, "f"), fill=False)
    with pytest.raises(CudaError, match="global memory, which nobody wrote"):
        kernel("a[threadIdx.x] += n;").run("k", [1], [256], a, 256)


def test_checks_can_be_turned_off() -> None:
    a = Buffer(np.zeros(256, "f"), fill=False)
    with settings(checks=0):
        kernel("a[threadIdx.x] += n;").run("k", [1], [256], a, 256)


@pytest.mark.parametrize("seed", SEEDS)
def test_fence_and_atomic_order_blocks(seed: int) -> None:
    """The last block sums what all have written: threadfence reduction, which is no race."""
    source = """__device__ int count;
extern "C" __global__ void k(float* a, float* out) {
  __shared__ bool last;
  a[blockIdx.x] = blockIdx.x + 1;
  FENCE;
  last = atomicAdd(&count, 1) == gridDim.x - 1;
  if (!last) return;
  float sum = 0;
  for (int i = 0; i < gridDim.x; i++) sum += a[i];
  *out = sum;
}"""
    out = Buffer(np.zeros(1, "f"))
    a = Buffer(np.zeros(8, "f"), fill=False)
    with settings(seed=seed):
        Module(compile_cuda(source.replace("FENCE", "__threadfence()"))).run("k", [8], [1], a, out)
        assert out.read() == 36
    with settings(seed=seed), pytest.raises(CudaError, match="got a race: a write and a read"):
        Module(compile_cuda(source.replace("FENCE", ""))).run("k", [8], [1], a, out)


@pytest.mark.parametrize(
    ("grid", "block", "says"),
    [
        ([1], [2048], "at most 1024 threads"),
        ([1], [1, 1, 65], "64 along z"),
        ([1, 65536], [1], "65535"),
        ([0], [1], "at least one thread"),
    ],
)
def test_launch_limits(grid: list[int], block: list[int], says: str) -> None:
    with pytest.raises(CudaError, match=says):
        kernel("a[0] = 1;").run("k", grid, block, Buffer(np.zeros(256, "f")), 256)


def test_a_block_that_never_ends() -> None:
    library().ptxsim_set_max_instructions(100_000)
    try:
        with pytest.raises(CudaError, match="expected the block to end"):
            kernel("while (((volatile float*)a)[0] == 0) {}").run(
                "k", [1], [1], Buffer(np.zeros(256, "f")), 256
            )
    finally:
        library().ptxsim_set_max_instructions(1 << 31)


def test_unknown_instruction_is_named() -> None:
    ptx = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { foo.bar.u32 1; }"
    with pytest.raises(CudaError, match=r"line 4: .*: foo\.bar\.u32 1;"):
        Module(ptx)
