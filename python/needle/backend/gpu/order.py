"""Sorting and searching: the order of lines, and places in sorted numbers."""

from __future__ import annotations

import math

from ..._native import cuda
from ...dtype import int32, int64
from ..protocol import Operand, Steps
from . import views
from .elementwise import STORED, fill
from .modules import by_rank, kernel

CHUNK = 1024  # that a block sorts, as sort_chunks.cu has it
THREADS = 256


def argsort(out: Operand, a: Operand, axis: int, descending: bool) -> None:
    if 0 in out.shape:
        return
    length, wanted = a.shape[axis], out.shape[axis]
    shape = _without(tuple(a.shape), axis)
    strides = [_without(tuple(o.strides), axis) for o in (out, a)]
    if not views.has_few_axes(shape, strides):
        return views.through_compact(lambda o, x: argsort(o, x, axis, descending), (out,), (a,))
    lines, chunks = math.prod(shape), -(-length // CHUNK)
    room = lines * length if chunks > 1 else 0
    keys, indices = ([views.new((room,), d) for _ in "12"] for d in (int64, int32))
    rank, tail = views.space(shape, strides)
    tail += views.members(
        "2q3I", out.strides[axis], a.strides[axis], length, wanted, int(descending)
    )
    kernel("sort_chunks", DTYPE=STORED[a.dtype], RANK=rank).launch(
        lines * chunks, THREADS, (keys[0], indices[0], out), (a,), tail
    )
    rank, tail = views.space(shape, strides[:1])
    call = kernel("sort_merge", RANK=rank)
    run = CHUNK
    while run < length:
        is_last = 2 * run >= length
        last = views.members("q5I", out.strides[axis], lines, length, wanted, run, int(is_last))
        blocks = lines * views.blocks_for(length, THREADS)
        outs = (keys[0], indices[0], keys[1], indices[1], out)
        call.launch(blocks, THREADS, outs, (), tail + last)
        keys.reverse()
        indices.reverse()
        run *= 2


def _without(axes: Steps, axis: int) -> Steps:
    return (*axes[:axis], *axes[axis + 1 :])


def searchsorted(out: Operand, sorted_: Operand, values: Operand, right: bool) -> None:
    if sorted_.shape[0] == 0:
        return fill(out, 0)
    first = views.seen_as(sorted_, (), ())
    tail = views.members("qII", sorted_.strides[0], sorted_.shape[0], int(right))
    find = by_rank("searchsorted", DTYPE=STORED[values.dtype])
    cuda.launch_each(find, (out,), (first, values), tail, "searchsorted")
