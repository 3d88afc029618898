"""What NVRTC makes of CUDA C, run whole: warps, atomics, tensor cores, calls, switches, printf."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .driver import Buffer, CudaError, Module, call, compile_cuda, launches, library, settings

LANES = np.arange(32)


def run(
    body: str,
    *arrays: np.ndarray,
    architecture: str = "compute_80",
    block: int = 32,
    grid: int = 1,
    seed: int = 0,
    before: str = "",
) -> list[np.ndarray]:
    """`body` with the arrays as pointers a, b, c ...; gives what is in them afterwards."""
    types = {"f": "float", "i": "int", "u": "unsigned"}
    names = [f"{types[x.dtype.kind]}* {'abcdef'[k]}" for k, x in enumerate(arrays)]
    params = ", ".join(names)
    head = f'{before}\nextern "C" __global__ void k({params})'
    source = f"{head} {{ int i = threadIdx.x; {body} }}"
    with settings(seed=seed):
        buffers = [Buffer(x) for x in arrays]
        Module(compile_cuda(source, architecture)).run("k", [grid], [block], *buffers)
        return [buffer.read() for buffer in buffers]


def ints(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape or (32,)), dtype=np.int32).reshape(shape or (32,))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("call_text", "source"),
    [
        ("__shfl_up_sync(~0u, i, 3)", np.where(LANES >= 3, LANES - 3, LANES)),
        ("__shfl_down_sync(~0u, i, 5)", np.where(LANES + 5 < 32, LANES + 5, LANES)),
        ("__shfl_xor_sync(~0u, i, 9)", LANES ^ 9),
        ("__shfl_sync(~0u, i, 7)", np.full(32, 7)),
        ("__shfl_sync(~0u, i, 3, 8)", LANES // 8 * 8 + 3),
        ("__shfl_down_sync(~0u, i, 2, 4)", np.where(LANES % 4 < 2, LANES + 2, LANES)),
        ("__shfl_up_sync(~0u, i, 1, 16)", np.where(LANES % 16 >= 1, LANES - 1, LANES)),
    ],
)
def test_shuffles(call_text: str, source: np.ndarray, seed: int) -> None:
    (found,) = run(f"a[i] = {call_text};", np.zeros(32, np.int32), seed=seed)
    np.testing.assert_array_equal(found, source)


def test_votes_and_matches() -> None:
    body = """a[i] = __ballot_sync(~0u, i % 3 == 0);
      a[32 + i] = __any_sync(~0u, i == 40) + 2 * __any_sync(~0u, i == 4);
      a[64 + i] = __all_sync(~0u, i < 32) + 2 * __all_sync(~0u, i < 31);
      a[96 + i] = __match_any_sync(~0u, i % 4);
      int same; a[128 + i] = __match_all_sync(~0u, 7, &same); a[160 + i] = same;
      a[192 + i] = __activemask();"""
    (found,) = run(body, np.zeros(224, np.uint32))
    found = found.reshape(7, 32)
    assert (found[0] == sum(1 << k for k in range(0, 32, 3))).all()
    assert (found[1] == 2).all() and (found[2] == 1).all()
    np.testing.assert_array_equal(found[3], [0x11111111 << k % 4 for k in range(32)])
    assert (found[4] == 0xFFFFFFFF).all() and (found[5] == 1).all()
    assert (found[6] == 0xFFFFFFFF).all()


def test_redux() -> None:
    body = """int v = (i * 37) % 32 - 8; unsigned m = ~0u;
      a[0] = __reduce_add_sync(m, v); a[1] = __reduce_min_sync(m, v);
      a[2] = __reduce_max_sync(m, v); a[3] = __reduce_and_sync(m, i | 64u);
      a[4] = __reduce_or_sync(m, i); a[5] = __reduce_xor_sync(m, i);"""
    (found,) = run(body, np.zeros(6, np.int32))
    v = LANES * 37 % 32 - 8
    assert found.tolist() == [v.sum(), v.min(), v.max(), 64, 31, 0]


def test_divergent_lanes_meet_again() -> None:
    body = """float v = i; if (i % 2) v = v * 3; else for (int k = 0; k < i; k++) v += 1;
      a[i] = __shfl_xor_sync(~0u, v, 1);"""
    (found,) = run(body, np.zeros(32, np.float32))
    v = np.where(LANES % 2, LANES * 3, LANES * 2)
    np.testing.assert_array_equal(found, v[LANES ^ 1])


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("seed", [0, 1])
def test_atomics(space: str, seed: int) -> None:
    body = """__shared__ int s[12]; int* p = SPACE ? s : a;
      if (i < 12) p[i] = a[i]; __syncthreads();
      atomicAdd(p, i); atomicSub(p + 1, i); atomicMin(p + 2, i - 5); atomicMax(p + 3, i);
      atomicAnd(p + 4, ~(1 << (i % 8))); atomicOr(p + 5, 1 << (i % 32)); atomicXor(p + 6, i);
      atomicInc((unsigned*)p + 7, 20); atomicDec((unsigned*)p + 8, 20); atomicExch(p + 9, 3);
      atomicCAS(p + 10, 5, 6); atomicAdd((float*)p + 11, 0.5f);
      __syncthreads(); if (i < 12) { int v = p[i]; __syncwarp(0xfff); a[i] = v; }"""
    start = np.array([1, 2, 3, 4, -1, 0, 9, 19, 2, 0, 5, 0], np.int32)
    (found,) = run(body.replace("SPACE", str(int(space == "shared"))), start, block=64, seed=seed)
    wanted = [1 + 2016, 2 - 2016, -5, 63, -256, -1, 9, (19 + 64) % 21, (2 - 64) % 21, 3, 6]
    assert found[:11].tolist() == wanted
    assert found.view(np.float32)[11] == 32


def test_atomics_of_64_bits() -> None:
    body = """atomicAdd((unsigned long long*)a, 1ull << 33); atomicAdd((double*)a + 1, 0.25);
      atomicMax((long long*)a + 2, (long long)i - 40);"""
    (found,) = run(body, np.array([0, 0, 0, 0, 0, -(1 << 31)], np.int32))
    wide = found.view(np.int64)
    assert wide[0] == 32 << 33 and found.view(np.float64)[1] == 8 and wide[2] == -9


def mma_source(kind: str, k: int, registers: tuple[int, int], d: str = "f32") -> str:
    """mma.sync of one warp, whose registers are loaded as PTX's tables say."""
    ra, rb = registers
    a = ", ".join(f"%{4 + n}" for n in range(ra))
    b = ", ".join(f"%{4 + ra + n}" for n in range(rb))
    c = ", ".join(f"%{4 + ra + rb + n}" for n in range(4))
    ins = ", ".join([f'"r"(x[{n}])' for n in range(ra)] + [f'"r"(y[{n}])' for n in range(rb)])
    return f"""unsigned x[{ra}], y[{rb}]; float z[4], w[4];
      for (int n = 0; n < {ra}; n++) x[n] = a[i * {ra} + n];
      for (int n = 0; n < {rb}; n++) y[n] = b[i * {rb} + n];
      for (int n = 0; n < 4; n++) z[n] = c[i * 4 + n];
      asm("mma.sync.aligned.m16n8k{k}.row.col.f32.{kind}.{kind}.f32 "
        "{{%0,%1,%2,%3}}, {{{a}}}, {{{b}}}, {{{c}}};"
        : "=f"(w[0]), "=f"(w[1]), "=f"(w[2]), "=f"(w[3]) : {ins},
          "f"(z[0]), "f"(z[1]), "f"(z[2]), "f"(z[3]));
      for (int n = 0; n < 4; n++) c[i * 4 + n] = w[n];"""


@pytest.mark.parametrize(("kind", "k"), [
    ("f16", 8), ("f16", 16), ("bf16", 8), ("bf16", 16), ("tf32", 4), ("tf32", 8),
])  # fmt: skip
def test_tensor_cores(kind: str, k: int) -> None:
    rng = np.random.default_rng(k)
    per = 1 if kind == "tf32" else 2
    a, b = rng.integers(-8, 8, (16, k)) / 4, rng.integers(-8, 8, (k, 8)) / 4
    c = rng.integers(-8, 8, (16, 8)).astype(np.float32)

    def pack(values: list[float]) -> int:
        if kind == "tf32":
            return int(np.float32(values[0]).view(np.uint32))
        if kind == "f16":
            raw = [int(np.float16(v).view(np.uint16)) for v in values]
        else:
            raw = [int(np.float32(v).view(np.uint32)) >> 16 for v in values]
        return raw[0] | raw[1] << 16

    parts, step = k // (4 * per), 4 * per
    x = np.zeros((32, 2 * parts), np.uint32)
    y = np.zeros((32, parts), np.uint32)
    z = np.zeros((32, 4), np.float32)
    for lane in range(32):
        g, t = divmod(lane, 4)
        for part in range(parts):
            columns = [part * step + t * per + e for e in range(per)]
            x[lane, 2 * part] = pack([a[g, n] for n in columns])
            x[lane, 2 * part + 1] = pack([a[g + 8, n] for n in columns])
            y[lane, part] = pack([b[n, g] for n in columns])
        z[lane] = [c[g + r // 2 * 8, 2 * t + r % 2] for r in range(4)]
    _, _, found = run(mma_source(kind, k, (2 * parts, parts)), x, y, z)
    wanted = a @ b + c
    for lane in range(32):
        g, t = divmod(lane, 4)
        for r in range(4):
            assert found[lane, r] == wanted[g + r // 2 * 8, 2 * t + r % 2]


@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix_and_copy_async(transposed: bool) -> None:
    trans = ".trans" if transposed else ""
    body = f"""__shared__ __align__(16) unsigned s[128];
      unsigned at = (unsigned)__cvta_generic_to_shared(s);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at + 16 * i), "l"(a + 4 * i));
      asm volatile("cp.async.commit_group; cp.async.wait_group 0;"); __syncthreads();
      unsigned r[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%0,%1,%2,%3}}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at + 16 * i));
      for (int k = 0; k < 4; k++) b[4 * i + k] = r[k];"""
    halves = np.arange(256, dtype=np.uint16)
    _, found = run(body, halves.view(np.uint32), np.zeros(128, np.uint32))
    matrices = halves.reshape(4, 8, 8)
    if transposed:
        matrices = matrices.transpose(0, 2, 1)
    wanted = np.ascontiguousarray(matrices).reshape(4, 32, 2).transpose(1, 0, 2)
    np.testing.assert_array_equal(found.view(np.uint16).reshape(32, 4, 2), wanted)


@pytest.mark.parametrize("architecture", ["compute_75", "compute_80", "compute_89", "compute_90"])
def test_calls_switches_tables_and_local_memory(architecture: str) -> None:
    before = """__constant__ float table[4] = {1, 2, 3, 4}; __device__ int counter = 5;
      __device__ __noinline__ float helper(float x, int n) {
        float b[8];
        for (int k = 0; k < 8; k++) b[k] = x * k;
        return b[n & 7] + (x > 3 ? 0 : n);
      }"""
    body = """float v = helper(a[i], i) + table[i & 3];
      switch (i % 9) {
        case 0: v = sinf(v); break; case 1: v = powf(v, 1.5f); break;
        case 2: v = 2; break; case 3: v += 4; break; case 4: v = -v; break;
        case 5: v = v * v; break; case 6: v = expf(-v); break; case 7: v = tanhf(v); break;
      }
      a[i] = v + (float)(counter / 2) + (float)__popc(i) + (float)((long long)i % 7);"""
    x = np.linspace(0, 4, 32, dtype=np.float32)
    (found,) = run(body, x, before=before, architecture=architecture)
    v = x * (LANES & 7) + np.where(x > 3, 0, LANES) + np.array([1, 2, 3, 4])[LANES & 3]
    functions: list[Any] = [
        np.sin, lambda v: v**1.5, lambda v: v * 0 + 2, lambda v: v + 4, lambda v: -v,
        lambda v: v * v, lambda v: np.exp(-v), np.tanh, lambda v: v,
    ]  # fmt: skip
    wanted = np.choose(LANES % 9, [f(v) for f in functions])
    wanted = wanted + 2 + [int(k).bit_count() for k in LANES] + LANES % 7
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-5)


def test_block_wide_votes() -> None:
    body = """a[i] = __syncthreads_count(i % 3 == 0);
      b[i] = __syncthreads_or(i == 63) + 2 * __syncthreads_and(i < 63);"""
    a, b = run(body, np.zeros(64, np.int32), np.zeros(64, np.int32), block=64)
    assert (a == 22).all() and (b == 1).all()


def test_printf_and_assert() -> None:
    module = Module(
        compile_cuda(
            'extern "C" __global__ void k(int n) {'
            ' printf("%d of %u: %.2f %s\\n", (int)threadIdx.x, 2u, 0.5 + n, "done"); }'
        )
    )
    with settings():
        module.run("k", [1], [2], 3)
        text = library().ptxsim_output().decode()
    assert text == "0 of 2: 3.50 done\n1 of 2: 3.50 done\n"
    failing = 'extern "C" __global__ void k(int n) { if (threadIdx.x > n) __trap(); }'
    with settings(), pytest.raises(CudaError, match=r"thread \(2,0,0\).*trap"):
        Module(compile_cuda(failing)).run("k", [1], [8], 1)


def test_dynamic_shared_memory() -> None:
    source = """extern "C" __global__ void k(int* a) {
      extern __shared__ int s[]; int i = threadIdx.x;
      s[i] = a[i]; __syncthreads(); a[i] = s[blockDim.x - 1 - i]; }"""
    module, a = Module(compile_cuda(source)), Buffer(ints(64))
    with settings():
        module.launch("k", [1], [64], a, shared=256)
        np.testing.assert_array_equal(a.read(), ints(64)[::-1])
        assert launches()[-1].dynamic_shared == 256
        module.launch("k", [1], [64], a, shared=128)
        with pytest.raises(CudaError, match="expected an address below 128"):
            call("cuCtxSynchronize")
