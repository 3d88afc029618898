"""The kernels of the contract as C loops, for standalone programs: plain, readable, one thread.

Each function here writes the body of one C function: it names its operands and puts lines. Sums are
taken in the type that values are computed in (reductions of float: in double).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...backend.c_elements import of_nothing
from ...backend.protocol import REDUCE
from ...backend.render.text import STORED, literal, rounded, suffix
from ...dtype import bool_, float32
from ..ir.graph import Operand
from . import networks as c_networks
from .body import CBody, index_names

if TYPE_CHECKING:
    from ...types import Scalar


def _elementwise(
    k: CBody, out: Operand, ins: Sequence[Operand | Scalar], value: Callable[..., str]
) -> None:
    """out = value(ins), element by element."""
    k.name(out, "out")
    for letter, x in zip("abc", ins, strict=False):
        if isinstance(x, Operand):
            k.name(x, letter)
    dtype = next((x.dtype for x in reversed(ins) if isinstance(x, Operand)), out.dtype)
    indices = index_names(len(out.shape))
    k.loops(indices, out.shape)
    result = value(*(k.read(x, indices, dtype) for x in ins))
    k.put(f"{k.at(out, indices)} = {result};")
    k.close(len(indices))


def _fill(k: CBody, out: Operand, value: Scalar) -> None:
    is_half = STORED[out.dtype] == "uint16_t"
    number = rounded(literal(value, float32), float32, out.dtype) if is_half else None
    _elementwise(k, out, (), lambda: number or literal(value, out.dtype))


def _copy(k: CBody, out: Operand, a: Operand) -> None:
    _elementwise(k, out, (a,), lambda x: rounded(x, a.dtype, out.dtype))


def _unary(k: CBody, name: str, out: Operand, a: Operand) -> None:
    _elementwise(k, out, (a,), lambda x: _stored(f"{name}_{suffix(a.dtype)}({x})", a, out))


def _binary(k: CBody, name: str, out: Operand, a: Any, b: Any) -> None:
    of = a if isinstance(a, Operand) else b
    call = f"{name}_{suffix(of.dtype)}"
    _elementwise(k, out, (a, b), lambda x, y: _stored(f"{call}({x}, {y})", of, out))


def _stored(value: str, of: Operand, out: Operand) -> str:
    """A function's value as it is stored: predicates give bool."""
    return value if out.dtype is bool_ else rounded(value, of.dtype, out.dtype)


def _where(k: CBody, out: Operand, cond: Operand, a: Operand, b: Operand) -> None:
    def value(c: str, x: str, y: str) -> str:
        return rounded(f"({c} ? {x} : {y})", a.dtype, out.dtype)

    _elementwise(k, out, (cond, a, b), value)


# Reductions --------------------------------------------------------------------------------------


def _reduce(k: CBody, name: str, out: Operand, a: Operand) -> None:
    k.name_all(out=out, a=a)
    indices = index_names(len(a.shape))
    kept = [d for d, n in enumerate(out.shape) if n != 1 or a.shape[d] == 1]
    over = [d for d in range(len(a.shape)) if d not in kept]
    is_total, total = REDUCE[name] == "total", out.dtype
    kind = "f64" if is_total and total.is_floating else suffix(total)
    k.loops([indices[d] for d in kept], [a.shape[d] for d in kept])
    first = ["0" if d in over else i for d, i in enumerate(indices)]
    k.put(f"{kind} total = {of_nothing(name, kind)};")
    k.loops([indices[d] for d in over], [a.shape[d] for d in over])
    x = k.read(a, indices, a.dtype)
    k.put(f"total = {name}_step_{kind}(total, {x if total is not bool_ else f'{x} != 0'});")
    k.close(len(over))
    k.write_total(out, first, "total", kind, total)
    k.close(len(kept))


def _arg_reduce(k: CBody, name: str, out: Operand, a: Operand, axis: int) -> None:
    k.name_all(out=out, a=a)
    indices = k.loops_beside(axis, a.shape)
    kind = suffix(a.dtype)
    k.put("i64 best = 0;")
    first = ["0" if d == axis else i for d, i in enumerate(indices)]
    k.put(f"{kind} most = {k.read(a, first, a.dtype)};")
    k.loop(indices[axis], a.shape[axis])
    k.put(f"const {kind} x = {k.read(a, indices, a.dtype)};")
    better = f"(x {'>' if name == 'argmax' else '<'} most || isnan_{kind}(x))"
    k.put(f"if (!isnan_{kind}(most) && {better}) {{ most = x; best = {indices[axis]}; }}")
    k.close()
    k.put(f"{k.at(out, first)} = best;")
    k.close(len(a.shape) - 1)


def _scan(k: CBody, name: str, out: Operand, a: Operand, axis: int) -> None:
    k.name_all(out=out, a=a)
    indices = k.loops_beside(axis, a.shape)
    kind = "f64" if out.dtype.is_floating else suffix(out.dtype)
    k.put(f"{kind} total = {'0' if name == 'cumsum' else '1'};")
    k.loop(indices[axis], a.shape[axis])
    step = f"{'sum' if name == 'cumsum' else 'prod'}_step_{kind}"
    k.put(f"total = {step}(total, {k.read(a, indices, a.dtype)});")
    k.write_total(out, indices, "total", kind, out.dtype)
    k.close(len(a.shape))


def _mix(
    k: CBody, out: Operand, a: Operand, starts: Operand, places: Operand, weights: Operand,
    axis: int,
) -> None:  # fmt: skip
    k.name_all(out=out, a=a, starts=starts, places=places, weights=weights)
    indices, kind = index_names(len(out.shape)), suffix(out.dtype)
    k.loops(indices, out.shape)
    j = indices[axis]
    first, last = k.at(starts, [j]), k.at(starts, [f"({j} + 1)"])
    k.put(f"{kind} sum = 0;")
    k.put(f"for (i64 e = {first}; e < {last}; ++e) {{")
    k.depth += 1
    source = [*indices[:axis], "place", *indices[axis + 1 :]]
    k.put(f"const i64 place = {k.at(places, ['e'])};")
    k.put(f"const {kind} term = {k.at(weights, ['e'])} * {k.at(a, source)};")
    k.put(f"sum = e == {first} ? term : sum + term;")
    k.close()
    k.put(f"{k.at(out, indices)} = sum;")
    k.close(len(indices))


# Indexing and order ------------------------------------------------------------------------------


def _index(k: CBody, indices: tuple[Operand, ...], lead: list[str], shape: Sequence[int]) -> None:
    """at0, at1, ...: the indices at a place; negative ones count from the end."""
    for n, index in enumerate(indices):
        k.put(f"i64 at{n} = {k.at(index, lead)};")
        k.put(f"at{n} = at{n} < 0 ? at{n} + {shape[n]} : at{n};")


def _gather(k: CBody, out: Operand, a: Operand, indices: tuple[Operand, ...]) -> None:
    """Indices outside an axis read the nearest element."""
    k.name_all(out=out, a=a, **{f"index{n}": x for n, x in enumerate(indices)})
    places = index_names(len(out.shape))
    lead = places[: len(places) - (len(a.shape) - len(indices))]
    k.loops(lead, out.shape[: len(lead)])
    _index(k, indices, lead, a.shape)
    for n in range(len(indices)):
        size = a.shape[n]
        k.put(f"at{n} = at{n} < 0 ? 0 : at{n} >= {size} ? {size - 1} : at{n};")
    k.loops(places[len(lead) :], out.shape[len(lead) :])
    found = k.at(a, [*(f"at{n}" for n in range(len(indices))), *places[len(lead) :]])
    k.put(f"{k.at(out, places)} = {found};")
    k.close(len(places))


def _scatter(k: CBody, name: str, out: Operand, indices: tuple[Operand, ...], a: Operand) -> None:
    """Indices outside an axis write nothing."""
    k.name_all(out=out, a=a, **{f"index{n}": x for n, x in enumerate(indices)})
    places = index_names(len(a.shape))
    lead = places[: len(places) - (len(out.shape) - len(indices))]
    k.loops(lead, a.shape[: len(lead)])
    _index(k, indices, lead, out.shape)
    outside = [f"at{n} < 0 || at{n} >= {out.shape[n]}" for n in range(len(indices))]
    k.put(f"if ({' || '.join(outside)}) {'continue' if lead else 'return'};")
    k.loops(places[len(lead) :], a.shape[len(lead) :])
    target = [*(f"at{n}" for n in range(len(indices))), *places[len(lead) :]]
    value = k.read(a, places, a.dtype)
    if name == "add":
        value = f"add_{suffix(a.dtype)}({k.read(out, target, a.dtype)}, {value})"
    k.write(out, target, value, a.dtype)
    k.close(len(places))


# Is x before y? NaN counts as the largest.
LESS = "({x} < {y} || (!isnan_{kind}({x}) && isnan_{kind}({y})))"


def _argsort(k: CBody, out: Operand, a: Operand, axis: int, descending: bool) -> None:
    """Merging sorted runs of 1, 2, 4, ... elements; equal ones keep their order."""
    k.name_all(out=out, a=a)
    indices = k.loops_beside(axis, a.shape)
    n = a.shape[axis]

    def element(place: str) -> str:
        return k.read(a, [*indices[:axis], f"order[now][{place}]", *indices[axis + 1 :]], a.dtype)

    k.put(f"static _Thread_local i64 order[2][{max(n, 1)}];")
    k.put("int now = 0;")
    k.put(f"for (i64 i = 0; i < {n}; ++i) order[0][i] = i;")
    k.put(f"for (i64 run = 1; run < {n}; run *= 2, now = !now) {{")
    k.depth += 1
    k.put(f"for (i64 i = 0, end = 0; i < {n};) {{")
    k.depth += 1
    k.put(f"const i64 middle = i + run < {n} ? i + run : {n};")
    k.put("i64 left = i, right = middle;")
    k.put(f"end = middle + run < {n} ? middle + run : {n};")
    k.put("for (; i < end; ++i) {")
    k.depth += 1
    k.put("int takes_right = left == middle;")
    k.put("if (left < middle && right < end) {")
    k.depth += 1
    kind = suffix(a.dtype)
    k.put(f"const {kind} x = {element('left')}, y = {element('right')};")
    x, y = ("x", "y") if descending else ("y", "x")
    k.put(f"takes_right = {LESS.format(x=x, y=y, kind=kind)};")
    k.close()
    k.put("order[!now][i] = takes_right ? order[now][right++] : order[now][left++];")
    k.close(3)
    k.loop(indices[axis], out.shape[axis])
    k.put(f"{k.at(out, indices)} = order[now][{indices[axis]}];")
    k.close(len(a.shape))


def _searchsorted(k: CBody, out: Operand, sorted_: Operand, values: Operand, right: bool) -> None:
    """By halving the part where the value may go."""
    k.name_all(out=out, sorted=sorted_, values=values)
    indices, kind = index_names(len(values.shape)), suffix(values.dtype)
    k.loops(indices, values.shape)
    k.put(f"const {kind} value = {k.read(values, indices, values.dtype)};")
    k.put(f"i64 low = 0, high = {sorted_.shape[0]};")
    k.put("while (low < high) {")
    k.depth += 1
    k.put("const i64 middle = (low + high) / 2;")
    k.put(f"const {kind} x = {k.read(sorted_, ['middle'], sorted_.dtype)};")
    x, y = ("value", "x") if right else ("x", "value")
    after = ("!" if right else "") + LESS.format(x=x, y=y, kind=kind)
    k.put(f"if ({after}) low = middle + 1; else high = middle;")
    k.close()
    k.put(f"{k.at(out, indices)} = low;")
    k.close(len(indices))


KERNELS: dict[str, Callable[..., None]] = {
    "fill": _fill, "copy": _copy, "unary": _unary, "binary": _binary, "where": _where,
    "reduce": _reduce, "arg_reduce": _arg_reduce, "scan": _scan, "mix": _mix,
    "gather": _gather, "scatter": _scatter, "argsort": _argsort, "searchsorted": _searchsorted,
    "matmul": c_networks.matmul, "conv": c_networks.conv,
    "conv_by_data": c_networks.conv_by_data, "attention": c_networks.attention,
    "recurrence": c_networks.recurrence,
}  # fmt: skip
