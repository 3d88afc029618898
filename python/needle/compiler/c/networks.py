"""Products, convolutions, attention and recurrent cells as C loops, for standalone programs."""

from __future__ import annotations

from ...backend.render.space import NotRendered
from ...backend.render.text import literal, suffix
from ...dtype import bool_, computed_in, float32, float64
from ..ir.graph import Operand
from .body import CBody, index_names, require_float, require_floating


def matmul(k: CBody, out: Operand, a: Operand, b: Operand) -> None:
    """A row of the result at a time: the innermost loop goes along memory."""
    if a.dtype not in (float32, float64):
        _matmul_apart(k, out, a, b)
        return
    k.name_all(out=out, a=a, b=b)
    batch = index_names(len(out.shape) - 2, "n")
    k.loops(batch, out.shape[:-2])
    k.loop("i", out.shape[-2])
    k.put(f"for (i64 j = 0; j < {out.shape[-1]}; ++j) {k.at(out, [*batch, 'i', 'j'])} = 0;")
    k.loop("k", a.shape[-1])
    k.put(f"const {suffix(a.dtype)} x = {k.at(a, [*batch, 'i', 'k'])};")
    k.put("EACH")
    k.loop("j", out.shape[-1])
    factor = k.read(b, [*batch, "k", "j"], a.dtype)
    k.put(f"{k.at(out, [*batch, 'i', 'j'])} += x * {factor};")
    k.close(3 + len(batch))


def _matmul_apart(k: CBody, out: Operand, a: Operand, b: Operand) -> None:
    """An element of the result at a time, whose sum is rounded once: halves are added up as floats,
    integers wrap around."""
    k.name_all(out=out, a=a, b=b)
    indices, kind = index_names(len(out.shape), "n"), suffix(out.dtype)
    *batch, i, j = indices
    k.loops(indices, out.shape)
    k.put(f"{kind} total = 0;")
    k.loop("k", a.shape[-1])
    x, y = k.read(a, [*batch, i, "k"], a.dtype), k.read(b, [*batch, "k", j], b.dtype)
    k.put(f"total = sum_step_{kind}(total, multiply_{kind}({x}, {y}));")
    k.close()
    k.write(out, indices, "total", out.dtype)
    k.close(len(indices))


def conv(
    k: CBody, out: Operand, x: Operand, w: Operand,
    stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...], groups: int,
) -> None:  # fmt: skip
    """Output p meets through tap t the input p * stride + t * dilation - padding."""
    require_floating(out, x, w)
    k.name_all(out=out, x=x, w=w)
    axes = len(stride)
    places, taps = index_names(axes, "p"), index_names(axes, "t")
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
    seen = k.read(x, ["n", *index_names(axes, "s"), channel], x.dtype)
    k.put(f"total += {seen} * {k.read(w, [*taps, 'c', 'o'], w.dtype)};")
    k.close(1 + axes)
    k.write(out, ["n", *places, "o"], "total", out.dtype)
    k.close(2 + axes)


def conv_by_data(
    k: CBody, out: Operand, y: Operand, w: Operand,
    stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...], groups: int,
) -> None:  # fmt: skip
    """Input s meets through tap t the output (s + padding - t * dilation) / stride, if whole."""
    require_floating(out, y, w)
    k.name_all(out=out, y=y, w=w)
    axes = len(stride)
    places, taps = index_names(axes, "s"), index_names(axes, "t")
    each, outputs = w.shape[-2], y.shape[-1] // groups
    k.loops(["n", *places, "c"], out.shape)
    k.put(f"{suffix(out.dtype)} total = 0;")
    k.loops(taps, w.shape[:axes])
    for d in range(axes):
        k.put(f"const i64 q{d} = s{d} + {padding[d]} - t{d} * {dilation[d]};")
        k.put(f"const i64 p{d} = q{d} / {stride[d]};")
    outside = [f"q{d} < 0 || q{d} % {stride[d]} || p{d} >= {y.shape[1 + d]}" for d in range(axes)]
    k.put(f"if ({' || '.join(outside)}) continue;")
    k.loop("o", outputs)
    channel = "o" if groups == 1 else f"(c / {each} * {outputs} + o)"
    given = k.read(y, ["n", *index_names(axes, "p"), channel], y.dtype)
    inside = "c" if groups == 1 else f"(c % {each})"
    k.put(f"total += {given} * {k.read(w, [*taps, inside, channel], w.dtype)};")
    k.close(1 + axes)
    k.write(out, ["n", *places, "c"], "total", out.dtype)
    k.close(2 + axes)


def attention(
    k: CBody, out: Operand, log_sums: Operand,
    q: Operand, key: Operand, v: Operand, mask: Operand | None, scale: float, causal: bool,
) -> None:  # fmt: skip
    """For each query: scores, their softmax, and the mean of values that it weighs."""
    require_floating(out, q, key, v)
    k.name_all(out=out, log_sums=log_sums, q=q, k=key, v=v, mask=mask)
    kind, of = suffix(q.dtype), computed_in(q.dtype)
    batch = index_names(len(out.shape) - 2, "n")
    length = f"t + 1 < {key.shape[-2]} ? t + 1 : {key.shape[-2]}" if causal else str(key.shape[-2])
    k.loops([*batch, "t"], out.shape[:-1])
    k.put(f"{kind} p[{max(key.shape[-2], 1)}], most = -INFINITY, sum = 0;")
    k.put(f"const i64 seen = {length};")
    k.loop("s", "seen")
    k.put(f"{kind} score = 0;")
    x, y = k.read(q, [*batch, "t", "d"], of), k.read(key, [*batch, "s", "d"], of)
    k.put(f"for (i64 d = 0; d < {q.shape[-1]}; ++d) score += {x} * {y};")
    k.put(f"score *= {literal(scale, of)};")
    if mask is not None:
        m = k.read(mask, [*batch, "t", "s"], of)
        k.put(f"if (!{m}) score = -INFINITY;" if mask.dtype is bool_ else f"score += {m};")
    k.put("p[s] = score;")
    k.put("if (score > most) most = score;")
    k.close()
    k.put(f"for (i64 s = 0; s < seen; ++s) p[s] = most > -INFINITY ? exp_{kind}(p[s] - most) : 0;")
    k.put("for (i64 s = 0; s < seen; ++s) sum += p[s];")
    k.loop("e", out.shape[-1])
    k.put(f"{kind} total = 0;")
    value = k.read(v, [*batch, "s", "e"], of)
    k.put(f"for (i64 s = 0; s < seen; ++s) total += p[s] * {value};")
    k.write(out, [*batch, "t", "e"], "(sum > 0 ? total / sum : 0)", of)
    k.close()
    k.write(log_sums, [*batch, "t", "0"], f"(sum > 0 ? most + log_{kind}(sum) : -INFINITY)", of)
    k.close(1 + len(batch))


class _Unit:
    """One unit u of one sample b at one step t: what the lines of a cell are made of."""

    def __init__(self, k: CBody, h: Operand, kept: Operand, x: Operand):
        self.k, self.h, self.kept, self.x = k, h, kept, x
        self.kind = suffix(h.dtype)

    def of(self, part: int) -> str:
        """The unit's place in a part of the gates."""
        return "u" if part == 0 else f"(u + {part * self.h.shape[-1]})"

    def gate(self, name: str, function: str, part: int) -> None:
        """A gate as a variable."""
        given = f"{self.given(part)} + s[{self.of(part)}]"
        self.k.put(f"const {self.kind} {name} = {function}_{self.kind}({given});")

    def given(self, part: int) -> str:
        """What the inputs add to a gate."""
        return self.k.at(self.x, ["t", "b", self.of(part)])

    def keep(self, *values: str) -> None:
        for part, value in enumerate(values):
            self.k.put(f"{self.k.at(self.kept, ['t', 'b', self.of(part)])} = {value};")

    def give(self, value: str) -> None:
        self.k.put(f"{self.k.at(self.h, ['t', 'b', 'u'])} = {value};")


def recurrence(
    k: CBody, cell: str, h: Operand, c_last: Operand | None, kept: Operand,
    x: Operand, h0: Operand, c0: Operand | None, w: Operand, bias: Operand | None,
) -> None:  # fmt: skip
    """For each step and sample: what the state adds to the gates, then the cell's arithmetic."""
    require_float(h, x, h0, w, bias)
    if 0 in h.shape:
        raise NotRendered("it has no steps")
    k.name_all(
        h=h, c_last=c_last, kept=kept if kept.size else None, x=x, h0=h0, c0=c0, w=w, bias=bias
    )
    width, kind = w.shape[-1], suffix(h.dtype)
    k.loops(["t", "b"], h.shape[:2])
    k.put(f"{kind} s[{width}];")
    first = k.at(bias, ["0", "j"]) if bias is not None else "0"
    k.put(f"for (i64 j = 0; j < {width}; ++j) s[j] = {first};")
    k.loop("i", h.shape[-1])
    before = f"t ? {k.at(h, ['(t - 1)', 'b', 'i'])} : {k.at(h0, ['b', 'i'])}"
    k.put(f"const {kind} state = {before};")
    k.put("EACH")
    k.put(f"for (i64 j = 0; j < {width}; ++j) s[j] += state * {k.at(w, ['i', 'j'])};")
    k.close()
    k.loop("u", h.shape[-1])
    unit = _Unit(k, h, kept, x)
    if cell == "lstm":
        assert c0 is not None and c_last is not None
        _lstm(unit, c0, c_last)
    elif cell == "gru":
        _gru(unit, h0)
    else:
        k.put(f"const {kind} sum = {unit.given(0)} + s[u];")
        unit.give(f"maximum_{kind}(sum, 0)" if cell == "relu" else f"tanh_{kind}(sum)")
    k.close(3)


def _lstm(unit: _Unit, c0: Operand, c_last: Operand) -> None:
    k, steps = unit.k, unit.h.shape[0]
    unit.gate("in", "sigmoid", 0)
    unit.gate("forget", "sigmoid", 1)
    unit.gate("new", "tanh", 2)
    unit.gate("out", "sigmoid", 3)
    former = f"t ? {k.at(unit.kept, ['(t - 1)', 'b', unit.of(4)])} : {k.at(c0, ['b', 'u'])}"
    k.put(f"const {unit.kind} c = forget * ({former}) + in * new;")
    unit.keep("in", "forget", "new", "out", "c")
    unit.give(f"out * tanh_{unit.kind}(c)")
    k.put(f"if (t == {steps - 1}) {k.at(c_last, ['b', 'u'])} = c;")


def _gru(unit: _Unit, h0: Operand) -> None:
    k = unit.k
    unit.gate("reset", "sigmoid", 0)
    unit.gate("stay", "sigmoid", 1)
    k.put(f"const {unit.kind} sum = s[{unit.of(2)}];")
    k.put(f"const {unit.kind} new = tanh_{unit.kind}({unit.given(2)} + reset * sum);")
    unit.keep("reset", "stay", "new", "sum")
    former = f"t ? {k.at(unit.h, ['(t - 1)', 'b', 'u'])} : {k.at(h0, ['b', 'u'])}"
    unit.give(f"new + stay * (({former}) - new)")
