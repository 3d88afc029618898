"""The kernels of the contract as C loops, for standalone programs: plain, readable, one thread.

Each function here writes the body of one C function: it names its operands and puts lines. Sums are
taken in the type that values are computed in (reductions of float: in double).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dtype import DType, bool_, float32, float64
from .c_source import STORED, literal, loaded, rounded, suffix
from .c_space import NotRendered
from .graph import Node, Operand


class Kernel:
    """The body of a C function, while it is written."""

    def __init__(self, node: Node):
        self.node = node
        self.operands: list[Operand] = []
        self.names: dict[int, str] = {}
        self.lines: list[str] = []
        self.depth = 1

    def name(self, x: Operand, name: str) -> None:
        """An operand as a parameter."""
        self.operands.append(x)
        self.names[id(x)] = name

    def put(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def loop(self, index: str, count: int) -> None:
        self.put(f"for (i64 {index} = 0; {index} < {count}; ++{index}) {{")
        self.depth += 1

    def loops(self, indices: Sequence[str], shape: Sequence[int]) -> None:
        for index, n in zip(indices, shape, strict=True):
            self.loop(index, n)

    def close(self, count: int = 1) -> None:
        for _ in range(count):
            self.depth -= 1
            self.put("}")

    def at(self, x: Operand, indices: Sequence[str]) -> str:
        """The element of an operand at indices of its last axes; an axis of size 1 has none."""
        own = indices[len(indices) - len(x.shape) :]
        terms = [
            f"{i} * {s}" if s != 1 else i
            for i, n, s in zip(own, x.shape, x.strides, strict=True)
            if n != 1 and s != 0 and i != "0"
        ]
        return f"{self.names[id(x)]}[{' + '.join(terms) or '0'}]"

    def read(self, x: Any, indices: Sequence[str], dtype: DType) -> str:
        """An element in the type that it is computed in; a number is written out."""
        if not isinstance(x, Operand):
            return literal(x, dtype)
        return loaded(self.at(x, indices), x.dtype)

    def write(self, out: Operand, indices: Sequence[str], value: str, dtype: DType) -> None:
        self.put(f"{self.at(out, indices)} = {rounded(value, dtype, out.dtype)};")


def _indices(count: int, letter: str = "i") -> list[str]:
    return [f"{letter}{d}" for d in range(count)]


def _elementwise(k: Kernel, out: Operand, ins: Sequence[Any], value: Callable[..., str]) -> None:
    """out = value(ins), element by element."""
    k.name(out, "out")
    for letter, x in zip("abc", ins, strict=False):
        if isinstance(x, Operand):
            k.name(x, letter)
    dtype = next((x.dtype for x in reversed(ins) if isinstance(x, Operand)), out.dtype)
    indices = _indices(len(out.shape))
    k.loops(indices, out.shape)
    result = value(*(k.read(x, indices, dtype) for x in ins))
    k.put(f"{k.at(out, indices)} = {result};")
    k.close(len(indices))


def _fill(k: Kernel, out: Operand, value: Any) -> None:
    _elementwise(k, out, (), lambda: literal(value, out.dtype))
    if STORED[out.dtype] == "uint16_t":
        raise NotRendered("half types are not filled")


def _copy(k: Kernel, out: Operand, a: Operand) -> None:
    _elementwise(k, out, (a,), lambda x: rounded(x, a.dtype, out.dtype))


def _unary(k: Kernel, name: str, out: Operand, a: Operand) -> None:
    _elementwise(k, out, (a,), lambda x: _stored(f"{name}_{suffix(a.dtype)}({x})", a, out))


def _binary(k: Kernel, name: str, out: Operand, a: Any, b: Any) -> None:
    of = a if isinstance(a, Operand) else b
    call = f"{name}_{suffix(of.dtype)}"
    _elementwise(k, out, (a, b), lambda x, y: _stored(f"{call}({x}, {y})", of, out))


def _stored(value: str, of: Operand, out: Operand) -> str:
    """A function's value as it is stored: predicates give bool."""
    return value if out.dtype is bool_ else rounded(value, of.dtype, out.dtype)


def _where(k: Kernel, out: Operand, cond: Operand, a: Operand, b: Operand) -> None:
    def value(c: str, x: str, y: str) -> str:
        return rounded(f"({c} ? {x} : {y})", a.dtype, out.dtype)

    _elementwise(k, out, (cond, a, b), value)


# Reductions --------------------------------------------------------------------------------------

REDUCTIONS = {
    "sum": ("0", "{t} += {x};"),
    "prod": ("1", "{t} *= {x};"),
    "max": (None, "if ({x} > {t} || {x} != {x}) {t} = {x};"),
    "min": (None, "if ({x} < {t} || {x} != {x}) {t} = {x};"),
    "any": ("0", "{t} |= {x} != 0;"),
    "all": ("1", "{t} &= {x} != 0;"),
}


def _reduce(k: Kernel, name: str, out: Operand, a: Operand) -> None:
    k.name(out, "out")
    k.name(a, "a")
    start, step = REDUCTIONS[name]
    indices = _indices(len(a.shape))
    kept = [d for d, n in enumerate(out.shape) if n != 1 or a.shape[d] == 1]
    over = [d for d in range(len(a.shape)) if d not in kept]
    is_sum = name in ("sum", "prod")
    total = out.dtype if name in ("sum", "prod", "any", "all") else a.dtype
    kind = "f64" if is_sum and total.is_floating else suffix(total)
    k.loops([indices[d] for d in kept], [a.shape[d] for d in kept])
    first = ["0" if d in over else i for d, i in enumerate(indices)]
    k.put(f"{kind} total = {start if start is not None else k.read(a, first, a.dtype)};")
    k.loops([indices[d] for d in over], [a.shape[d] for d in over])
    k.put(f"const {suffix(a.dtype)} x = {k.read(a, indices, a.dtype)};")
    k.put(step.format(t="total", x="x"))
    k.close(len(over))
    result = "total" if name not in ("any", "all") else "total != 0"
    k.write(out, first, result, float64 if kind == "f64" else total)
    k.close(len(kept))


def _arg_reduce(k: Kernel, name: str, out: Operand, a: Operand, axis: int) -> None:
    k.name(out, "out")
    k.name(a, "a")
    indices = _indices(len(a.shape))
    others = [d for d in range(len(a.shape)) if d != axis]
    k.loops([indices[d] for d in others], [a.shape[d] for d in others])
    k.put("i64 best = 0;")
    first = ["0" if d == axis else i for d, i in enumerate(indices)]
    k.put(f"{suffix(a.dtype)} most = {k.read(a, first, a.dtype)};")
    k.loop(indices[axis], a.shape[axis])
    k.put(f"const {suffix(a.dtype)} x = {k.read(a, indices, a.dtype)};")
    better = ">" if name == "argmax" else "<"
    k.put(
        f"if (most == most && (x {better} most || x != x)) {{ most = x; best = {indices[axis]}; }}"
    )
    k.close()
    k.put(f"{k.at(out, first)} = best;")
    k.close(len(others))


def _scan(k: Kernel, name: str, out: Operand, a: Operand, axis: int) -> None:
    k.name(out, "out")
    k.name(a, "a")
    indices = _indices(len(a.shape))
    others = [d for d in range(len(a.shape)) if d != axis]
    k.loops([indices[d] for d in others], [a.shape[d] for d in others])
    kind = "f64" if out.dtype.is_floating else suffix(out.dtype)
    k.put(f"{kind} total = {'0' if name == 'cumsum' else '1'};")
    k.loop(indices[axis], a.shape[axis])
    k.put(f"total {'+' if name == 'cumsum' else '*'}= {k.read(a, indices, a.dtype)};")
    k.write(out, indices, "total", float64 if kind == "f64" else out.dtype)
    k.close(1 + len(others))


# Products ----------------------------------------------------------------------------------------


def _require_float(*operands: Operand | None) -> None:
    if any(x is not None and x.dtype not in (float32, float64) for x in operands):
        raise NotRendered("only float32 and float64 have C")


def _matmul(k: Kernel, out: Operand, a: Operand, b: Operand) -> None:
    """A row of the result at a time: the innermost loop goes along memory."""
    _require_float(out, a, b)
    for x, name in zip((out, a, b), ("out", "a", "b"), strict=True):
        k.name(x, name)
    batch = _indices(len(out.shape) - 2, "n")
    k.loops(batch, out.shape[:-2])
    k.loop("i", out.shape[-2])
    k.put(f"for (i64 j = 0; j < {out.shape[-1]}; ++j) {k.at(out, [*batch, 'i', 'j'])} = 0;")
    k.loop("k", a.shape[-1])
    k.put(f"const {suffix(a.dtype)} x = {k.at(a, [*batch, 'i', 'k'])};")
    k.put("EACH")
    k.loop("j", out.shape[-1])
    k.put(f"{k.at(out, [*batch, 'i', 'j'])} += x * {k.at(b, [*batch, 'k', 'j'])};")
    k.close(3 + len(batch))


def _conv(
    k: Kernel, out: Operand, x: Operand, w: Operand,
    stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...], groups: int,
) -> None:  # fmt: skip
    """Output p meets through tap t the input p * stride + t * dilation - padding."""
    _require_float(out, x, w)
    for operand, name in zip((out, x, w), ("out", "x", "w"), strict=True):
        k.name(operand, name)
    axes = len(stride)
    places, taps = _indices(axes, "p"), _indices(axes, "t")
    inputs, each = out.shape[-1] // groups, w.shape[-2]
    k.loops(["n", *places, "o"], out.shape)
    k.put(f"{suffix(out.dtype)} total = 0;")
    k.loops(taps, w.shape[:axes])
    for d in range(axes):
        k.put(f"const i64 s{d} = p{d} * {stride[d]} + t{d} * {dilation[d]} - {padding[d]};")
    outside = [f"s{d} < 0 || s{d} >= {x.shape[1 + d]}" for d in range(axes)]
    k.put(f"if ({' || '.join(outside)}) continue;")
    k.loop("c", each)
    channel = "c" if groups == 1 else f"(o / {inputs} * {each} + c)"
    seen = k.at(x, ["n", *_indices(axes, "s"), channel])
    k.put(f"total += {seen} * {k.at(w, [*taps, 'c', 'o'])};")
    k.close(1 + axes)
    k.write(out, ["n", *places, "o"], "total", out.dtype)
    k.close(2 + axes)


def _attention(
    k: Kernel, out: Operand, log_sums: Operand,
    q: Operand, key: Operand, v: Operand, mask: Operand | None, scale: float, causal: bool,
) -> None:  # fmt: skip
    """For each query: scores, their softmax, and the mean of values that it weighs."""
    _require_float(out, q, key, v)
    names = ("out", "log_sums", "q", "k", "v", "mask")
    for x, name in zip((out, log_sums, q, key, v, mask), names, strict=True):
        if x is not None:
            k.name(x, name)
    kind, of = suffix(q.dtype), q.dtype
    batch = _indices(len(out.shape) - 2, "n")
    length = f"t + 1 < {key.shape[-2]} ? t + 1 : {key.shape[-2]}" if causal else str(key.shape[-2])
    k.loops([*batch, "t"], out.shape[:-1])
    k.put(f"{kind} p[{key.shape[-2]}], most = -INFINITY, sum = 0;")
    k.put(f"const i64 seen = {length};")
    k.loop("s", 0)
    k.lines[-1] = k.lines[-1].replace("s < 0", "s < seen")
    k.put(f"{kind} score = 0;")
    k.put(f"for (i64 d = 0; d < {q.shape[-1]}; ++d) score += {k.at(q, [*batch, 't', 'd'])} * "
          f"{k.at(key, [*batch, 's', 'd'])};")  # fmt: skip
    k.put(f"score *= {literal(scale, of)};")
    if mask is not None:
        m = k.at(mask, [*batch, "t", "s"])
        k.put(f"if (!{m}) score = -INFINITY;" if mask.dtype is bool_ else f"score += {m};")
    k.put("p[s] = score;")
    k.put("if (score > most) most = score;")
    k.close()
    k.put(f"for (i64 s = 0; s < seen; ++s) p[s] = most > -INFINITY ? exp_{kind}(p[s] - most) : 0;")
    k.put("for (i64 s = 0; s < seen; ++s) sum += p[s];")
    k.loop("e", out.shape[-1])
    k.put(f"{kind} total = 0;")
    k.put(f"for (i64 s = 0; s < seen; ++s) total += p[s] * {k.at(v, [*batch, 's', 'e'])};")
    k.write(out, [*batch, "t", "e"], "(sum > 0 ? total / sum : 0)", of)
    k.close()
    k.write(log_sums, [*batch, "t", "0"], f"(sum > 0 ? most + log_{kind}(sum) : -INFINITY)", of)
    k.close(1 + len(batch))


# Indexing ----------------------------------------------------------------------------------------


def _gather(k: Kernel, out: Operand, a: Operand, indices: tuple[Operand, ...]) -> None:
    """Negative indices count from the end; others outside an axis read the nearest element."""
    k.name(out, "out")
    k.name(a, "a")
    for n, index in enumerate(indices):
        k.name(index, f"index{n}")
    rest = len(a.shape) - len(indices)
    places = _indices(len(out.shape))
    lead = places[: len(places) - rest]
    k.loops(lead, out.shape[: len(lead)])
    for n, index in enumerate(indices):
        size = a.shape[n]
        k.put(f"i64 at{n} = {k.at(index, lead)};")
        k.put(f"at{n} = at{n} < 0 ? at{n} + {size} : at{n};")
        k.put(f"at{n} = at{n} < 0 ? 0 : at{n} >= {size} ? {size - 1} : at{n};")
    k.loops(places[len(lead) :], out.shape[len(lead) :])
    found = k.at(a, [*(f"at{n}" for n in range(len(indices))), *places[len(lead) :]])
    k.put(f"{k.at(out, places)} = {found};")
    k.close(len(places))


KERNELS: dict[str, Callable[..., None]] = {
    "fill": _fill, "copy": _copy, "unary": _unary, "binary": _binary, "where": _where,
    "reduce": _reduce, "arg_reduce": _arg_reduce, "scan": _scan,
    "matmul": _matmul, "conv": _conv, "attention": _attention, "gather": _gather,
}  # fmt: skip
