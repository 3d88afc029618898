"""Recurrent cells: one kernel for each step, and two for each step backwards."""

from __future__ import annotations

from ....dtype import widened
from ...protocol import Operand
from .. import views
from ..elementwise import STORED, copy, fill
from ..matmul import product
from ..modules import kernel
from ..views import View

GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}
ROWS = 32  # of a block of recurrence_step.cu
THREADS = 256


def recurrence(
    cell: str, h: Operand, c_last: Operand | None, kept: Operand,
    x: Operand, h0: Operand, c0: Operand | None, w: Operand, bias: Operand | None,
) -> None:  # fmt: skip
    steps, batch, size = h.shape
    states = [_carried(h0), views.new((batch, size), widened(h.dtype))]
    c = None if c0 is None else _carried(c0)
    call = kernel("recurrence_step", DTYPE=STORED[h.dtype], CELL=cell)
    units = 32 if GATES[cell] == 1 else 8
    blocks = -(-size // units) * -(-batch // ROWS)
    strides = (*h.strides[1:], *kept.strides[1:], *x.strides[1:], *w.strides)
    has_bias, bias = bias is not None, w if bias is None else bias
    tail = views.members("9q3I", *strides, bias.strides[1], batch, size, int(has_bias))
    for t in range(steps if blocks else 0):
        outs = (states[1], c or states[1], views.one_of(h, t), views.one_of(kept, t))
        call.launch(blocks, 64, outs, (states[0], views.one_of(x, t), w, bias), tail)
        states.reverse()
    if c_last is not None and c is not None:
        copy(c_last, c)


def recurrence_backward(
    cell: str, dx: Operand, ds: Operand | None, dh0: Operand, dc0: Operand | None,
    h: Operand, kept: Operand, h0: Operand, c0: Operand | None, w: Operand,
    g_h: Operand, g_c: Operand | None,
) -> None:  # fmt: skip
    steps, batch, size = h.shape
    sums = views.new((batch, GATES[cell] * size), widened(h.dtype))
    dh, dc = views.new((batch, size), sums.dtype), None if g_c is None else _carried(g_c)
    fill(dh, 0)
    weights = views.seen_as(w, (w.shape[1], w.shape[0]), (w.strides[1], w.strides[0]))
    call = kernel("recurrence_slopes", DTYPE=STORED[h.dtype], CELL=cell)
    for t in reversed(range(steps if batch * size else 0)):
        state: Operand = views.one_of(h, t)
        if cell == "gru":
            state = views.one_of(h, t - 1) if t > 0 else h0
        is_kept = c0 is not None and t > 0
        c_before = h0 if c0 is None else c0  # read by an LSTM only
        if is_kept:
            c_before = _part(views.one_of(kept, t - 1), 4, size)
        made = (dh, dc or dh, sums, views.one_of(dx, t), views.one_of(dx if ds is None else ds, t))
        read = (views.one_of(g_h, t), views.one_of(kept, t), state, c_before)
        strides = [s for o in (*made[3:], *read) for s in o.strides]
        tail = views.members("12q4I", *strides, batch, size, int(is_kept), int(ds is not None))
        call.launch(views.blocks_for(batch * size, THREADS), THREADS, made, read, tail)
        product(dh, sums, weights, adds=True)
    copy(dh0, dh)
    if dc0 is not None and dc is not None:
        copy(dc0, dc)


def _carried(a: Operand) -> View:
    """A copy of a state, in the type that it is carried in."""
    result = views.new(tuple(a.shape), widened(a.dtype))
    copy(result, a)
    return result


def _part(a: View, place: int, size: int) -> View:
    """Columns [place * size, (place + 1) * size) of a matrix."""
    return views.seen_as(a, (a.shape[0], size), a.strides, place * size * a.strides[1])
