"""Buffers: alignment, the pool, the figures, and running out of memory."""

import subprocess
import sys

import numpy as np
import pytest

from needle import _native

from .helpers import Array, array, blank

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def empty_pool():
    _native.release_memory()
    _native.reset_peak_memory()


def test_buffers_are_aligned_and_typed():
    for size in (0, 1, 3, 1000, 12345):
        buffer = _native.empty(size, "float64")
        assert buffer.ptr() % 64 == 0
        assert (buffer.size, buffer.nbytes, buffer.dtype) == (size, 8 * size, "float64")
        assert not buffer.readonly


def test_stats_follow_allocation():
    before = _native.memory_stats()
    buffer = _native.empty(MEGABYTE, "float32")
    during = _native.memory_stats()
    assert during["live"] - before["live"] == 4 * MEGABYTE
    assert during["peak"] == during["live"]
    del buffer
    after = _native.memory_stats()
    assert after["live"] == before["live"]
    assert after["peak"] == during["peak"]
    assert after["pooled"] == before["pooled"] + 4 * MEGABYTE
    _native.reset_peak_memory()
    assert _native.memory_stats()["peak"] == after["live"]
    _native.release_memory()
    assert _native.memory_stats()["pooled"] == 0


def test_freed_blocks_are_used_again():
    buffer = _native.empty(MEGABYTE, "uint8")
    address = buffer.ptr()
    del buffer
    assert _native.empty(MEGABYTE - 100, "uint8").ptr() == address


def test_a_loop_holds_memory_flat():
    for step in range(200):
        array(np.zeros(10_000, np.float32))
        if step == 0:
            first = _native.memory_stats()
    assert _native.memory_stats() == first


@pytest.mark.parametrize("size", [1 << 45, (1 << 63) - 1, 1 << 61])
def test_too_large_is_a_memory_error_and_life_goes_on(size):
    with pytest.raises(MemoryError, match=r"\[empty\] cannot allocate \d+"):
        _native.empty(size, "float32")
    assert _native.to_numpy(array([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_memory_error_names_the_size():
    with pytest.raises(MemoryError, match=rf"\[empty\] cannot allocate {4 << 45} bytes \("):
        _native.empty(1 << 45, "float32")


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match=r"\[empty\] size must not be negative, got -1"):
        _native.empty(-1, "float32")
    with pytest.raises(ValueError, match=r"\[empty\] size does not fit 64 bits"):
        _native.empty(1 << 64, "float32")
    with pytest.raises(TypeError, match=r"\[empty\] unknown dtype 'float99'"):
        _native.empty(1, "float99")


@pytest.mark.parametrize("k", [2**57, 2**62, 2**63 - 1])
def test_shapes_whose_bytes_cannot_be_counted_are_refused(k):
    one = array(np.ones(1, np.float32))
    row, column = Array(one._handle, (1, k), (0, 0)), Array(one._handle, (k, 1), (0, 0))
    with pytest.raises(ValueError, match=r"\[matmul\] a: shape \(1, \d+\) has too many elements"):
        _native.matmul(blank((1, 1)), row, column)


def test_an_empty_index_of_stride_0_is_not_read():
    target, empty = array(np.ones((7, 3), np.float32)), Array(_native.empty(0, "int64"), (0,), (0,))
    _native.scatter("set", target, (empty,), blank((0, 3)))
    np.testing.assert_array_equal(target.numpy(), 1)


def test_a_large_block_serves_a_smaller_buffer():
    buffer = _native.empty(20 * MEGABYTE, "uint8")
    address = buffer.ptr()
    del buffer
    smaller = _native.empty(15 * MEGABYTE, "uint8")
    assert smaller.ptr() == address
    assert _native.memory_stats()["live"] >= 20 * MEGABYTE
    assert _native.empty(8 * MEGABYTE, "uint8").ptr() != address


def test_sizes_out_of_use_are_given_back():
    """With live buffers, the pool is at most what was needed at once, and an eighth."""
    needed = 0
    for size in range(8, 64, 8):
        buffers = [_native.empty(size * MEGABYTE, "uint8") for _ in range(2)]
        needed = max(needed, _native.memory_stats()["live"])
        del buffers
    stats = _native.memory_stats()
    assert stats["live"] + stats["pooled"] <= needed * 9 / 8


def test_what_was_needed_once_is_given_back():
    """The pool follows what is live: a large buffer of long ago is not kept for ever."""
    kept = _native.empty(4 * MEGABYTE, "uint8")
    _native.empty(256 * MEGABYTE, "uint8")
    assert _native.memory_stats()["pooled"] >= 256 * MEGABYTE
    for _ in range(600):
        buffer = _native.empty(8 * MEGABYTE, "uint8")
    stats = _native.memory_stats()
    assert stats["pooled"] <= (kept.nbytes + buffer.nbytes) * 9 / 8 + 8 * MEGABYTE
    assert stats["peak"] >= 256 * MEGABYTE


def test_many_small_blocks_are_given_back():
    blocks = [_native.empty(100_000, "uint8") for _ in range(2000)]
    del blocks
    assert _native.memory_stats()["pooled"] >= 200_000_000
    for _ in range(600):
        _native.empty(8 * MEGABYTE, "uint8")
    assert _native.memory_stats()["pooled"] <= 32 * MEGABYTE


def test_steps_find_their_memory_in_the_pool():
    """Steps whose memory is mostly freed between them, with something else every few steps."""
    seen = []
    for step in range(60):
        buffers = [_native.empty(8 * MEGABYTE, "uint8") for _ in range(12)]
        seen.append({buffer.ptr() for buffer in buffers})
        for _ in range(20):
            _native.empty(1000, "uint8")
        del buffers
        if step % 10 == 9:
            _native.empty(5 * MEGABYTE, "uint8")
    assert len(set.union(*seen)) == 12


# Running out of memory, in processes with 1 GB of addresses ---------------------------------------

LIMITED = """
import os, resource, sys
import numpy as np
import needle as ndl
ndl.ones(8)  # threads are started
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)
MEGABYTE = 1 << 20
def fill():
    kept = []
    while True:
        kept.append(ndl.zeros(16 * MEGABYTE, dtype="uint8"))
"""


def run_limited(code):
    done = subprocess.run([sys.executable, "-c", LIMITED + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_after_a_memory_error_nothing_is_pooled():
    run_limited("""
for attempt in range(3):
    try:
        fill()
        raise AssertionError("no limit")
    except MemoryError as error:
        assert "[empty] cannot allocate 16777216 bytes" in str(error), error
    stats = ndl.memory_stats()
    assert stats["pooled"] <= MEGABYTE and stats["live"] <= MEGABYTE, stats
    np.ones(900 * MEGABYTE, np.uint8)  # somebody else's memory
    x = ndl.ones(32 * MEGABYTE, dtype="uint8")
    del x
    assert ndl.memory_stats()["pooled"] >= 32 * MEGABYTE  # and later blocks are used again
""")


def test_a_failing_allocation_takes_the_pool_first():
    run_limited("""
kept = [ndl.zeros(24 * MEGABYTE, dtype="uint8") for _ in range(32)]
del kept
assert ndl.memory_stats()["pooled"] >= 100 * MEGABYTE
x = ndl.zeros(800 * MEGABYTE, dtype="uint8")
assert ndl.memory_stats()["live"] >= 800 * MEGABYTE
""")


def test_a_copy_for_numpy_takes_the_pool_first():
    run_limited("""
x = ndl.zeros(400 * MEGABYTE, dtype="uint8")
kept = [ndl.zeros(24 * MEGABYTE, dtype="uint8") for _ in range(15)]
del kept
assert ndl.memory_stats()["pooled"] >= 300 * MEGABYTE
assert x.numpy().shape == (400 * MEGABYTE,)
""")
