"""Tile programs as C: one C11 function per program and layout of its operands.

A row is computed in one loop per phase. Values that a reduction or a later phase needs are kept in
an array for the row; all others stay in registers. The functions of single elements
(c_elements.py) have the names that they have in programs, and give the same bits as the
native kernels. So do sums along rows and down columns, if a row is one axis of memory and rows are
evenly spaced: they are added in the order of the native machine (kernels/tile/program.cc), so its
tiles of rows and its groups of four rows appear here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dtype import computed_in, float32, float64
from ..protocol import BLOCKING, COLUMN, FULL, ROW, SCALAR
from .space import NotRendered, Rendered, Space, Steps
from .text import STORED, literal, loaded, rounded, suffix

if TYPE_CHECKING:
    from ...tile.ir import Instruction, TypedProgram
    from ...types import Shape

AT_ONCE = BLOCKING.rows_at_once
DRAWN = 512  # random numbers at a time, where rows do not say how many
STACK_BYTES = 1 << 16  # larger arrays of a row belong to the thread
MOST_BYTES = 1 << 22  # of all arrays; programs that need more are not rendered


def render(name: str, typed: TypedProgram, space: Space) -> Rendered:
    """The C function of a program in a space."""
    writer = _Writer(name, typed, space)
    columns = len(writer.columns) * space.length
    block = writer.block if any(i.is_row_reduction for i in typed.instructions) else 0
    return Rendered(name, writer.function(), space, columns, writer.tile, block)


class _Writer:
    """Writes the function of one program: finds what is kept of a row, then writes the text."""

    def __init__(self, name: str, typed: TypedProgram, space: Space):
        self.name = name
        self.typed = typed
        self.space = space
        self.code: tuple[Instruction, ...] = typed.instructions
        self.dtypes = typed.dtypes
        self.lines: list[str] = []
        self.columns = [n for n, i in enumerate(self.code) if i.name == "column_sum"]
        self.drawn = [n for n, i in enumerate(self.code) if i.name == "random"]
        self.row_length = DRAWN if space.is_flat else space.length  # elements of arrays
        if SCALAR in typed.output_kinds:
            raise NotRendered("an output is one number for the whole call")
        if any(self.dtypes[n] not in (float32, float64) for n in self.columns):
            raise NotRendered("columns of integers are summed")
        self.block = BLOCKING.tile_bytes // self._widest()
        self.tile = max(1, min(space.rows, self.block // space.length))
        self.phase = typed.phases
        self._find_kept()

    def _widest(self) -> int:
        """Bytes of the widest type in the native machine's tiles, which do not hold the seed."""
        both = zip(self.code, self.dtypes, strict=True)
        found = (d for i, d in both if not self.drawn or i.kind != SCALAR)
        return max(4, *(computed_in(d).itemsize for d in found))

    # What is computed when ------------------------------------------------------------------

    def _find_kept(self) -> None:
        """Full values that need an array: drawn ones, and what is reduced or used later."""
        self.kept = set(self.drawn)
        for n, i in enumerate(self.code):
            for k, a in enumerate(i.args):
                if self.code[a].kind != FULL:
                    continue
                reduced = i.is_row_reduction and k == 0 and not self._is_in_memory(a)
                later = self.phase[n] > self.phase[a] and not self._is_at_hand(a)
                if reduced or later:
                    self.kept.add(a)
        arrays = (*self.kept, *self.columns * (1 + AT_ONCE))
        widths = [computed_in(self.dtypes[n]).itemsize for n in arrays]
        self.kept_bytes = sum(widths) * self.row_length
        if self.kept_bytes > MOST_BYTES:
            raise NotRendered(f"its rows of {self.space.length} elements are too long")

    def _is_at_hand(self, n: int) -> bool:
        return self.code[n].name in ("load", "row_index", "random")

    def _is_in_memory(self, n: int) -> bool:
        """Is it a row of an input, as an array would be?"""
        if self.code[n].name != "load" or STORED[self.dtypes[n]] != suffix(self.dtypes[n]):
            return False
        return self._input_steps(n).inner == (1,)

    def _input_steps(self, n: int) -> Steps:
        number: int = self.code[n].detail
        return self.space.steps[len(self.typed.outputs) + number]

    # Text -----------------------------------------------------------------------------------

    def put(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def function(self) -> str:
        space = self.space
        shape = "elements" if space.is_flat else f"rows of {'x'.join(map(str, space.inner))}"
        arguments = ", ".join(self.typed.program.arguments)
        self.put(0, f"// {self.typed.program.name}({arguments}): {shape}")
        self.put(0, f"void {self.name}(void *const *at, i64 begin, i64 end, f64 *totals) {{")
        if not self.columns:
            self.put(1, "(void)totals;")
        self._pointers()
        self._arrays()
        for n, i in enumerate(self.code):
            if i.kind == SCALAR and i.name not in ("constant", "store"):
                self.put(1, f"const {suffix(self.dtypes[n])} v{n} = {self._computed(n)};")
        if not space.is_flat:
            self._rows()
        elif self.drawn:
            self._drawn_elements()
        else:
            self.put(1, "EACH")
            self.put(1, "for (i64 j = begin; j < end; ++j) {")
            self._body(2, 0)
            self.put(1, "}")
        self.put(0, "}")
        if self.columns:
            self._finish()
        return "\n".join(self.lines) + "\n"

    def _pointers(self) -> None:
        outs = len(self.typed.outputs)
        for k, dtype in enumerate(self.typed.outputs):
            if self.typed.output_kinds[k] != COLUMN:
                self.put(1, f"{STORED[dtype]} *const out{k} = at[{k}];")
        for k, dtype in enumerate(self.typed.inputs):
            self.put(1, f"const {STORED[dtype]} *const in{k} = at[{outs + k}];")
        if self.drawn:
            self.put(1, f"draw_fn *const draw = (draw_fn *)at[{outs + len(self.typed.inputs)}];")

    def _arrays(self) -> None:
        """Memory for a row of every kept value and column sum."""
        length = self.row_length
        place = "" if self.kept_bytes <= STACK_BYTES else "static _Thread_local "
        for n in sorted(self.kept):
            self.put(1, f"{place}{suffix(self.dtypes[n])} row{n}[{length}];")
        for n in self.columns:
            kind = suffix(self.dtypes[n])
            self.put(1, f"{place}{kind} sum{n}[{length}], some{n}[{AT_ONCE * length}];")
            self.put(1, f"memset(sum{n}, 0, sizeof sum{n});")

    def _drawn_elements(self) -> None:
        """Elements in the C order of their numbers, some at a time."""
        self.put(1, f"for (i64 first = begin; first < end; first += {DRAWN}) {{")
        self.put(2, f"const i64 last = end - first < {DRAWN} ? end : first + {DRAWN};")
        self._draw("last - first", "first")
        self.put(2, "EACH")
        self.put(2, "for (i64 j = first; j < last; ++j) {")
        self._body(3, 0)
        self.put(2, "}")
        self.put(1, "}")

    def _draw(self, count: str, position: str) -> None:
        for n in self.drawn:
            seed, offset = (f"(uint64_t){self._value(a)}" for a in self.code[n].args)
            self.put(2, f"draw(row{n}, {count}, {seed}, {offset} + (uint64_t)({position}), 1);")

    def _rows(self) -> None:
        self.put(1, "for (i64 row = begin; row < end; ++row) {")
        self._places()
        self._draw(str(self.space.length), f"row * {self.space.length}")
        if self.columns:
            self._column_places()
        last = max(self.phase)
        for phase in range(last + 1):
            self._row_values(phase)
            self._loop(phase)
            self._reductions(phase)
        self._row_values(last + 1)
        for n, i in enumerate(self.code):
            if i.name == "store" and i.kind == ROW:
                value = rounded(self._value(i.args[0]), self.dtypes[i.args[0]], self.dtypes[n])
                self.put(2, f"*y{i.detail} = {value};")
        if self.columns:
            self._add_columns()
            self._flush()
        self.put(1, "}")

    def _column_places(self) -> None:
        """The row's number among AT_ONCE rows of its tile; -1 for the rows that are left over."""
        self.put(2, f"const i64 place = (row - begin) % {self.tile}, left = end - row + place;")
        self.put(2, f"const i64 rows = left < {self.tile} ? left : {self.tile};")
        whole = f"rows / {AT_ONCE} * {AT_ONCE}"
        self.put(2, f"const i64 one = place < {whole} ? place % {AT_ONCE} : -1;")
        for n in self.columns:
            start = f"some{n} + (one < 0 ? 0 : one) * {self.space.length}"
            self.put(2, f"{suffix(self.dtypes[n])} *const of{n} = {start};")

    def _add_columns(self) -> None:
        """The row, or AT_ONCE rows, to the sums."""
        length = self.space.length
        for n in self.columns:
            low = f"some{n}[j] + some{n}[{length} + j]"
            high = f"some{n}[{2 * length} + j] + some{n}[{3 * length} + j]"
            cases = ((f"one == {AT_ONCE - 1}", f"({low}) + ({high})"), ("one < 0", f"some{n}[j]"))
            for condition, added in cases:
                self.put(2, f"if ({condition}) {{")
                self.put(3, "EACH")
                self.put(3, f"for (i64 j = 0; j < {length}; ++j) sum{n}[j] += {added};")
                self.put(2, "}")

    def _places(self) -> None:
        """Where the row begins in every operand."""
        outer = self.space.outer
        if len(outer) > 1:
            self.put(2, "i64 rest = row;")
            for d in reversed(range(1, len(outer))):
                self.put(2, f"const i64 r{d} = rest % {outer[d]};")
                self.put(2, f"rest /= {outer[d]};")
        axes = ["rest" if len(outer) > 1 else "row", *(f"r{d}" for d in range(1, len(outer)))]
        outs = len(self.typed.outputs)
        for k, steps in enumerate(self.space.steps):
            terms = [
                axis if s == 1 else f"{axis} * {s}"
                for axis, s in zip(axes, steps.outer, strict=False)
                if s != 0
            ]
            if k < outs:
                if self.typed.output_kinds[k] != COLUMN:
                    place = " + ".join([f"out{k}", *terms])
                    self.put(2, f"{STORED[self.typed.outputs[k]]} *const y{k} = {place};")
            elif self.typed.input_kinds[k - outs] != SCALAR:
                number = k - outs
                place = " + ".join([f"in{number}", *terms])
                dtype = STORED[self.typed.inputs[number]]
                self.put(2, f"const {dtype} *const x{number} = {place};")

    def _row_values(self, phase: int) -> None:
        for n, i in enumerate(self.code):
            is_value = i.name != "store" and not i.is_row_reduction
            if i.kind == ROW and is_value and self.phase[n] == phase:
                self.put(2, f"const {suffix(self.dtypes[n])} v{n} = {self._computed(n)};")

    def _loop(self, phase: int) -> None:
        """One pass over the row: everything that is first computed in this phase."""
        if not self._steps(phase):
            return
        inner = self.space.inner
        if len(inner) == 1:
            self.put(2, "EACH")
            self.put(2, f"for (i64 j = 0; j < {inner[0]}; ++j) {{")
            self._body(3, phase)
            self.put(2, "}")
            return
        for d, n in enumerate(inner):
            if d == len(inner) - 1:
                self.put(2 + d, "EACH")
            self.put(2 + d, f"for (i64 j{d} = 0; j{d} < {n}; ++j{d}) {{")
        depth = 2 + len(inner)
        linear = "j0"
        for d in range(1, len(inner)):
            linear = f"{'(' + linear + ')' if d > 1 else linear} * {inner[d]} + j{d}"
        self.put(depth, f"const i64 j = {linear};")
        self._body(depth, phase)
        for d in reversed(range(len(inner))):
            self.put(2 + d, "}")

    def _steps(self, phase: int) -> list[int]:
        """The instructions of a pass."""
        found = []
        for n, i in enumerate(self.code):
            if self.phase[n] != phase or i.is_row_reduction:
                continue
            is_computed = i.kind == FULL and not self._is_at_hand(n)
            if is_computed or i.name == "column_sum" or n in self.kept.difference(self.drawn):
                found.append(n)
        return found

    def _body(self, depth: int, phase: int) -> None:
        known: set[int] = set()  # what has a name in this pass

        def use(a: int) -> str:
            """A value in the loop; sources are read where they are first used."""
            if self.code[a].kind != FULL:
                return self._value(a)
            if a not in known:
                known.add(a)
                kind, name = suffix(self.dtypes[a]), self.code[a].name
                if name == "load":
                    text = loaded(self._element(a), self.dtypes[a])
                elif name == "row_index":
                    text = f"({kind})j"
                else:
                    text = f"row{a}[{'j - first' if self.space.is_flat else 'j'}]"
                self.put(depth, f"const {kind} v{a} = {text};")
            return f"v{a}"

        steps = self._steps(phase)
        stores = [n for n in steps if self.code[n].name == "store"]
        for n in steps[: len(steps) - len(stores)]:
            i = self.code[n]
            args = [use(a) for a in i.args]
            if i.name == "column_sum":
                self.put(depth, f"of{n}[j] = {args[0]};")
            elif self._is_at_hand(n):
                use(n)
            else:
                known.add(n)
                value = self._applied(n, args)
                self.put(depth, f"const {suffix(self.dtypes[n])} v{n} = {value};")
            if n in self.kept:
                self.put(depth, f"row{n}[j] = v{n};")
        # Everything is read before anything is written: an output may be an input's memory.
        values = [use(self.code[n].args[0]) for n in stores]
        for n, value in zip(stores, values, strict=True):
            i = self.code[n]
            text = rounded(value, self.dtypes[i.args[0]], self.dtypes[n])
            self.put(depth, f"{self._output(i.detail)} = {text};")

    def _reductions(self, phase: int) -> None:
        length = self.space.length
        for n, i in enumerate(self.code):
            if not i.is_row_reduction or self.phase[n] != phase:
                continue
            a = i.args[0]
            array = f"x{self.code[a].detail}" if self._is_in_memory(a) else f"row{a}"
            kind = suffix(self.dtypes[n])
            if i.name == "gather":
                at = self._value(i.args[1])
                value = f"{at} >= 0 && {at} < {length} ? {array}[{at}] : 0"
            else:
                value = f"{i.name}_{kind}({array}, {length}, {self.block})"
            self.put(2, f"const {kind} v{n} = {value};")

    def _flush(self) -> None:
        """Sums of some rows go to the totals, in double."""
        length = self.space.length
        stretch = -(-BLOCKING.stretch // self.tile) * self.tile
        self.put(2, f"if ((row - begin) % {stretch} == {stretch - 1} || row + 1 == end) {{")
        for c, n in enumerate(self.columns):
            self.put(3, f"for (i64 j = 0; j < {length}; ++j) {{")
            self.put(4, f"totals[{c * length} + j] += (f64)sum{n}[j];")
            self.put(4, f"sum{n}[j] = 0;")
            self.put(3, "}")
        self.put(2, "}")

    def _finish(self) -> None:
        self.put(0, f"void {self.name}_finish(void *const *at, const f64 *totals) {{")
        for n, i in enumerate(self.code):
            if i.name == "store" and i.kind == COLUMN:
                c, dtype = self.columns.index(i.args[0]), self.dtypes[n]
                self.put(1, f"{STORED[dtype]} *const y{i.detail} = at[{i.detail}];")
                self.put(1, f"for (i64 j = 0; j < {self.space.length}; ++j) {{")
                value = rounded(f"totals[{c * self.space.length} + j]", float64, dtype)
                inner = self._linear(self.space.steps[i.detail].inner)
                self.put(2, f"y{i.detail}[{inner}] = {value};")
                self.put(1, "}")
        self.put(0, "}")

    # Values ---------------------------------------------------------------------------------

    def _value(self, n: int) -> str:
        """A scalar or row value."""
        i = self.code[n]
        return literal(i.detail, self.dtypes[n]) if i.name == "constant" else f"v{n}"

    def _computed(self, n: int) -> str:
        """A scalar or row value from others of its kind."""
        i = self.code[n]
        if i.name == "load":
            place = "in" if i.kind == SCALAR else "x"
            return loaded(f"*{place}{i.detail}", self.dtypes[n])
        if i.name == "row_size":
            return str(self.space.length)
        return self._applied(n, [self._value(a) for a in i.args])

    def _applied(self, n: int, args: list[str]) -> str:
        i, dtype = self.code[n], self.dtypes[n]
        if i.name == "cast":
            return loaded(rounded(args[0], self.dtypes[i.args[0]], dtype), dtype)
        if i.name == "add_at":
            added = f"add_{suffix(dtype)}({args[0]}, {args[2]})"
            return f"j == {args[1]} ? {added} : {args[0]}"
        if i.name == "where":
            return f"CHOOSE({', '.join(args)})"
        return f"{i.name}_{suffix(self.dtypes[i.args[0]])}({', '.join(args)})"

    def _element(self, n: int) -> str:
        """The element of an input in the loop."""
        steps, k = self._input_steps(n), self.code[n].detail
        if self.space.is_flat:
            return f"in{k}[{_times('j', steps.outer[0])}]"
        return f"x{k}[{self._index(steps.inner)}]"

    def _output(self, k: int) -> str:
        steps = self.space.steps[k]
        if self.space.is_flat:
            return f"out{k}[{_times('j', steps.outer[0])}]"
        return f"y{k}[{self._index(steps.inner)}]"

    def _index(self, steps: Shape) -> str:
        if len(steps) == 1:
            return _times("j", steps[0])
        return " + ".join(_times(f"j{d}", s) for d, s in enumerate(steps) if s) or "0"

    def _linear(self, steps: Shape) -> str:
        """The place of position j of a row."""
        terms, below = [], 1
        for n, s in zip(reversed(self.space.inner), reversed(steps), strict=True):
            part = "j" if below == 1 else f"j / {below}"
            terms.append(f"({part}) % {n} * {s}" if len(steps) > 1 else _times("j", s))
            below *= n
        return " + ".join(terms)


def _times(index: str, step: int) -> str:
    return "0" if step == 0 else index if step == 1 else f"{index} * {step}"
