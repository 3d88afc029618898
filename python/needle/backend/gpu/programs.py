"""Tile programs as CUDA C: one kernel per program and number of axes, for operands of any shape.

An elementwise program is one loop body. A program with rows has a team of threads for each row,
which passes over it once per phase; full values of earlier phases are computed again, since they
cost less than memory, and stored in the last pass, since an output may be an input's memory. What
is summed down columns has a kernel of its own: a thread for each column, which reads what is known
of the rows from memory that a first pass over the rows has filled.

A value of instruction n is v<n>, in the type that its dtype is computed in. The functions that the
text uses are those of native/cuda/kernels.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...dtype import DType, bool_, float32, float64, int32
from ..protocol import BINARY, ROW_REDUCTIONS, UNARY, Scalar
from .elementwise import STORED

if TYPE_CHECKING:
    from ...tile.ir import Instruction, TypedProgram

SCALAR, ROW, FULL, COLUMN = "scalar", "row", "full", "column"
_COMPUTED = {"float16": "f32", "bfloat16": "f32", "int8": "i32", "int16": "i32", "uint8": "i32",
             "bool": "b8"}  # fmt: skip


def computed(dtype: DType) -> str:
    """The C type that values of a dtype are computed in."""
    return _COMPUTED.get(dtype, STORED[dtype])


def computed_dtype(dtype: DType) -> DType:
    """The dtype of that C type."""
    return {"f32": float32, "i32": int32}.get(computed(dtype), dtype)


@dataclass(frozen=True)
class Code:
    """A program, or a part of one: `operands` are the dtypes of what it stores, then loads; the
    `detail` of loads and stores counts each of these apart."""

    name: str
    instructions: tuple[Instruction, ...]
    dtypes: tuple[DType, ...]
    outs: tuple[DType, ...]
    ins: tuple[DType, ...]

    def stores(self, *kinds: str) -> list[int]:
        return [n for n, i in enumerate(self.instructions) if i.name == "store" and i.kind in kinds]

    def needed(self, wanted: Iterable[int]) -> list[int]:
        """These instructions and all that they use, in order."""
        found, unread = set(), list(wanted)
        while unread:
            n = unread.pop()
            if n not in found:
                found.add(n)
                unread += self.instructions[n].args
        return sorted(found)

    @property
    def is_random(self) -> bool:
        return any(i.name == "random" for i in self.instructions)

    def part(self, name: str, stores: Sequence[int]) -> Code:
        """The program with these stores alone, which it counts from 0."""
        kept, outs = list(self.instructions), list[DType]()
        for n, i in enumerate(self.instructions):
            if i.name == "store" and n in stores:
                kept[n] = replace(i, detail=len(outs))
                outs.append(self.outs[i.detail])
            elif i.name == "store":
                kept[n] = replace(i, name="unused")
        return replace(self, name=f"{self.name}_{name}", instructions=tuple(kept), outs=tuple(outs))

    def storing(self, values: Sequence[int]) -> Code:
        """The program that stores these row values, as they are computed, and nothing else."""
        stores = [
            replace(self.instructions[n], name="store", args=(n,), kind=ROW, detail=k)
            for k, n in enumerate(values)
        ]
        known = [replace(i, name="unused") if i.name == "store" else i for i in self.instructions]
        outs = tuple(computed_dtype(self.dtypes[n]) for n in values)
        return Code(
            f"{self.name}_of_rows", (*known, *stores), (*self.dtypes, *outs), outs, self.ins
        )

    def loading(self, values: Sequence[int]) -> Code:
        """The program that loads these row values, after all other inputs."""
        known, ins = list(self.instructions), list(self.ins)
        for n in values:
            known[n] = replace(known[n], name="load", args=(), kind=ROW, detail=len(ins))
            ins.append(computed_dtype(self.dtypes[n]))
        return replace(self, instructions=tuple(known), ins=tuple(ins))


def code_of(typed: TypedProgram) -> Code:
    name = "tile_" + re.sub(r"\W", "_", typed.program.name)
    return Code(name, typed.instructions, typed.dtypes, typed.outputs, typed.inputs)


class _Text:
    """The text of a kernel, while it is written. `p` are its parameters, `at` the places of an
    element in its operands, `row` those of its row; `e` is the position in the row."""

    def __init__(self, code: Code):
        self.code = code
        self.lines: list[str] = []

    def put(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def value(self, depth: int, n: int) -> None:
        """Define v<n>."""
        self.put(depth, f"const {computed(self.code.dtypes[n])} v{n} = {self.formula(n)};")

    def store(self, depth: int, n: int, place: str) -> None:
        i = self.code.instructions[n]
        stored = STORED[self.code.outs[i.detail]]
        target = f"*p.at<{stored}>({i.detail}, {place}[{i.detail}])"
        self.put(depth, f"{target} = stored<{stored}>(v{i.args[0]});")

    def formula(self, n: int) -> str:
        i, dtype = self.code.instructions[n], self.code.dtypes[n]
        args = [f"v{a}" for a in i.args]
        if i.name == "load":
            number = len(self.code.outs) + i.detail
            place = {SCALAR: "0", ROW: f"row[{number}]", FULL: f"at[{number}]"}[i.kind]
            return f"loaded(*p.at<{STORED[self.code.ins[i.detail]]}>({number}, {place}))"
        if i.name == "constant":
            return constant(i.detail, dtype)
        if i.name == "row_size":
            return "static_cast<i64>(length)"
        if i.name == "row_index":
            return "static_cast<i64>(e)"
        if i.name == "random":
            return f"random_at({args[0]}, {args[1]}, position)"
        if i.name == "cast":
            return f"loaded(stored<{STORED[dtype]}>({args[0]}))"
        if i.name == "where":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        if i.name == "add_at":
            added = f"Formula<BinaryOp::add>::apply({args[0]}, {args[2]})"
            return f"static_cast<i64>(e) == {args[1]} ? {added} : {args[0]}"
        table = "UnaryOp" if i.name in UNARY else "BinaryOp"
        assert i.name in UNARY or i.name in BINARY, i.name
        return f"Formula<{table}::{i.name}>::apply({', '.join(args)})"

    def values(self, depth: int, numbers: Iterable[int], *kinds: str) -> None:
        """Define those of these values that are of a kind and are no row reductions."""
        for n in numbers:
            i = self.code.instructions[n]
            if i.kind in kinds and i.name not in ("store", "column_sum") and not i.is_row_reduction:
                self.value(depth, n)

    def begin(self, parameters: str) -> None:
        arguments = f"const __grid_constant__ {parameters} params"
        self.put(0, '#include "program.cuh"\n\nusing namespace needle;\n')
        self.put(0, f'extern "C" __global__ void {self.code.name}({arguments}) {{')

    def finish(self) -> str:
        self.put(0, "}")
        return "\n".join(self.lines) + "\n"


def constant(value: Scalar, dtype: DType) -> str:
    """A number, exactly."""
    if dtype is bool_ or not dtype.is_floating:
        return f"static_cast<{computed(dtype)}>({int(value) & (1 << 64) - 1:#x}ull)"
    if computed(dtype) == "f32":
        with np.errstate(over="ignore"):
            return f"of_bits_f32({np.float32(value).view(np.uint32):#010x}u)"
    (bits,) = struct.unpack("<Q", struct.pack("<d", float(value)))
    return f"of_bits_f64({bits:#018x}ull)"


# Kernels -----------------------------------------------------------------------------------------


def elementwise(code: Code) -> str:
    """A loop body over all elements; -DRANK. The last operand of a program with random numbers has
    no memory: its places are the elements' positions in C order."""
    count = len(code.outs) + len(code.ins)
    text = _Text(code)
    is_random = code.is_random
    text.begin(f"Operands<{count + is_random}, RANK>")
    text.put(1, "const auto& p = params;")
    needed = code.needed(code.stores(FULL))
    text.values(1, needed, SCALAR)
    text.put(1, f"for_each_element(p, [&](Places<{count + is_random}> at) {{")
    if is_random:
        text.put(2, f"[[maybe_unused]] const u64 position = at[{count}];")
    text.values(2, needed, FULL)
    for n in code.stores(FULL):
        text.store(2, n, "at")
    text.put(1, "});")
    return text.finish()


def scalars(code: Code) -> str:
    """The one thread that computes a program's numbers for the whole call."""
    text = _Text(code)
    count = len(code.outs) + len(code.ins)
    text.begin(f"Rows<{count}, OUTER, INNER>")
    text.put(1, "const auto& p = params.rows;")
    text.put(1, "const u32 length = params.elements.size;")
    text.put(1, f"const Places<{count}> at = {{}};")
    text.values(1, code.needed(code.stores(SCALAR)), SCALAR)
    for n in code.stores(SCALAR):
        text.store(1, n, "at")
    return text.finish()


def rows(code: Code, phases: Sequence[int]) -> str:
    """A team for each row; -DOUTER, -DINNER, -DTEAM."""
    text = _Text(code)
    count = len(code.outs) + len(code.ins)
    full = code.stores(FULL)
    reductions = [
        n for n in code.needed([*full, *code.stores(ROW)]) if code.instructions[n].is_row_reduction
    ]
    last = max([phases[n] for n in (*reductions, *full)], default=-1)
    needed = code.needed([*full, *code.stores(ROW)])
    text.begin(f"Rows<{count}, OUTER, INNER>")
    text.put(1, "const auto& p = params.rows;")
    text.put(1, "const u32 length = params.elements.size, member = threadIdx.x % TEAM;")
    text.put(1, "const u32 number = blockIdx.x * (THREADS / TEAM) + threadIdx.x / TEAM;")
    text.put(1, "const bool is_row = number < p.size;")
    text.put(1, f"const Places<{count}> row = places_of(p, is_row ? number : 0);")
    text.values(1, needed, SCALAR)
    for phase in range(last + 1):
        text.values(1, [n for n in needed if phases[n] == phase], ROW)
        ending = [n for n in reductions if phases[n] == phase]
        _pass_over_row(text, ending, full if phase == last else [])
    text.values(1, [n for n in needed if phases[n] > last], ROW)
    if code.stores(ROW):
        text.put(1, "if (is_row && member == 0) {")
        for n in code.stores(ROW):
            text.store(2, n, "row")
        text.put(1, "}")
    return text.finish()


def _pass_over_row(text: _Text, reductions: list[int], stores: list[int]) -> None:
    code = text.code
    if not reductions and not stores:
        return
    for n in reductions:
        i, kind = code.instructions[n], computed(code.dtypes[n])
        if i.name == "gather":
            text.put(1, f"{kind} picked{n} = 0;")
        else:
            total = f"RowTotal<ReduceOp::{ROW_REDUCTIONS[i.name]}, {kind}>"
            nothing = f"Reduction<ReduceOp::{ROW_REDUCTIONS[i.name]}>::nothing<{total}>()"
            text.put(1, f"{total} total{n} = {nothing};")
    text.put(1, "for (u32 e = is_row ? member : length; e < length; e += TEAM) {")
    count = len(code.outs) + len(code.ins)
    text.put(2, f"const Places<{count}> at = places_in_row(params, row, e);")
    text.put(2, "[[maybe_unused]] const u64 position = static_cast<u64>(number) * length + e;")
    text.values(2, _without_reductions(code, [*reductions, *stores]), FULL)
    for n in reductions:
        i = code.instructions[n]
        if i.name == "gather":
            text.put(2, f"if (static_cast<i64>(e) == v{i.args[1]}) picked{n} = v{i.args[0]};")
        else:
            step = f"Reduction<ReduceOp::{ROW_REDUCTIONS[i.name]}>::step"
            kind = f"decltype(total{n})"
            text.put(2, f"total{n} = {step}(total{n}, static_cast<{kind}>(v{i.args[0]}));")
    for n in stores:
        text.store(2, n, "at")
    text.put(1, "}")
    for n in reductions:
        i, kind = code.instructions[n], computed(code.dtypes[n])
        if i.name == "gather":
            owner = f"threadIdx.x / TEAM * TEAM + static_cast<u32>(v{i.args[1]}) % TEAM"
            text.put(1, f"const {kind} v{n} = from_member<TEAM>(picked{n}, {owner});")
        else:
            call = f"of_row<ReduceOp::{ROW_REDUCTIONS[i.name]}, TEAM, {kind}>"
            text.put(1, f"const {kind} v{n} = {call}(total{n});")


def _without_reductions(code: Code, numbers: list[int]) -> list[int]:
    """What must be computed at an element for these: not what reductions have told."""
    found, unread = set(), [a for n in numbers for a in code.instructions[n].args]
    while unread:
        n = unread.pop()
        if n not in found and not code.instructions[n].is_row_reduction:
            found.add(n)
            unread += code.instructions[n].args
    return sorted(found)


def columns(code: Code) -> str:
    """A thread for each column and piece of the rows, whose sums go to row `piece` of every output;
    -DOUTER, -DINNER. All that is known of rows is loaded."""
    text = _Text(code)
    count = len(code.outs) + len(code.ins)
    sums = [code.instructions[n].args[0] for n in code.stores(COLUMN)]
    needed = code.needed(sums)
    text.put(0, '#include "program.cuh"\n\nusing namespace needle;\n')
    text.put(0, "struct Columns {")
    text.put(1, f"Rows<{count}, OUTER, INNER> operands;")
    text.put(1, "u32 piece;  // rows in each")
    text.put(0, "};\n")
    text.put(0, f'extern "C" __global__ void {code.name}(const __grid_constant__ Columns all) {{')
    text.put(1, "const auto& params = all.operands;")
    text.put(1, "const auto& p = params.rows;")
    text.put(1, "const u32 length = params.elements.size;")
    text.put(1, "const u32 e = blockIdx.x * blockDim.x + threadIdx.x;")
    text.put(1, "if (e >= length) return;")
    text.put(1, f"const Places<{count}> along = places_of(params.elements, e);")
    text.values(1, needed, SCALAR)
    for n in dict.fromkeys(sums):
        text.put(1, f"{_total_of(code.dtypes[n])} total{n} = 0;")
    text.put(1, "const u32 begin = blockIdx.y * all.piece, left = p.size - begin;")
    text.put(1, "const u32 end = begin + (all.piece < left ? all.piece : left);")
    text.put(1, "for (u32 number = begin; number < end; ++number) {")
    text.put(2, f"const Places<{count}> row = places_of(p, number);")
    text.put(2, f"Places<{count}> at = row;")
    text.put(2, f"for (int n = 0; n < {count}; ++n) at.at[n] += along[n];")
    text.put(2, "[[maybe_unused]] const u64 position = static_cast<u64>(number) * length + e;")
    text.values(2, needed, ROW)
    text.values(2, needed, FULL)
    for n in dict.fromkeys(sums):
        term = f"static_cast<decltype(total{n})>(v{code.instructions[n].args[0]})"
        text.put(2, f"total{n} = Reduction<ReduceOp::sum>::step(total{n}, {term});")
    text.put(1, "}")
    for store, n in zip(code.stores(COLUMN), sums, strict=True):
        k = code.instructions[store].detail
        stored = STORED[code.outs[k]]
        place = f"*p.at<{stored}>({k}, along[{k}] + static_cast<i64>(blockIdx.y) * length)"
        text.put(1, f"{place} = stored<{stored}>(total{n});")
    return text.finish()


def _total_of(dtype: DType) -> str:
    return STORED[total_dtype(dtype)]


def total_dtype(dtype: DType) -> DType:
    """What columns of a dtype are summed in."""
    return float64 if dtype.is_floating else computed_dtype(dtype)
