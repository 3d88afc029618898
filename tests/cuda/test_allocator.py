"""Memory of the device that is kept for reuse."""

import pytest

import needle as ndl
from needle import _native

cuda = _native.cuda
MIB = 1 << 20


@pytest.fixture
def caching(device):
    ndl.cuda.synchronize()
    cuda.set_caching(True)
    cuda.release_memory()
    yield
    cuda.release_memory()
    cuda.set_caching(not cuda.is_simulated())


def test_a_freed_block_is_used_again(caching):
    first = cuda.empty(1000, "float32")
    address, segments = first.ptr(), cuda.memory_stats()["segments"]
    del first
    assert cuda.empty(900, "float32").ptr() == address
    assert cuda.memory_stats()["segments"] == segments


def test_blocks_share_segments_and_are_joined_again(caching):
    before = cuda.memory_stats()
    blocks = [cuda.empty(MIB // 4, "uint8") for _ in range(8)]
    addresses = [b.ptr() for b in blocks]
    assert addresses == list(range(addresses[0], addresses[0] + 2 * MIB, MIB // 4))
    assert cuda.memory_stats()["segments"] == before["segments"] + 1
    del blocks
    assert cuda.empty(MIB, "uint8").ptr() == addresses[0]  # of the joined blocks
    cuda.release_memory()
    assert cuda.memory_stats()["segments"] == before["segments"]


def test_large_blocks_are_cut_if_the_rest_is_worth_it(caching):
    large = cuda.empty(30 * MIB, "uint8")
    address = large.ptr()
    del large
    part = cuda.empty(12 * MIB, "uint8")
    rest = cuda.empty(18 * MIB, "uint8")
    assert (part.ptr(), rest.ptr()) == (address, address + 12 * MIB)


def test_no_room(device):
    with pytest.raises(MemoryError, match=r"\[cuda\] no room for \d+ bytes"):
        cuda.empty(1 << 45, "uint8")


def test_the_peak(caching):
    cuda.reset_peak_memory()
    base = cuda.memory_stats()["live"]
    blocks = [cuda.empty(MIB, "uint8") for _ in range(3)]
    del blocks
    stats = cuda.memory_stats()
    assert stats["peak"] - base == 3 * MIB and stats["live"] == base and stats["pooled"] > 0
