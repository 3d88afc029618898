"""Attention without the matrix of scores: tiles of it, and a softmax that is mended on the way.

q (..., T, D), k (..., S, D), v (..., S, E): out (..., T, E); the axes in front broadcast. The
largest score and the sum of each row are kept while the tiles of a row are visited (Milakov &
Gimelshein, 2018; Dao et al., 2022); backward computes the tiles again from the rows' logarithms of
sums. Memory is that of a few tiles, whatever T and S are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ..autograd import Tensor, TensorTuple, TensorTupleOp
from ..dtype import dtype_of
from ..graph import enable_grad, is_grad_enabled, propagate
from ..ndarray import functions as F, layout, select
from .common import check_tensor, fit
from .compare import isfinite, where
from .movement import Reshape
from .reduce import accumulator
from .softmax import logsumexp, softmax

KEYS = 512  # of one tile: wide enough that the products run at full speed
SCORES = 1 << 20  # of one tile over all heads: 4 MB, about a core's second-level cache
Span = tuple[int, int]


class Tiles:
    """The spans of queries and keys; with `causal`, query i sees the keys up to i."""

    def __init__(self, queries: int, keys: int, heads: int, causal: bool):
        self.queries, self.keys, self.causal = queries, keys, causal
        self.width = max(1, min(keys, KEYS))
        self.height = max(1, min(queries, max(32, SCORES // (self.width * max(heads, 1)))))

    def rows(self) -> Iterator[Span]:
        """Spans of queries."""
        for start in range(0, max(self.queries, 1), self.height):
            yield start, min(start + self.height, self.queries)

    def columns(self, row: Span) -> Iterator[Span]:
        """Spans of keys that some query of the row sees."""
        seen = min(self.keys, row[1]) if self.causal else self.keys
        for start in range(0, max(seen, 1), self.width):
            yield start, min(start + self.width, seen)


def _part(a: Any, span: Span, axis: int) -> Any:
    """a[..., start:stop, ...] on an axis from the end; all of an axis that is broadcast."""
    if a.shape[axis] == 1:
        return a
    return select.getitem(a, (..., slice(*span), *(slice(None),) * (-axis - 1)))


def _turned(a: Any) -> Any:
    """The last two axes swapped."""
    n = len(a.shape)
    return F.permute(a, (*range(n - 2), n - 1, n - 2))


def _summed(a: Any, shape: Sequence[int]) -> Any:
    """a summed over the axes along which `shape` was broadcast."""
    extra = len(a.shape) - len(shape)
    stretched = [i + extra for i, n in enumerate(shape) if n == 1 and a.shape[i + extra] != 1]
    axes = (*range(extra), *stretched)
    return F.reshape(F.reduce("sum", a, axes, True), shape) if axes else a


class _Scores:
    """The tiles of s = q kᵀ · scale + mask, -inf where a query does not see a key."""

    def __init__(self, q: Any, k: Any, mask: Any, scale: float, causal: bool):
        self.dtype = accumulator(q.dtype)
        self.q = F.binary("multiply", F.cast(q, self.dtype), scale)
        self.k = F.cast(k, self.dtype)
        self.mask = mask
        batch = layout.broadcast_shapes("attention", q.shape[:-2], k.shape[:-2])
        self.tiles = Tiles(q.shape[-2], k.shape[-2], F.size_of(batch), causal)

    def tile(self, row: Span, column: Span) -> Any:
        s = F.matmul(_part(self.q, row, -2), _turned(_part(self.k, column, -2)))
        if self.mask is not None:
            mask = _part(_part(self.mask, row, -2), column, -1)
            if mask.dtype == "bool":
                s = F.where(mask, s, F.full_like(s, -math.inf, shape=()))
            else:
                s = F.binary("add", s, F.cast(mask, self.dtype))
        if self.tiles.causal and column[1] - 1 > row[0]:
            ones = F.full_like(s, 1, "bool", shape=s.shape[-2:])
            kept = F.triangle(ones, row[0] - column[0], False)
            s = F.where(kept, s, F.full_like(s, -math.inf, shape=()))
        return s


def _finite(a: Any) -> Any:
    """0 instead of the -inf of a row in which a query sees nothing."""
    return F.where(F.unary("isfinite", a), a, F.full_like(a, 0, shape=()))


class Attention(TensorTupleOp):
    """(y, l) with y = p v,  p = softmax(s) over keys,  s = q kᵀ · scale + mask,  l = ln Σ e^s

    The mask is added, or (bool) says which keys are seen; a query that sees none gets 0. Equals
    `attention_by_definition`, without keeping s or p."""

    def __init__(self, scale: float, causal: bool):
        self.scale = scale
        self.causal = causal

    def compute(self, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        scores = _Scores(q, k, mask, self.scale, self.causal)
        values = F.cast(v, scores.dtype)
        rows = [_row(scores, values, row) for row in scores.tiles.rows()]
        out, log_sums = (
            r[0] if len(r) == 1 else F.concatenate(r, -2) for r in zip(*rows, strict=True)
        )
        return F.cast(out, q.dtype), log_sums

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Any:
        out, log_sums = node.tuple()
        g, g_log = out_grad.tuple()
        q, k, v, *mask = node.inputs
        op = AttentionGradient(self.scale, self.causal, bool(mask and mask[0].requires_grad))
        found = op(q, k, v, out, log_sums, g, g_log, *mask).tuple()
        return found if len(found) == len(node.inputs) else (*found, None)


def _row(scores: _Scores, v: Any, row: Span) -> tuple[Any, Any]:
    """The result for a span of queries, and the logarithm of their sums."""
    top: Any = None
    total: Any = None
    out: Any = None
    for column in scores.tiles.columns(row):
        s = scores.tile(row, column)
        highest = F.reduce("max", s, -1, True)
        new = highest if top is None else F.binary("maximum", top, highest)
        level = new if scores.mask is None else _finite(new)
        p = F.unary("exp", F.binary("subtract", s, level))
        part, product = F.reduce("sum", p, -1, True), F.matmul(p, _part(v, column, -2))
        if total is not None:
            shrink = F.unary("exp", F.binary("subtract", top, level))
            part = F.binary("add", F.binary("multiply", total, shrink), part)
            product = F.binary("add", F.binary("multiply", out, shrink), product)
        top, total, out = new, part, product
    level = top if scores.mask is None else _finite(top)
    log_sum = F.binary("add", F.unary("log", total), level)
    if scores.mask is not None:
        total = F.where(F.binary("equal", total, 0), F.full_like(total, 1, shape=()), total)
    return F.binary("divide", out, total), log_sum


class AttentionGradient(TensorTupleOp):
    """The adjoints of q, k, v (and the mask), tile by tile, given those of y and l

    dv = pᵀ g,  ds = p (g vᵀ - Σ g y + g_l),  dq = ds k · scale,  dk = dsᵀ q · scale

    y and l are functions of the others: the gradient of this gradient, by the composite, is in
    terms of q, k, v, the mask and the adjoints."""

    def __init__(self, scale: float, causal: bool, with_mask: bool):
        self.scale = scale
        self.causal = causal
        self.with_mask = with_mask

    def compute(
        self, q: Any, k: Any, v: Any, out: Any, log_sums: Any, g: Any, g_log: Any, mask: Any = None
    ) -> Any:
        scores = _Scores(q, k, mask, self.scale, self.causal)
        dtype = scores.dtype
        v32, g32 = F.cast(v, dtype), F.cast(g, dtype)
        products = F.binary("multiply", g32, F.cast(out, dtype))
        shift = F.binary("subtract", F.reduce("sum", products, -1, True), g_log)
        level = log_sums if mask is None else _finite(log_sums)
        found = _Gradients(q.shape, k.shape, v.shape, None if mask is None else mask.shape)
        for row in scores.tiles.rows():
            g_row, q_row = _part(g32, row, -2), _part(scores.q, row, -2)
            for column in scores.tiles.columns(row):
                s = scores.tile(row, column)
                p = F.unary("exp", F.binary("subtract", s, _part(level, row, -2)))
                dp = F.matmul(g_row, _turned(_part(v32, column, -2)))
                ds = F.binary("multiply", p, F.binary("subtract", dp, _part(shift, row, -2)))
                found.add("v", column, F.matmul(_turned(p), g_row))
                found.add("q", row, F.matmul(ds, _part(scores.k, column, -2)))
                found.add("k", column, F.matmul(_turned(ds), q_row))
                if self.with_mask:
                    found.add_mask(row, column, ds)
        dq = F.binary("multiply", found.whole("q"), self.scale)
        results = [F.cast(dq, q.dtype), F.cast(found.whole("k"), k.dtype)]
        results.append(F.cast(found.whole("v"), v.dtype))
        if self.with_mask:
            results.append(F.cast(found.whole_mask(), mask.dtype))
        return tuple(results)

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Any:
        q, k, v, _, _, g, g_log, *mask = node.inputs
        sources = (q, k, v, g, g_log, *mask)
        with enable_grad():
            stand_ins = [_stand_in(x) for x in sources]
            outputs = self.by_definition(*stand_ins)
        found: dict[int, Any] = {}

        def store(value: Any, adjoint: Any) -> None:
            found[id(value)] = adjoint

        targets = [x for x in stand_ins if x.requires_grad]
        propagate(outputs, out_grad.tuple(), store, create_graph=is_grad_enabled(), targets=targets)
        dq, dk, dv, dg, dg_log, *d_mask = (found.get(id(x)) for x in stand_ins)
        return (dq, dk, dv, None, None, dg, dg_log, *d_mask)

    def by_definition(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, g_log: Tensor, *mask: Tensor
    ) -> list[Tensor]:
        """The same adjoints as operators on the whole matrix of scores."""
        y, _, p = attention_by_definition(q, k, v, *mask, scale=self.scale, causal=self.causal)
        ds = p * (g @ v.transpose() - (g * y).sum(-1, keepdims=True) + g_log)
        dq, dk = ds @ k * self.scale, ds.transpose() @ q * self.scale
        adjoints = [fit(dq, q), fit(dk, k), fit(p.transpose() @ g, v)]
        return [*adjoints, fit(ds, mask[0])] if self.with_mask else adjoints


class _Gradients:
    """Adjoints collected tile by tile: the sum over the tiles that start at the same place."""

    def __init__(self, q: Sequence[int], k: Sequence[int], v: Sequence[int], mask: Any):
        self.shapes = {"q": q, "k": k, "v": v}
        self.parts: dict[str, dict[int, Any]] = {"q": {}, "k": {}, "v": {}}
        self.mask_shape = mask
        self.mask_rows: dict[int, dict[int, Any]] = {}

    def add(self, name: str, span: Span, part: Any) -> None:
        """A part of dq, dk or dv."""
        shape = self.shapes[name]
        part = _summed(part, (*shape[:-2], span[1] - span[0], shape[-1]))
        _accumulate(self.parts[name], span[0], part, -2)

    def whole(self, name: str) -> Any:
        """All of dq, dk or dv."""
        return _joined(self.parts[name], self.shapes[name][-2], -2)

    def add_mask(self, row: Span, column: Span, ds: Any) -> None:
        """The mask may be one row or one column for all."""
        one_row, one_column = (n == 1 for n in self.mask_shape[-2:])
        row, column = (0, 1) if one_row else row, (0, 1) if one_column else column
        shape = (*self.mask_shape[:-2], row[1] - row[0], column[1] - column[0])
        line = self.mask_rows.setdefault(row[0], {})
        _accumulate(line, column[0], _summed(ds, shape), -1)

    def whole_mask(self) -> Any:
        """All of the mask's adjoint."""
        height, width = self.mask_shape[-2:]
        lines = {row: _joined(line, width, -1) for row, line in self.mask_rows.items()}
        return _joined(lines, height, -2)


def _accumulate(parts: dict[int, Any], start: int, part: Any, axis: int) -> None:
    """Add a part that may be longer or shorter than what is there: causal tiles end early."""
    if start in parts:
        length = max(parts[start].shape[axis], part.shape[axis])
        part = F.binary("add", _padded(parts[start], length, axis), _padded(part, length, axis))
    parts[start] = part


def _joined(parts: dict[int, Any], length: int, axis: int) -> Any:
    """The parts in order; zeros for the keys at the end that no query sees."""
    ordered = [parts[start] for start in sorted(parts)]
    whole = ordered[0] if len(ordered) == 1 else F.concatenate(ordered, axis)
    return _padded(whole, length, axis)


def _padded(a: Any, length: int, axis: int) -> Any:
    """Zeros at the end of an axis (counted from the end) up to a length."""
    missing = length - a.shape[axis]
    if not missing:
        return a
    place = len(a.shape) + axis
    return F.pad(a, [(0, missing) if i == place else (0, 0) for i in range(len(a.shape))])


def _stand_in(x: Tensor) -> Tensor:
    """A node of its own with x's data and history: inputs may be one and the same tensor."""
    if not dtype_of(x.dtype).is_floating:
        return x
    node = Reshape(x.shape)(x)
    node.requires_grad = True
    return node


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, causal: bool
) -> Tensor:
    """softmax(q kᵀ scale + mask) v, without the matrix of scores."""
    inputs = [check_tensor("attention", x) for x in (q, k, v)]
    if mask is not None:
        inputs.append(mask if mask.dtype != "bool" else mask.detach())
    out: Tensor = Attention(scale, causal)(*inputs)[0]
    return out


def attention_by_definition(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float,
    causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The composite that `Attention` equals: the result, ln Σ e^s, and the probabilities."""
    s = q @ k.transpose() * scale
    never = -math.inf
    if mask is not None:
        s = where(mask, s, never) if mask.dtype == "bool" else s + mask
    if causal:
        ones: Tensor = Tensor.make_const(F.full(s.shape[-2:], True, "bool", s.device))
        s = where(ones.tril(), s, never)
    log_sums = logsumexp(s, -1, keepdims=True)
    if mask is None:
        p = softmax(s, -1)
    else:
        sees = isfinite(log_sums)
        p = where(sees, softmax(where(sees, s, 0.0), -1), 0.0)
    return p @ v, log_sums, p
