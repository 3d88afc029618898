"""Products of matrices: how they are cut into tiles and parts, and programs around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..._native import cuda
from ...dtype import DType, float32, float64, int32, int64
from ..protocol import WIDENED, Operand, Steps
from . import views
from .elementwise import STORED, fill
from .modules import by_rank, kernel
from .views import View

if TYPE_CHECKING:
    from ...tile.program import TypedProgram

# A grid of this many blocks fills most GPUs. It is the same for all, and so are results.
ENOUGH_BLOCKS = 128
PART = 256  # of a sum: shorter parts are not worth another pass


class Tiling:
    """Blocks of `threads` x `threads` threads, each with `side` x `side` results."""

    def __init__(self, threads: int, groups: int, itemsize: int):
        self.threads, self.groups = threads, groups
        self.side = threads * groups * (16 // itemsize)

    def tiles(self, rows: int, columns: int) -> int:
        return -(-rows // self.side) * -(-columns // self.side)

    def definitions(self) -> dict[str, int]:
        return {"THREADS": self.threads, "GROUPS": self.groups}


def sums_of(dtype: DType) -> DType:
    """What sums of a dtype are taken in; bools are counted."""
    if dtype.is_floating:
        return float64 if dtype is float64 else float32
    return int64 if dtype is int64 else int32


def tiling(dtype: DType, rows: int, columns: int, depth: int, products: int) -> Tiling:
    """Large tiles if they keep the device busy, with sums in parts if need be; else small ones."""
    itemsize = sums_of(dtype).itemsize
    large, small = Tiling(16, 2, itemsize), Tiling(8, 1, itemsize)
    if not (dtype.is_floating or dtype.itemsize >= 4) or min(rows, columns) <= large.side // 2:
        return small
    blocks = large.tiles(rows, columns) * products * max(1, depth // PART)
    return large if 2 * blocks >= ENOUGH_BLOCKS else small


def parts_of(depth: int, blocks: int) -> tuple[int, int]:
    """Into how many parts sums are cut, and their length."""
    count = max(1, min(ENOUGH_BLOCKS // max(1, blocks), depth // PART))
    length = -(-depth // count // 8) * 8
    return max(1, -(-depth // max(1, length))), length


def add_parts(out: Operand, room: View, dtype: DType) -> None:
    """out = the sum of room (parts, *out.shape) over its first axis."""
    find = by_rank("product_parts", OUT=STORED[out.dtype], LEFT=STORED[dtype])
    tail = views.members("qI", room.strides[0], room.shape[0])
    cuda.launch_each(find, (out,), (views.one_of(room, 0),), tail, "matmul")


def matmul(out: Operand, a: Operand, b: Operand) -> None:
    _check_dtypes(out, a, b)
    product(out, a, b)


def product(out: Operand, a: Operand, b: Operand, adds: bool = False) -> None:
    """out = a @ b, or (adds) out += a @ b; sums are those of a's dtype."""
    rows, columns = out.shape[-2:]
    shape, depth = tuple(out.shape[:-2]), a.shape[-1]
    if 0 in out.shape:
        return
    if depth == 0:
        return None if adds else fill(out, 0)
    if a.dtype == b.dtype and out.strides[-1] != 1 and out.strides[-2] == 1:
        return product(_turned(out), _turned(b), _turned(a), adds)
    fronts = [views.front(operand, shape, 2) for operand in (out, a, b)]
    if not views.has_few_axes(shape, fronts):
        assert not adds
        return views.through_compact(product, (out,), (a, b))
    tiles = tiling(a.dtype, rows, columns, depth, math.prod(shape))
    blocks = tiles.tiles(rows, columns) * math.prod(shape)
    parts, part = (1, depth) if adds else parts_of(depth, blocks)
    if parts == 1:
        return _launch(out, a, b, tiles, 1, part, 0, adds)
    room = views.new((parts, *shape, rows, columns), sums_of(a.dtype))
    _launch(views.one_of(room, 0), a, b, tiles, parts, part, room.strides[0], False)
    add_parts(out, room, a.dtype)


def _launch(
    out: Operand, a: Operand, b: Operand,
    tiles: Tiling, parts: int, part: int, part_stride: int, adds: bool,
) -> None:  # fmt: skip
    rows, columns = out.shape[-2:]
    shape = tuple(out.shape[:-2])
    fronts = [views.front(operand, shape, 2) for operand in (out, a, b)]
    rank, tail = views.space(shape, fronts, least=2)
    out_type = STORED[out.dtype] if part_stride == 0 else f"Sum<{STORED[a.dtype]}>"
    extra = {"ADD": 1} if adds else {}
    call = kernel(
        "matmul", OUT=out_type, LEFT=STORED[a.dtype], RIGHT=STORED[b.dtype], RANK=rank,
        **tiles.definitions(), **extra,
    )  # fmt: skip
    strides = (*out.strides[-2:], *a.strides[-2:], *b.strides[-2:], part_stride)
    tail += views.members("7q5I", *strides, rows, columns, a.shape[-1], parts, part)
    blocks = tiles.tiles(rows, columns) * parts * math.prod(shape)
    call.launch(blocks, tiles.threads**2, (out,), (a, b), tail)


def _turned(a: Operand) -> View:
    """With the last two axes exchanged."""
    shape, strides = tuple(a.shape), tuple(a.strides)
    return views.seen_as(
        a, (*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2])
    )


def _check_dtypes(out: Operand, a: Operand, b: Operand) -> None:
    is_widened = out.dtype is float32 and a.dtype is float32 and b.dtype in WIDENED
    if b.dtype != a.dtype and not is_widened:
        raise TypeError(f"[matmul] b: expected dtype {a.dtype}, got {b.dtype}.")


# Programs around a product -----------------------------------------------------------------------


def matmul_then(
    program: TypedProgram,
    outs: Sequence[Operand],
    a: Operand,
    b: Operand,
    ins: Sequence[Operand] = (),
) -> None:
    from .run import run

    rows = program.reduces_rows
    shape: Steps = (a.shape[0], b.shape[1]) if rows else tuple(outs[0].shape)
    made = views.new(shape, program.inputs[0])
    product(made, a, b)
    run(program, outs, (made, *ins), 1 if rows else 0)


def matmul_of(
    program: TypedProgram,
    outs: Sequence[Operand],
    ins: Sequence[Operand],
    b: Operand,
    then: TypedProgram | None = None,
    others: Sequence[Operand] = (),
) -> None:
    from .run import run

    a = views.new((*outs[0].shape[:-1], b.shape[-2]), program.outputs[0])
    run(program, (a,), ins, 0)
    if then is None:
        matmul(outs[0], a, b)
    else:
        matmul_then(then, outs, a, b, others)
