"""Reductions over any axes, and arguments of extremes and running totals along one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dtype import DType, bfloat16, float16, float32, float64
from ..protocol import OF_NOTHING, REDUCE, Operand, Scalar, Steps
from . import views
from .elementwise import STORED, fill
from .modules import kernel

THREADS, WARP = 256, 32  # as reductions.cuh has them
ENOUGH_BLOCKS = 128  # a grid that fills most GPUs. It is the same for all, and so are results
LEAST_PIECE = 1024  # elements of a result: shorter pieces are not worth another pass


def reduce(name: str, out: Operand, a: Operand) -> None:
    axes = range(len(out.shape))
    over = [d for d in axes if out.shape[d] == 1 and a.shape[d] != 1]
    kept = [d for d in axes if d not in over]
    if 0 in out.shape:
        return
    count = math.prod(a.shape[d] for d in over)
    if count == 0:
        return fill(out, _of_nothing(name))
    team = _team(a, over, kept, count)
    outputs = math.prod(out.shape)
    pieces = _pieces(outputs, count, team)
    if pieces == 1:
        return _launch(name, out, a, kept, over, team, 1, 0)
    room = views.new((*(a.shape[d] for d in kept), pieces), _total(name, out.dtype))
    first = views.View(
        room._handle, tuple(out.shape), _scattered(room.strides, kept, len(axes)), 0, room.dtype
    )
    _launch(name, first, a, kept, over, team, pieces, 1)
    last = views.View(
        out._handle,
        (*(out.shape[d] for d in kept), 1),
        (*(out.strides[d] for d in kept), 1),
        out.offset,
        out.dtype,
    )
    reduce(name, last, room)


def _scattered(strides: Steps, kept: list[int], ndim: int) -> Steps:
    """Strides of the kept axes among all axes."""
    found = [0] * ndim
    for stride, d in zip(strides, kept, strict=False):
        found[d] = stride
    return tuple(found)


def _of_nothing(name: str) -> Scalar:
    return int(OF_NOTHING[name])


def _total(name: str, dtype: DType) -> DType:
    """What results of pieces are kept in."""
    is_total = REDUCE[name] == "total"
    return float64 if is_total and dtype in (float32, float16, bfloat16) else dtype


def _team(a: Operand, over: Sequence[int], kept: Sequence[int], count: int) -> int:
    """How many threads make one result: neighbours in memory should be neighbours in a warp."""
    if count < WARP // 4 or _nearest(a, over) > _nearest(a, kept):
        return 1
    return WARP if count <= 8 * WARP else THREADS


def _nearest(a: Operand, axes: Sequence[int]) -> float:
    """The smallest step in memory along some axes."""
    steps = [abs(a.strides[d]) for d in axes if a.shape[d] > 1 and a.strides[d] != 0]
    return min(steps, default=math.inf)


def _pieces(outputs: int, count: int, team: int) -> int:
    blocks = -(-outputs * team // THREADS)
    each = max(LEAST_PIECE if team > 1 else WARP, -(-count * blocks // ENOUGH_BLOCKS))
    return max(1, -(-count // each))


def _launch(
    name: str, out: Operand, a: Operand, kept: list[int], over: list[int],
    team: int, pieces: int, piece_stride: int,
) -> None:  # fmt: skip
    at_kept, of_kept = _space(kept, out, a)
    at_over, of_over = _space(over, a)
    outputs, count = (math.prod(a.shape[d] for d in axes) for axes in (kept, over))
    call = kernel(
        "reduce", OP=name, DTYPE=STORED[a.dtype], OUT=STORED[out.dtype],
        KEPT=at_kept, REDUCED=at_over, TEAM=team,
    )  # fmt: skip
    tail = of_kept + views.members("q", 0) + of_over
    tail += views.members("qI", piece_stride, -(-count // pieces))
    grid = (views.blocks_for(outputs * team, THREADS), pieces)
    call.launch(grid, THREADS, (out,), (a,), tail)


def _space(axes: Sequence[int], *operands: Operand) -> tuple[int, bytes]:
    """These axes of operands: their rank, and the bytes of Operands after the addresses."""
    shape = tuple(operands[-1].shape[d] for d in axes)
    return views.space(shape, [tuple(o.strides[d] for d in axes) for o in operands])


def arg_reduce(name: str, out: Operand, a: Operand, axis: int) -> None:
    count = a.shape[axis]
    others = [d for d in range(len(a.shape)) if d != axis]
    if 0 in out.shape:
        return
    team = _team(a, [axis], others, count)
    rank, tail = _space(others, out, a)
    call = kernel(
        "arg_reduce", IS_LARGEST=int(name == "argmax"), DTYPE=STORED[a.dtype], KEPT=rank, TEAM=team
    )
    tail += views.members("qI", a.strides[axis], count)
    grid = views.blocks_for(math.prod(out.shape) * team, THREADS)
    call.launch(grid, THREADS, (out,), (a,), tail)


def scan(name: str, out: Operand, a: Operand, axis: int) -> None:
    if 0 in a.shape:
        return
    others = [d for d in range(len(a.shape)) if d != axis]
    count = a.shape[axis]
    team = 1 if _team(a, [axis], others, count) == 1 else THREADS
    rank, tail = _space(others, out, a)
    call = kernel(
        "scan", OP={"cumsum": "sum", "cumprod": "prod"}[name],
        DTYPE=STORED[a.dtype], OUT=STORED[out.dtype], KEPT=rank, TEAM=team,
    )  # fmt: skip
    tail += views.members("qqI", out.strides[axis], a.strides[axis], count)
    lines = math.prod(a.shape[d] for d in others)
    call.launch(views.blocks_for(lines * team, THREADS), THREADS, (out,), (a,), tail)
