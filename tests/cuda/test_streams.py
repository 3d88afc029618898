"""Streams put work off: who forgets to wait sees old data. Events, graphs, pinned memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from .driver import Buffer, CudaError, Module, call, compile_cuda, library, settings

SOURCE = """extern "C" __global__ void inc(float* a, const float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = b[i] + 1;
}
extern "C" __global__ void bad(float* a, int n) { a[n + threadIdx.x] = 1; }"""
COUNT, BYTES = 256, ctypes.c_size_t(1024)


@pytest.fixture
def module() -> Module:
    library().ptxsim_reset()
    return Module(compile_cuda(SOURCE))


def new(function: str) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    call(function, ctypes.byref(handle), 1)
    return handle


def pinned() -> tuple[ctypes.c_void_p, Any]:
    memory = ctypes.c_void_p()
    call("cuMemHostAlloc", ctypes.byref(memory), BYTES, 0)
    floats = ctypes.cast(memory, ctypes.POINTER(ctypes.c_float))
    return memory, np.ctypeslib.as_array(floats, (COUNT,))


def zeros(*, fill: bool = True) -> Buffer:
    return Buffer(np.zeros(COUNT, "f"), fill=fill)


def inc(module: Module, to: Buffer, of: Buffer, stream: Any) -> None:
    module.launch("inc", [1], [COUNT], to, of, COUNT, stream=stream)


@pytest.mark.parametrize("seed", [0, 1])
def test_event_orders_two_streams(module: Module, seed: int) -> None:
    for waits in (True, False):
        with settings(seed=seed):
            first, second, event = (
                new("cuStreamCreate"),
                new("cuStreamCreate"),
                new("cuEventCreate"),
            )
            x, a, b = zeros(), zeros(fill=False), zeros(fill=False)
            inc(module, a, x, first)
            call("cuEventRecord", event, first)
            if waits:
                call("cuStreamWaitEvent", second, event, 0)
            inc(module, b, a, second)
            if waits:
                call("cuStreamSynchronize", second)
                assert (b.read() == 2).all()
            else:
                with pytest.raises(CudaError, match="which nobody wrote"):
                    call("cuStreamSynchronize", second)


def test_host_reads_before_waiting(module: Module) -> None:
    stream, (memory, host) = new("cuStreamCreate"), pinned()
    host[:] = -7
    a = zeros(fill=False)
    inc(module, a, zeros(), stream)
    call("cuMemcpyDtoHAsync_v2", memory, a.address, BYTES, stream)
    assert (host == -7).all()
    call("cuStreamSynchronize", stream)
    assert (host == 1).all()


@pytest.mark.parametrize("waits", [True, False])
def test_pinned_memory_used_again(module: Module, waits: bool) -> None:
    stream, (memory, host) = new("cuStreamCreate"), pinned()
    a = zeros(fill=False)
    host[:] = 1
    call("cuMemcpyHtoDAsync_v2", a.address, memory, BYTES, stream)
    if waits:
        call("cuStreamSynchronize", stream)
    host[:] = 2
    call("cuStreamSynchronize", stream)
    assert (a.read() == (1 if waits else 2)).all()


def test_the_default_stream_waits_for_blocking_ones(module: Module) -> None:
    stream = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(stream), 0)  # blocking
    a = zeros(fill=False)
    inc(module, a, zeros(), stream)
    assert (a.read() == 1).all()


def test_failure_shows_when_somebody_waits(module: Module) -> None:
    module.launch("bad", [1], [COUNT], zeros(), COUNT)
    with pytest.raises(CudaError, match="after the end") as raised:
        call("cuCtxSynchronize")
    assert raised.value.code == 700


def test_queries_make_progress(module: Module) -> None:
    stream, event = new("cuStreamCreate"), new("cuEventCreate")
    inc(module, zeros(fill=False), zeros(), stream)
    call("cuEventRecord", event, stream)
    codes = [library().cuEventQuery(event) for _ in range(4)]
    assert codes[0] == 600 and codes[-1] == 0
    assert library().cuStreamQuery(stream) == 0


def test_elapsed_time(module: Module) -> None:
    stream, begin, end = new("cuStreamCreate"), new("cuEventCreate"), new("cuEventCreate")
    call("cuEventRecord", begin, stream)
    inc(module, zeros(fill=False), zeros(), stream)
    call("cuEventRecord", end, stream)
    time = ctypes.c_float(-1)
    assert library().cuEventElapsedTime(ctypes.byref(time), begin, end) == 600
    call("cuEventSynchronize", end)
    call("cuEventElapsedTime", ctypes.byref(time), begin, end)
    assert time.value > 0


def captured(module: Module, stream: Any, other: Any, joins: bool) -> tuple[Any, Buffer, Buffer]:
    """A graph that forks: b and c come from a on two streams."""
    x, a, b, c = zeros(), zeros(fill=False), zeros(fill=False), zeros(fill=False)
    fork, join = new("cuEventCreate"), new("cuEventCreate")
    call("cuStreamBeginCapture_v2", stream, 0)
    inc(module, a, x, stream)
    call("cuEventRecord", fork, stream)
    call("cuStreamWaitEvent", other, fork, 0)
    inc(module, b, a, other)
    inc(module, c, a, stream)
    if joins:
        call("cuEventRecord", join, other)
        call("cuStreamWaitEvent", stream, join, 0)
    graph = ctypes.c_void_p()
    call("cuStreamEndCapture", stream, ctypes.byref(graph))
    return graph, b, c


@pytest.mark.parametrize("seed", [0, 1])
def test_graph(module: Module, seed: int) -> None:
    stream, other, executable = new("cuStreamCreate"), new("cuStreamCreate"), ctypes.c_void_p()
    with settings(seed=seed):
        graph, b, c = captured(module, stream, other, True)
        call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        for _ in range(2):
            call("cuGraphLaunch", executable, stream)
        call("cuStreamSynchronize", stream)
        assert (b.read() == 2).all() and (c.read() == 2).all()


def test_graph_that_does_not_join(module: Module) -> None:
    with pytest.raises(CudaError, match="wait for all others") as raised:
        captured(module, new("cuStreamCreate"), new("cuStreamCreate"), False)
    assert raised.value.code == 904


def test_waiting_during_a_capture(module: Module) -> None:
    stream = new("cuStreamCreate")
    call("cuStreamBeginCapture_v2", stream, 0)
    with pytest.raises(CudaError, match="expected no wait while a stream captures"):
        call("cuStreamSynchronize", stream)


def test_copies_of_unwritten_bytes_stay_unwritten(module: Module) -> None:
    a, b = zeros(fill=False), zeros()
    call("cuMemcpyDtoD_v2", b.address, a.address, BYTES)
    inc(module, zeros(fill=False), b, None)
    with pytest.raises(CudaError, match="which nobody wrote"):
        call("cuCtxSynchronize")


def test_proc_address() -> None:
    function, status = ctypes.c_void_p(), ctypes.c_int()
    call(
        "cuGetProcAddress_v2", b"cuMemAlloc", ctypes.byref(function), 12000,
        ctypes.c_uint64(0), ctypes.byref(status),
    )  # fmt: skip
    assert function.value is not None
