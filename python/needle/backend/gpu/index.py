"""Gathering, scattering, products with sparse matrices, and the places of true elements.

Kernels that go to places which are data check them first: what is outside is noted in a flag, which
the host reads before anything is written.
"""

from __future__ import annotations

import math

import numpy as np

from ..._native import cuda
from ...dtype import int32, int64
from ..protocol import Handle, Operand, out_of_range
from . import views
from .elementwise import STORED, binary, fill
from .memory import from_numpy, to_numpy
from .modules import by_rank, kernel
from .order import argsort
from .views import View

# What moves elements of a size, whatever they are.
ITEM = {1: "uint8_t", 2: "uint16_t", 4: "u32", 8: "u64"}
COUNTED_AT_ONCE = 256  # elements, by a block of nonzero.cu


def gather(out: Operand, a: Operand, indices: tuple[Operand, ...]) -> None:
    count = len(indices)
    leading = len(out.shape) - (len(a.shape) - count)
    places = _places(a, indices, tuple(out.shape[:leading]))
    if 0 in out.shape:
        return
    ones, rest = (1,) * leading, len(out.shape) - leading
    everywhere = views.seen_as(
        places, (*places.shape, *(1,) * rest), (*places.strides, *(0,) * rest)
    )
    parts = views.seen_as(a, (*ones, *a.shape[count:]), (*(0,) * leading, *a.strides[count:]))
    find = by_rank("gather", ITEM=ITEM[a.dtype.itemsize])
    cuda.launch_each(find, (out,), (everywhere, parts), b"", "gather")


def scatter(name: str, out: Operand, indices: tuple[Operand, ...], a: Operand) -> None:
    count = len(indices)
    rest = tuple(out.shape[count:])
    leading = tuple(a.shape[: len(a.shape) - len(rest)])
    places = _places(out, indices, leading)
    if 0 in a.shape:
        return
    step = views.step_over(leading, a.strides[: len(leading)])
    strides = (out.strides[count:], a.strides[len(leading) :])
    if step is None or len(views.joined(rest, strides)) >= views.MOST_AXES:
        return scatter(name, out, indices, views.in_compact(a))
    j = math.prod(leading)
    flat = views.seen_as(places, (j,), (1,))
    order = views.new((j,), int64)
    argsort(order, flat, 0, False)
    none = (0,) * len(rest)
    rank, tail = views.space(
        (j, *rest), [(0, *strides[0]), (1, *none), (0, *none), (0, *strides[1])]
    )
    tail += views.members("qI", step, j)
    if name == "set":
        call = kernel("scatter_set", ITEM=ITEM[a.dtype.itemsize], RANK=rank)
    else:
        call = kernel("scatter_add", DTYPE=STORED[a.dtype], RANK=rank)
    blocks = views.blocks_for(math.prod(a.shape), views.PER_BLOCK)
    call.launch(blocks, 256, (out,), (flat, order, a), tail)


def _places(a: Operand, indices: tuple[Operand, ...], shape: tuple[int, ...]) -> View:
    """Where in `a` the indices, broadcast to a shape, point to. Raises out_of_range."""
    places, outside = views.new(shape, int64), views.new((), int32)
    sizes = tuple(a.shape[: len(indices)])
    if 0 in shape:  # an index that meets no position may be outside, too
        _refuse(indices, sizes)
        return places
    fill(outside, 0)
    tail = views.members(f"{2 * len(indices)}q", *a.strides[: len(indices)], *sizes)
    find = by_rank("index_places", INDICES=len(indices))
    cuda.launch_each(find, (places,), (outside, *indices), tail, "index")
    if to_numpy(outside):
        _refuse(indices, sizes)
    return places


def _refuse(indices: tuple[Operand, ...], sizes: tuple[int, ...]) -> None:
    """The error for the first index that is outside."""
    for position, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        found = to_numpy(index)
        bad = found[(found < -size) | (found >= size)]
        if bad.size:
            raise out_of_range(position, int(bad[0]), size)


def mix(
    out: Operand, a: Operand,
    starts: Operand, places: Operand, weights: Operand, axis: int,
) -> None:  # fmt: skip
    _check_mix(starts, places, a.shape[axis])
    if 0 in out.shape:
        return
    if out._handle is a._handle:  # every line may be read by many
        a = views.in_compact(a)
    shape = tuple(out.shape)
    along = tuple(int(i == axis) for i in range(len(shape)))
    nowhere = tuple(0 for _ in shape)
    strides = [
        tuple(out.strides),
        tuple(0 if i == axis else s for i, s in enumerate(a.strides)),
        tuple(s * starts.strides[0] for s in along),
        nowhere,
        nowhere,
    ]
    if not views.has_few_axes(shape, strides):
        return views.through_compact(
            lambda o, x: mix(o, x, starts, places, weights, axis), (out,), (a,)
        )
    rank, tail = views.space(shape, strides)
    steps = (a.strides[axis], starts.strides[0], places.strides[0], weights.strides[0])
    tail += views.members("4q", *steps)
    call = kernel("mix", DTYPE=STORED[out.dtype], RANK=rank)
    blocks = views.blocks_for(math.prod(shape), views.PER_BLOCK)
    call.launch(blocks, 256, (out,), (a, starts, places, weights), tail)


def _check_mix(starts: Operand, places: Operand, lines: int) -> None:
    outside = views.new((), int32)
    fill(outside, 0)
    count = places.shape[0]
    for operand, limit, extra in ((starts, count, {"STARTS": 1}), (places, lines - 1, {})):
        size = operand.shape[0]
        if size == 0:
            continue
        _, tail = views.space((size,), [(0,), (operand.strides[0],)])
        call = kernel("mix_check", **extra)
        blocks = views.blocks_for(size, views.PER_BLOCK)
        call.launch(blocks, 256, (outside,), (operand,), tail + views.members("q", limit))
    if not to_numpy(outside):
        return
    first, columns = to_numpy(starts), to_numpy(places)
    before = np.concatenate([[0], first[:-1]])
    bad = np.flatnonzero((first < before) | (first < 0) | (first > count))
    if bad.size:
        raise out_of_range(0, int(first[bad[0]]), count + 1)
    raise out_of_range(1, int(columns[(columns < 0) | (columns >= lines)][0]), lines)


def nonzero(a: Operand) -> Handle:
    shape = tuple(a.shape)
    size = math.prod(shape)
    if size == 0:
        return cuda.empty(0, int64)
    if not views.has_few_axes(shape, [tuple(a.strides)]):
        return nonzero(views.in_compact(a))
    blocks = views.blocks_for(size, COUNTED_AT_ONCE)
    rank, tail = views.space(shape, [tuple(a.strides)])
    counts = views.new((blocks,), int64)
    definitions = {"DTYPE": STORED[a.dtype], "RANK": rank}
    kernel("nonzero", **definitions).launch(blocks, COUNTED_AT_ONCE, (counts, counts), (a,), tail)
    ends = np.cumsum(to_numpy(counts))
    count = int(ends[-1])
    found = views.new((count, len(shape)), int64)
    handle: Handle = found._handle
    if handle.size == 0:
        return handle
    flat = views.new((count,), int64)
    ends_there = View(from_numpy(ends, int64), (blocks,), (1,), 0, int64)
    kernel("nonzero", STARTS=1, **definitions).launch(
        blocks, COUNTED_AT_ONCE, (flat,), (ends_there, a), tail
    )
    for axis, n in enumerate(shape):
        column = views.seen_as(found, (count,), (len(shape),), axis)
        binary("floor_divide", column, flat, math.prod(shape[axis + 1 :]))
        binary("remainder", column, column, n)
    return handle
