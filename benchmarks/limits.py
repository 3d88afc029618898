"""The machine's limits, measured: arithmetic in registers, and memory traffic by size.

The loops are in limits.c, compiled by the system's compiler and run on as many threads as asked.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

ATTEMPTS = 5
LEAST = 0.02  # seconds that one attempt lasts


@cache
def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "limits.so"
        source = Path(__file__).with_name("limits.c")
        vectors = ["-mavx512f"] if "avx512f" in _flags() else ["-mavx2", "-mfma"]
        command = ["cc", "-O2", *vectors, "-shared", "-fPIC", "-o", built, source]
        subprocess.run(command, check=True)
        library = ctypes.CDLL(str(built))
    for name in ("fma_work", "amx_work", "add_work", "sum_work"):
        getattr(library, name).restype = ctypes.c_double
    return library


def _rate(work: Callable[[int, int], float], threads: int) -> float:
    """Work per second of work(thread, rounds) on all threads, at best."""
    _library()  # built before the clock starts
    rounds = 1
    with ThreadPoolExecutor(threads) as pool:

        def attempt() -> tuple[float, float]:
            start = time.perf_counter()
            done = sum(pool.map(lambda thread: work(thread, rounds), range(threads)))
            return done, time.perf_counter() - start

        done, seconds = attempt()
        while seconds < LEAST and done > 0:
            rounds *= 2
            done, seconds = attempt()
        attempts = [(done, seconds), *(attempt() for _ in range(ATTEMPTS))]
    return max(done / seconds for done, seconds in attempts)


def _flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    return set(info.read_text().split()) if info.exists() else set()


@cache
def fma_peak(threads: int) -> float | None:
    """float32 operations per second of multiply-adds in AVX-512 or AVX2; None without them."""
    if not {"avx512f", "fma"} & _flags():
        return None
    return _rate(lambda _, rounds: _library().fma_work(ctypes.c_int64(1000 * rounds)), threads)


@cache
def amx_peak(threads: int) -> float | None:
    """bfloat16 operations per second of AMX tiles; None where there are none."""
    if "amx_bf16" not in _flags():
        return None
    rate = _rate(lambda _, rounds: _library().amx_work(ctypes.c_int64(1000 * rounds)), threads)
    return rate or None


def add_bandwidth(size: int, threads: int) -> float:
    """Bytes per second of y += x over `size` floats, cut evenly among the threads."""
    part = size // threads
    arrays = [np.ones((2, part), np.float32) for _ in range(threads)]

    def work(thread: int, rounds: int) -> float:
        y, x = (ctypes.c_void_p(row.ctypes.data) for row in arrays[thread])
        moved: float = _library().add_work(y, x, ctypes.c_int64(part), ctypes.c_int64(rounds))
        return moved

    return _rate(work, threads)


def sum_bandwidth(size: int, threads: int) -> float:
    """Bytes per second of the sum of `size` floats, cut evenly among the threads."""
    part = size // threads
    arrays = [np.ones(part, np.float32) for _ in range(threads)]

    def work(thread: int, rounds: int) -> float:
        x = ctypes.c_void_p(arrays[thread].ctypes.data)
        read: float = _library().sum_work(x, ctypes.c_int64(part), ctypes.c_int64(rounds))
        return read

    return _rate(work, threads)
