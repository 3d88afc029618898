"""The contract's kernels for networks in NumPy: attention, recurrent cells, convolution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .protocol import Operand, Steps
from .storage import Array, accumulator, load, store


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def _scores(q: Operand, k: Operand, mask: Operand | None, scale: float, causal: bool) -> Array:
    a = load(q)
    s = np.matmul(a * a.dtype.type(scale), np.swapaxes(load(k), -1, -2))
    if mask is not None:
        m = load(mask)
        s = np.where(m, s, s.dtype.type(-np.inf)) if m.dtype == np.bool_ else s + m
    seen = np.tri(*s.shape[-2:], dtype=np.bool_) if causal else np.True_
    return np.asarray(np.where(seen, s, s.dtype.type(-np.inf)))


def _level(highest: Array) -> Array:
    """What is subtracted from scores before exp: 0 for a query that sees nothing."""
    return np.where(highest == -np.inf, highest.dtype.type(0), highest)


def attention(
    out: Operand, lse: Operand,
    q: Operand, k: Operand, v: Operand, mask: Operand | None, scale: float, causal: bool,
) -> None:  # fmt: skip
    with np.errstate(all="ignore"):
        s = _scores(q, k, mask, scale, causal)
        level = _level(s.max(-1, keepdims=True, initial=-np.inf))
        e = np.exp(s - level)
        total = e.sum(-1, keepdims=True)
        store(lse, np.log(total) + level)
        store(out, np.matmul(e, load(v)) / np.where(total == 0, total.dtype.type(1), total))


def attention_backward(
    dq: Operand, dk: Operand, dv: Operand, ds: Operand | None,
    q: Operand, k: Operand, v: Operand, mask: Operand | None,
    y: Operand, lse: Operand, g: Operand, g_log: Operand, scale: float, causal: bool,
) -> None:  # fmt: skip
    with np.errstate(all="ignore"):
        p = np.exp(_scores(q, k, mask, scale, causal) - _level(load(lse)))
        g_y = load(g)
        shift = (g_y * load(y)).sum(-1, keepdims=True) - load(g_log)
        adjoint = p * (np.matmul(g_y, np.swapaxes(load(v), -1, -2)) - shift)
        turned = np.swapaxes(adjoint, -1, -2)
        factor = p.dtype.type(scale)
        store(dq, np.matmul(adjoint, load(k)) * factor)
        store(dk, np.matmul(turned, load(q)) * factor)
        store(dv, np.matmul(np.swapaxes(p, -1, -2), g_y))
        if ds is not None:
            store(ds, adjoint)


def _rnn(activation: Any) -> Any:
    def step(x: Array, s: Array, h: Array, c: Any) -> tuple[Array, Any, list[Array]]:
        return activation(x + s), c, []

    return step


def _lstm(x: Array, s: Array, h: Array, c: Array) -> tuple[Array, Array, list[Array]]:
    a, b, d, e = np.split(x + s, 4, -1)
    i, f, g, o = sigmoid(a), sigmoid(b), np.tanh(d), sigmoid(e)
    c = f * c + i * g
    return o * np.tanh(c), c, [i, f, g, o, c]


def _gru(x: Array, s: Array, h: Array, c: object) -> tuple[Array, Any, list[Array]]:
    (x_r, x_z, x_n), (s_r, s_z, s_n) = np.split(x, 3, -1), np.split(s, 3, -1)
    r, z = sigmoid(x_r + s_r), sigmoid(x_z + s_z)
    n = np.tanh(x_n + r * s_n)
    return n + z * (h - n), c, [r, z, n, s_n]


CELLS: dict[str, Any] = {
    "tanh": _rnn(np.tanh),
    "relu": _rnn(lambda x: np.maximum(x, x.dtype.type(0))),
    "lstm": _lstm,
    "gru": _gru,
}


def recurrence(
    cell: str, h: Operand, c_last: Operand | None, kept: Operand,
    x: Operand, h0: Operand, c0: Operand | None, w: Operand, bias: Operand | None,
) -> None:  # fmt: skip
    gates, weights, state = load(x), load(w), load(h0)
    c = None if c0 is None else load(c0)
    states, keeps = [], []
    with np.errstate(all="ignore"):
        for t in range(h.shape[0]):
            s = np.matmul(state, weights) + (0 if bias is None else load(bias))
            state, c, keep = CELLS[cell](gates[t], s, state, c)
            states.append(state)
            keeps.append(keep)
    if states:
        store(h, np.stack(states))
    if keeps and keeps[0]:
        store(kept, np.stack([np.concatenate(keep, -1) for keep in keeps]))
    if c_last is not None:
        store(c_last, c)


# What a step adds to the adjoints, given dh (and dc) of its results. `d_gate` is the adjoint of x,
# `d_sum` of s = h w + bias (the same, but for a GRU), `direct` what h gets other than through s.

SLOPES: dict[str, Any] = {  # in terms of the result
    "tanh": lambda y: 1 - y * y,
    "relu": lambda y: (y > 0).astype(y.dtype),
}


def _lstm_backward(dh: Array, dc: Array, kept: Array, c_before: Array) -> tuple[Array, Array]:
    """d_gate, and dc of the step before."""
    i, f, g, o, c = np.split(kept, 5, -1)
    y = np.tanh(c)
    dc = dc + dh * o * (1 - y * y)
    blocks = [dc * g * i * (1 - i), dc * c_before * f * (1 - f)]
    blocks += [dc * i * (1 - g * g), dh * y * o * (1 - o)]
    return np.concatenate(blocks, -1), dc * f


def _gru_backward(dh: Array, kept: Array, before: Array) -> tuple[Array, Array, Array]:
    """d_gate, d_sum, direct."""
    r, z, n, s_n = np.split(kept, 4, -1)
    dn = dh * (1 - z) * (1 - n * n)
    blocks = [dn * s_n * r * (1 - r), dh * (before - n) * z * (1 - z)]
    d_gate, d_sum = (np.concatenate([*blocks, last], -1) for last in (dn, dn * r))
    return d_gate, d_sum, dh * z


def recurrence_backward(
    cell: str, dx: Operand, ds: Operand | None, dh0: Operand, dc0: Operand | None,
    h: Operand, kept: Operand, h0: Operand, c0: Operand | None, w: Operand,
    g_h: Operand, g_c: Operand | None,
) -> None:  # fmt: skip
    states, keeps, weights = load(h), load(kept), load(w)
    dh: Any = np.zeros_like(load(h0))
    dc: Any = None if g_c is None else load(g_c)
    d_gates, d_sums = [], []
    for t in reversed(range(h.shape[0])):
        dh = dh + load(g_h)[t]
        before = states[t - 1] if t > 0 else load(h0)
        direct: Any = 0
        if cell == "lstm":
            assert c0 is not None
            c_before = np.split(keeps[t - 1], 5, -1)[4] if t > 0 else load(c0)
            d_gate, dc = _lstm_backward(dh, dc, keeps[t], c_before)
            d_sum = d_gate
        elif cell == "gru":
            d_gate, d_sum, direct = _gru_backward(dh, keeps[t], before)
        else:
            d_gate = d_sum = dh * SLOPES[cell](states[t])
        d_gates.append(d_gate)
        d_sums.append(d_sum)
        dh = direct + np.matmul(d_sum, weights.T)
    store(dh0, dh)
    if d_gates:
        store(dx, np.stack(d_gates[::-1]))
    if d_sums and ds is not None:
        store(ds, np.stack(d_sums[::-1]))
    if dc0 is not None:
        store(dc0, dc)


# Convolution ------------------------------------------------------------------------------------


def _meetings(
    x: Array, y: Array, size: Steps, stride: Steps, padding: Steps, dilation: Steps
) -> Iterator[tuple[Steps, Array, Array]]:
    """(tap, the inputs that it sees, the outputs that see them), as views of (N, S..., G, C/G)."""
    for tap in np.ndindex(size):
        inputs, outputs = [slice(None)], [slice(None)]
        for d, k in enumerate(tap):
            shift = k * dilation[d] - padding[d]  # output p sees input p * stride + shift
            first = max(0, -(shift // stride[d]))
            stop = max(first, min(y.shape[1 + d], (x.shape[1 + d] - 1 - shift) // stride[d] + 1))
            begin = first * stride[d] + shift
            inputs.append(slice(begin, begin + (stop - first) * stride[d], stride[d]))
            outputs.append(slice(first, stop))
        seen, made = x[tuple(inputs)], y[tuple(outputs)]
        if seen.size and made.size:
            yield tap, seen, made


def _in_groups(array: Array, out: Operand, groups: int) -> Array:
    """(..., C) -> (..., G, C/G), in the type that out is summed up in"""
    shape = (*array.shape[:-1], groups, array.shape[-1] // groups)
    return array.astype(accumulator(out)["dtype"]).reshape(shape)


def conv(
    out: Operand, x: Operand, w: Operand,
    stride: Steps, padding: Steps, dilation: Steps, groups: int,
) -> None:  # fmt: skip
    data, filters, total = (
        _in_groups(a, out, groups) for a in (load(x), load(w), np.zeros(out.shape))
    )
    with np.errstate(all="ignore"):
        for tap, seen, made in _meetings(data, total, w.shape[:-2], stride, padding, dilation):
            made += np.einsum("...gc,cgo->...go", seen, filters[tap])
        store(out, total.reshape(out.shape))


def conv_by_data(
    out: Operand, y: Operand, w: Operand,
    stride: Steps, padding: Steps, dilation: Steps, groups: int,
) -> None:  # fmt: skip
    data, filters, total = (
        _in_groups(a, out, groups) for a in (load(y), load(w), np.zeros(out.shape))
    )
    with np.errstate(all="ignore"):
        for tap, seen, made in _meetings(total, data, w.shape[:-2], stride, padding, dilation):
            seen += np.einsum("...go,cgo->...gc", made, filters[tap])
        store(out, total.reshape(out.shape))


def conv_by_weight(
    out: Operand, x: Operand, y: Operand,
    stride: Steps, padding: Steps, dilation: Steps, groups: int,
) -> None:  # fmt: skip
    left, right, total = (
        _in_groups(a, out, groups) for a in (load(x), load(y), np.zeros(out.shape))
    )
    with np.errstate(all="ignore"):
        for tap, seen, made in _meetings(left, right, out.shape[:-2], stride, padding, dilation):
            rows, columns = (a.reshape(-1, *a.shape[-2:]) for a in (seen, made))
            total[tap] = np.einsum("pgc,pgo->cgo", rows, columns)
        store(out, total.reshape(out.shape))
