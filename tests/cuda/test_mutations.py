"""Barriers and guards of the real kernels, taken away one by one: the simulator finds each fault.

The originals pass all checks in test_every_kernel.py.
"""

import shutil

import pytest

from needle import _native, config
from needle.backend.gpu import modules

from .calls import CALLS
from .driver import settings

BARRIER = "__syncthreads();"
# The calls that meet the barriers of headers.
MET_BY = {
    ("product.cuh", 0): "matmul",
    ("product.cuh", 1): "attention",
    **{("reductions.cuh", n): "softmax" for n in range(4)},
}
# Barriers that others stand in for, as their callers are today.
SPARE = {
    ("attention.cu", 0),  # queries without features would meet it
    ("attention_by_key.cu", 0),
    ("attention_by_query.cu", 0),
    ("reductions.cuh", 0),  # two calls of `combined`, or of `from_member`, in a row would
    ("reductions.cuh", 2),
}
# (file, a guard, one that lets an element more through, the call that meets it)
GUARDS = [
    ("random.cu", "if (i >= p.size) return;", "if (i > p.size) return;", "random"),
    ("product.cuh", "row >= rows || column", "row > rows || column", "matmul"),
    ("product.cuh", "side < sides && k < depth", "side <= sides && k < depth", "matmul"),
    ("scatter_add.cu", "j < p.count && ", "j <= p.count && ", "scatter_add"),
]


def barriers():
    """(file, which of its barriers, the call that meets it)"""
    for path in sorted(modules.SOURCES.glob("*.cu*")):
        for n in range(path.read_text().count(BARRIER)):
            if (path.name, n) not in SPARE:
                yield path.name, n, MET_BY.get((path.name, n), path.stem)


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """Makes all kernels from sources in which the nth place with a text has another."""
    caches = (modules.kernel, modules.kernel_of, modules.by_rank, modules._headers)

    def forget():
        for made in caches:
            made.cache_clear()

    def change(file, text, n, replacement):
        sources = tmp_path / "kernels"
        shutil.copytree(modules.SOURCES, sources)
        pieces = (sources / file).read_text().split(text)
        before, after = text.join(pieces[: n + 1]), text.join(pieces[n + 1 :])
        (sources / file).write_text(before + replacement + after)
        monkeypatch.setattr(modules, "SOURCES", sources)
        monkeypatch.setattr(config, "CACHE", None)
        forget()

    yield change
    forget()


def report(call, device):
    with settings(), pytest.raises(_native.cuda.CudaError) as raised:
        call(device).numpy()
    return str(raised.value)


@pytest.mark.parametrize(("file", "n", "call"), list(barriers()))
def test_without_a_barrier(device, changed, file, n, call):
    changed(file, BARRIER, n, "")
    text = report(CALLS[call], device)
    assert "got a race" in text or "which nobody wrote" in text


@pytest.mark.parametrize(("file", "text", "replacement", "call"), GUARDS)
def test_with_another_guard(device, changed, file, text, replacement, call):
    changed(file, text, 0, replacement)
    assert "of an allocation" in report(CALLS[call], device)
