"""Attention and its adjoints: operands with axes in front, faces and sizes of the kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from ....dtype import bool_, widened
from ...protocol import Operand, Steps
from .. import views
from ..elementwise import STORED
from ..modules import kernel
from ..views import View

THREADS = 256
SIDE = {4: 64, 8: 32}  # of tiles, by the size of what sums are taken in


def attention(
    out: Operand, lse: Operand,
    q: Operand, k: Operand, v: Operand, mask: Operand | None, scale: float, causal: bool,
) -> None:  # fmt: skip
    operands = (out, lse, q, k, v, mask)
    shape = tuple(lse.shape[:-2])
    if not _fit(shape, operands):
        again = partial(attention, scale=scale, causal=causal)
        return views.through_compact(again, operands[:2], operands[2:])
    if 0 in lse.shape:
        return
    rank, tail = _space(shape, operands)
    tail += _faces(operands) + _sizes(q, k, v, scale, causal)
    call = kernel("attention", DTYPE=STORED[q.dtype], MASK=_kind(mask), RANK=rank)
    blocks = _blocks(shape, q.shape[-2], v.shape[-1], lse)
    call.launch(blocks, THREADS, (out, lse), (q, k, v, q if mask is None else mask), tail)


def attention_backward(
    dq: Operand, dk: Operand, dv: Operand, ds: Operand | None,
    q: Operand, k: Operand, v: Operand, mask: Operand | None,
    y: Operand, lse: Operand, g: Operand, g_log: Operand, scale: float, causal: bool,
) -> None:  # fmt: skip
    outs = (dq, dk, dv, ds)
    ins = (q, k, v, mask, y, lse, g, g_log)
    shape = tuple(dq.shape[:-2])
    if not _fit(shape, (*outs, *ins)):
        again = partial(attention_backward, scale=scale, causal=causal)
        return views.through_compact(again, outs, ins)
    if 0 in shape:
        return
    given = (q, k, v, mask, lse, _shift(shape, y, g, g_log), g)
    sizes = _sizes(q, k, v, scale, causal)
    for name, made, rows, columns in (
        ("attention_by_query", (dq, ds), q.shape[-2], q.shape[-1]),
        ("attention_by_key", (dk, dv), k.shape[-2], max(q.shape[-1], v.shape[-1])),
    ):
        operands = (*made, None, *given)
        rank, tail = _space(shape, operands)
        scores = {"SCORES": 1} if made[1] is ds and ds is not None else {}
        call = kernel(name, DTYPE=STORED[q.dtype], MASK=_kind(mask), RANK=rank, **scores)
        blocks = _blocks(shape, rows, columns, lse)
        present = [dq if o is None else o for o in operands]  # kernels do not look at what is None
        if blocks > 0:
            tail += _faces(operands) + sizes
            call.launch(blocks, THREADS, tuple(present[:3]), tuple(present[3:]), tail)


def _shift(shape: Steps, y: Operand, g: Operand, g_log: Operand) -> View:
    """Σ g y - g_log for every query."""
    rows = (*shape, y.shape[-2])
    shift = views.new((*rows, 1), widened(y.dtype))
    if 0 in shift.shape:
        return shift
    operands = (shift, g, y, g_log)
    strides = [views.broadcast_strides(o, (*rows, o.shape[-1]))[:-1] for o in operands]
    rank, tail = views.space(rows, strides)
    tail += views.members("2qI", g.strides[-1], y.strides[-1], y.shape[-1])
    call = kernel("attention_shift", DTYPE=STORED[y.dtype], RANK=rank)
    blocks = views.blocks_for(math.prod(rows), THREADS // 32)
    call.launch(blocks, THREADS, (shift,), (g, y, g_log), tail)
    return shift


def _kind(mask: Operand | None) -> str:
    if mask is None:
        return "NO_MASK"
    return "BOOL_MASK" if mask.dtype is bool_ else "NUMBER_MASK"


def _strides(shape: Steps, operands: Sequence[Operand | None]) -> list[Steps]:
    nowhere = (0,) * len(shape)
    return [nowhere if o is None else views.front(o, shape, 2) for o in operands]


def _fit(shape: Steps, operands: Sequence[Operand | None]) -> bool:
    return views.has_few_axes(shape, _strides(shape, operands))


def _space(shape: Steps, operands: Sequence[Operand | None]) -> tuple[int, bytes]:
    return views.space(shape, _strides(shape, operands))


def _faces(operands: Sequence[Operand | None]) -> bytes:
    """Strides along the last two axes; 0 where a mask has one row or column for all."""
    found = []
    for o in operands:
        shape, strides = ((1, 1), (0, 0)) if o is None else (o.shape[-2:], o.strides[-2:])
        found += [0 if n == 1 else stride for n, stride in zip(shape, strides, strict=True)]
    return views.members(f"{len(found)}q", *found)


def _sizes(q: Operand, k: Operand, v: Operand, scale: float, causal: bool) -> bytes:
    sizes = (q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1])
    return views.members("5Ifd", *sizes, int(causal), float(np.float32(scale)), scale)


def _blocks(shape: Steps, rows: int, columns: int, lse: Operand) -> int:
    side = SIDE[lse.dtype.itemsize]
    return -(-rows // side) * max(1, -(-columns // side)) * math.prod(shape)
