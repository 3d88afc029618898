"""The simulator by its CUDA driver API, as any program would drive it, through ctypes."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import needle._native

LIBRARY = Path(needle._native.__file__).parent / "native" / "libneedle_ptxsim.so"
UNINITIALIZED, SHARED_RACES, GLOBAL_RACES, COUNTERS, TRACE, ALL_CHECKS = 1, 2, 4, 8, 16, 15


class CudaError(Exception):
    """A result other than success, with the simulator's report."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code


class Launch(ctypes.Structure):
    """ptxsim_launch."""

    _fields_ = [
        ("kernel", ctypes.c_char_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("static_shared", ctypes.c_uint32),
        ("dynamic_shared", ctypes.c_uint32),
        *(
            (name, ctypes.c_uint64)
            for name in (
                "instructions thread_instructions branches divergent_branches barriers "
                "global_loads global_load_sectors global_stores global_store_sectors "
                "shared_requests shared_waves shared_conflicts atomics"
            ).split()
        ),
    ]


@cache
def library() -> ctypes.CDLL:
    if not LIBRARY.exists():
        pytest.skip("the simulator is not built")
    lib = ctypes.CDLL(str(LIBRARY))
    for name in ("ptxsim_report", "ptxsim_output", "ptxsim_instructions"):
        getattr(lib, name).restype = ctypes.c_char_p
    lib.ptxsim_launches.restype = ctypes.c_size_t
    lib.ptxsim_trace.restype = ctypes.c_size_t
    lib.ptxsim_forget.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
    lib.ptxsim_set_max_instructions.argtypes = [ctypes.c_uint64]
    return lib


def call(name: str, *arguments: Any) -> None:
    """A function of the driver; CudaError unless it succeeds. The next call begins afresh."""
    code = getattr(library(), name)(*arguments)
    if code != 0:
        text = library().ptxsim_report().decode()
        library().ptxsim_reset()
        raise CudaError(code, text)


@contextmanager
def settings(checks: int = ALL_CHECKS, seed: int = 0, threads: int = 0) -> Iterator[None]:
    lib = library()
    lib.ptxsim_set_checks(checks)
    lib.ptxsim_set_seed(seed)
    lib.ptxsim_set_threads(threads)
    try:
        yield
    finally:
        lib.ptxsim_reset()
        lib.ptxsim_set_checks(ALL_CHECKS)
        lib.ptxsim_set_seed(0)
        lib.ptxsim_set_threads(0)


class Buffer:
    """An allocation that has an array's elements, or those that nobody wrote."""

    def __init__(self, like: np.ndarray, *, fill: bool = True):
        self.like = np.ascontiguousarray(like)
        self.address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(self.like.nbytes))
        if fill:
            call(
                "cuMemcpyHtoD_v2",
                self.address,
                self.like.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_size_t(self.like.nbytes),
            )

    def read(self) -> np.ndarray:
        out = np.empty_like(self.like)
        call(
            "cuMemcpyDtoH_v2",
            out.ctypes.data_as(ctypes.c_void_p),
            self.address,
            ctypes.c_size_t(out.nbytes),
        )
        return out

    def free(self) -> None:
        call("cuMemFree_v2", self.address)


class Module:
    def __init__(self, ptx: bytes):
        self.handle = ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(self.handle), ptx)

    def function(self, name: str) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(function), self.handle, name.encode())
        return function

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        *arguments: Any,
        shared: int = 0,
        stream: Any = None,
    ) -> None:
        """Hands the call over; the kernel runs when somebody waits."""
        values = [_argument(a) for a in arguments]
        pointers = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values)
        )
        sizes = [*grid, 1, 1][:3] + [*block, 1, 1][:3]
        call("cuLaunchKernel", self.function(name), *sizes, shared, stream, pointers, None)

    def run(self, name: str, grid: Sequence[int], block: Sequence[int], *arguments: Any) -> Launch:
        """Launches, waits, and gives the counters."""
        self.launch(name, grid, block, *arguments)
        call("cuCtxSynchronize")
        return launches()[-1]


def _argument(value: Any) -> Any:
    if isinstance(value, Buffer):
        return value.address
    if isinstance(value, int):
        return ctypes.c_int(value)
    return ctypes.c_float(value) if isinstance(value, float) else value


def launches() -> list[Launch]:
    first = ctypes.POINTER(Launch)()
    count = library().ptxsim_launches(ctypes.byref(first))
    return [first[k] for k in range(count)]


def instructions() -> tuple[set[str], set[str]]:
    """What the decoder knows, and what it has decoded in this process."""
    names = library().ptxsim_instructions().decode().split()
    return {n.lstrip("*") for n in names}, {n[1:] for n in names if n.startswith("*")}


# The compiler ------------------------------------------------------------------------------------


@cache
def nvrtc() -> ctypes.CDLL:
    found = importlib.util.find_spec("nvidia")
    folders = found.submodule_search_locations if found is not None else None
    for folder in folders or ():
        for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.1?"), reverse=True):
            return ctypes.CDLL(str(path))
    pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc")


@cache
def compile_cuda(source: str, architecture: str = "compute_75") -> bytes:
    """PTX with line numbers of `k.cu`."""
    lib, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    assert (
        lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None) == 0
    )
    options = [f"--gpu-architecture={architecture}".encode(), b"-lineinfo"]
    code = lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * 2)(*options))
    what = "ProgramLog" if code else "PTX"
    getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(lib, f"nvrtcGet{what}")(program, text)
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    assert code == 0, text.value.decode()
    return text.value
