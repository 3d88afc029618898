"""Array functions over sequences: attention, recurrent cells, and their adjoints."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from ...dtype import floating, promote, widened
from .. import layout
from ..array import NDArray, empty, empty_strided, make_view
from ..functions import array_function, cast, reshape, same_device
from ..layout import Shape


def _empty_like(shape: Shape, a: NDArray) -> NDArray:
    """A new dense array with its axes in the order of a's in memory (a may be broadcast to it)."""
    if len(shape) != a.ndim or a.is_row_major():
        return empty(shape, a.dtype, a.device)
    return empty_strided(shape, layout.strides_in_order(shape, a.strides), a.dtype, a.device)


def _in_one_dtype(
    q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None
) -> tuple[NDArray, NDArray, NDArray, NDArray | None]:
    dtype = floating(promote(promote(q.dtype, k.dtype), v.dtype))
    if mask is not None and mask.dtype != "bool":
        mask = cast(mask, widened(dtype))
    return cast(q, dtype), cast(k, dtype), cast(v, dtype), mask


@array_function
def attention(
    q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None, scale: float, causal: bool
) -> tuple[NDArray, NDArray]:
    """softmax(q kᵀ scale + mask) v (..., T, E), and ln Σ e^s (..., T, 1) in the dtype of sums."""
    device = same_device("attention", q, k, v, *([] if mask is None else [mask]))
    q, k, v, mask = _in_one_dtype(q, k, v, mask)
    fronts = [x.shape[:-2] for x in (q, k, v, mask) if x is not None]
    front = layout.broadcast_shapes("attention", *fronts)
    out = _empty_like((*front, q.shape[-2], v.shape[-1]), q)
    lse = empty((*front, q.shape[-2], 1), widened(q.dtype), device)
    device.mod.attention(out, lse, q, k, v, mask, scale, causal)
    return out, lse


@array_function
def attention_backward(
    inputs: tuple[NDArray, NDArray, NDArray, NDArray | None],
    results: tuple[NDArray, NDArray],
    adjoints: tuple[NDArray, NDArray],
    scale: float,
    causal: bool,
    with_mask: bool,
) -> tuple[NDArray, ...]:
    """The adjoints of q, k, v (and of the scores), given those of both results.

    All have the results' axes in front: of what was broadcast, the sum over them is the adjoint."""
    q, k, v, mask = _in_one_dtype(*inputs)
    y, lse = results
    front, device = y.shape[:-2], y.device
    outs = [_empty_like((*front, *x.shape[-2:]), x) for x in (q, k, v)]
    ds = None
    if with_mask:
        ds = empty((*front, q.shape[-2], k.shape[-2]), lse.dtype, device)
    g, g_log = cast(adjoints[0], q.dtype), cast(adjoints[1], lse.dtype)
    operands = (*outs, ds, q, k, v, mask, y, lse, g, g_log)
    device.mod.attention_backward(*operands, scale, causal)
    return (*outs, ds) if ds is not None else tuple(outs)


class RecurrentCell(NamedTuple):
    """How many blocks of the hidden size a recurrent cell has."""

    gates: int
    kept: int  # for backward
    has_c: bool = False  # a second state
    splits: bool = False  # inputs and state meet other than by a sum


CELLS = {
    "tanh": RecurrentCell(1, 0),
    "relu": RecurrentCell(1, 0),
    "lstm": RecurrentCell(4, 5, has_c=True),
    "gru": RecurrentCell(3, 4, splits=True),
}


@array_function
def recurrence(
    cell: str, x: NDArray, h0: NDArray, w: NDArray, c0: NDArray | None, bias: NDArray | None
) -> tuple[NDArray, ...]:
    """h (T, B, H), the last c (B, H) of an LSTM, and what backward needs: the states before each
    step (T, B, H), in the same memory as h, and more (T, B, K H)."""
    info = CELLS[cell]
    inputs = [a for a in (x, h0, w, c0, bias) if a is not None]
    device = same_device("recurrence", *inputs)
    dtype = floating(reduce(promote, (a.dtype for a in inputs)))
    x, h0, w = cast(x, dtype), cast(h0, dtype), cast(w, dtype)
    steps, batch, size = x.shape[0], x.shape[1], w.shape[0]
    states = empty((steps + 1, batch, size), dtype, device)
    first = make_view((batch, size), states.strides[1:], 0, dtype, device, states._handle)
    device.mod.copy(first, h0)
    before, h = (
        make_view((steps, batch, size), states.strides, start, dtype, device, states._handle)
        for start in (0, batch * size)
    )
    kept = empty((steps, batch, info.kept * size), widened(dtype), device)
    c_last = empty((batch, size), dtype, device) if info.has_c else None
    if c0 is not None:
        c0 = cast(c0, dtype)
    if bias is not None:
        bias = reshape(cast(bias, dtype), (1, info.gates * size))
    device.mod.recurrence(cell, h, c_last, kept, x, first, c0, w, bias)
    return (h, before, kept) if c_last is None else (h, c_last, before, kept)


@array_function
def recurrence_backward(
    cell: str,
    inputs: tuple[NDArray, NDArray, NDArray | None],
    results: tuple[NDArray, NDArray],
    adjoints: tuple[NDArray, NDArray | None],
) -> tuple[NDArray, NDArray, NDArray, NDArray | None]:
    """The adjoints of x, of what the state adds to the gates (x's own where it is the same), of h0
    and of c0; inputs are h0, w and c0, results h and kept."""
    info, (h, kept), (g_h, g_c) = CELLS[cell], results, adjoints
    dtype, device = h.dtype, h.device
    h0, w, c0 = (None if a is None else cast(a, dtype) for a in inputs)
    steps, batch, size = h.shape
    dx = empty((steps, batch, info.gates * size), dtype, device)
    ds = empty(dx.shape, dtype, device) if info.splits else None
    dh0 = empty((batch, size), dtype, device)
    dc0 = empty((batch, size), dtype, device) if info.has_c else None
    g_h, g_c = cast(g_h, dtype), None if g_c is None else cast(g_c, dtype)
    device.mod.recurrence_backward(cell, dx, ds, dh0, dc0, h, kept, h0, c0, w, g_h, g_c)
    return dx, dx if ds is None else ds, dh0, dc0
