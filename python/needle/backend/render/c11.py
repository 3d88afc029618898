"""Tile programs as C: one C11 function per program and layout of its operands.

A row is computed in one loop per phase. Values that a reduction or a later phase needs are kept in
an array for the row; all others stay in registers. The functions of single elements
(c_elements.py) have the names that they have in programs, and give the same bits as the native
kernels. So do sums along rows and down columns, if a row is one axis of memory and rows are evenly
spaced: they are added in the order of the native machine (kernels/tile/program.cc), so its tiles of
rows and its groups of four rows appear here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...dtype import computed_in, float32, float64
from ..protocol import BLOCKING, COLUMN, FULL, SCALAR
from .program import ProgramText
from .space import NotRendered, Space
from .text import STORED, rounded, suffix

if TYPE_CHECKING:
    from ...tile.ir import TypedProgram

AT_ONCE = BLOCKING.rows_at_once
DRAWN = 512  # random numbers at a time, where rows do not say how many
STACK_BYTES = 1 << 16  # larger arrays of a row belong to the thread
MOST_BYTES = 1 << 22  # of all arrays; programs that need more are not rendered
GRAIN = 32768  # elements in one piece of the thread pool's work, without column sums


@dataclass(frozen=True)
class Rendered:
    """A C function void name(void *const *at, i64 begin, i64 end, f64 *totals), for rows or (in a
    flat space) elements begin to end; `at` has the operands' memory, outputs first, and then the
    function that draws random numbers.

    With `columns` > 0, `totals` has so many sums, which start at zero; when all rows are done,
    name_finish(at, totals) stores them.
    """

    name: str
    source: str
    space: Space
    columns: int
    tile: int  # rows whose columns are added up together
    block: int  # elements of a row that are added up together; 0 if rows are not reduced

    @property
    def keeps_bits(self) -> bool:
        """Does it add up in the order of the native machine?"""
        space = self.space
        if space.is_transposed and 0 < self.block < space.length * BLOCKING.line_rows:
            return False
        is_even = len(space.outer) <= 1 and all({0, 1} >= set(s.inner) for s in space.steps)
        return len(space.inner) <= 1 and (is_even or not self.columns)

    @property
    def grain(self) -> int:
        """Rows in one piece of the thread pool's work."""
        length, tile = self.space.length, self.tile
        if not self.columns:
            return max(1, GRAIN // length)
        tiles = -(-self.space.rows // tile)
        pieces = -(-tiles // BLOCKING.most_pieces)
        return tile * max(1, BLOCKING.grain // (tile * length), pieces)


def render(name: str, typed: TypedProgram, space: Space) -> Rendered:
    """The C function of a program in a space."""
    writer = _Writer(name, typed, space)
    columns = len(writer.columns) * space.length
    block = writer.block if any(i.is_row_reduction for i in typed.instructions) else 0
    return Rendered(name, writer.function(), space, columns, writer.tile, block)


class _Writer(ProgramText):
    """Writes the function of one program: finds what is kept of a row, then writes the text."""

    def __init__(self, name: str, typed: TypedProgram, space: Space):
        super().__init__(name, typed, space)
        if SCALAR in typed.output_kinds:
            raise NotRendered("an output is one number for the whole call")
        if any(self.dtypes[n] not in (float32, float64) for n in self.columns):
            raise NotRendered("columns of integers are summed")
        self.row_length = DRAWN if space.is_flat else space.length  # elements of arrays
        self.block = BLOCKING.tile_bytes // self._widest()
        self.tile = max(1, min(space.rows, self.block // space.length))
        reduced = (i.args[0] for i in self.code if i.is_row_reduction)
        self.kept |= {*self.drawn, *(a for a in reduced if not self._has_array(a))}
        arrays = (*self.kept, *self.columns * (1 + AT_ONCE))
        widths = [computed_in(self.dtypes[n]).itemsize for n in arrays]
        self.kept_bytes = sum(widths) * self.row_length
        if self.kept_bytes > MOST_BYTES:
            raise NotRendered(f"its rows of {space.length} elements are too long")

    def _widest(self) -> int:
        """Bytes of the widest type in the native machine's tiles, which do not hold the seed."""
        both = zip(self.code, self.dtypes, strict=True)
        found = (d for i, d in both if not self.drawn or i.kind != SCALAR)
        return max(4, *(computed_in(d).itemsize for d in found))

    def _has_array(self, n: int) -> bool:
        """Is it a row value, or a row of an input that is as an array would be?"""
        return self.code[n].kind != FULL or self.is_in_memory(n)

    def kept_at(self, n: int) -> str:
        return f"row{n}[{'j - first' if self.space.is_flat else 'j'}]"

    def column_at(self, n: int) -> str:
        return f"of{n}[j]"

    # Text -----------------------------------------------------------------------------------

    def function(self) -> str:
        space = self.space
        shape = "elements" if space.is_flat else f"rows of {'x'.join(map(str, space.inner))}"
        arguments = ", ".join(self.typed.program.arguments)
        self.put(0, f"// {self.typed.program.name}({arguments}): {shape}")
        self.put(0, f"void {self.name}(void *const *at, i64 begin, i64 end, f64 *totals) {{")
        if not self.columns:
            self.put(1, "(void)totals;")
        self.pointers()
        if self.drawn:
            self.put(1, f"draw_fn *const draw = (draw_fn *)at[{len(space.steps)}];")
        self._arrays()
        self.scalar_values()
        if not space.is_flat:
            self._rows()
        elif self.drawn:
            self._drawn_elements()
        else:
            self.put(1, "EACH")
            self.put(1, "for (i64 j = begin; j < end; ++j) {")
            self.body(2, 0)
            self.put(1, "}")
        self.put(0, "}")
        if self.columns:
            self._finish()
        return "\n".join(self.lines) + "\n"

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
        self.body(3, 0)
        self.put(2, "}")
        self.put(1, "}")

    def _draw(self, count: str, position: str) -> None:
        for n in self.drawn:
            seed, offset = (f"(uint64_t){self.value(a)}" for a in self.code[n].args)
            self.put(2, f"draw(row{n}, {count}, {seed}, {offset} + (uint64_t)({position}), 1);")

    def _rows(self) -> None:
        self.put(1, "for (i64 row = begin; row < end; ++row) {")
        self.row_places()
        self._draw(str(self.space.length), f"row * {self.space.length}")
        if self.columns:
            self._column_places()
        last = max(self.phase)
        for phase in range(last + 1):
            self.row_values(phase)
            self._loop(phase)
            self._reduce(phase)
        self.row_values(last + 1)
        self.store_row_values()
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

    def _loop(self, phase: int) -> None:
        """One pass over the row: everything that is first computed in this phase."""
        if not self.steps(phase):
            return
        inner = self.space.inner
        if len(inner) == 1:
            self.put(2, "EACH")
            self.put(2, f"for (i64 j = 0; j < {inner[0]}; ++j) {{")
            self.body(3, phase)
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
        self.body(depth, phase)
        for d in reversed(range(len(inner))):
            self.put(2 + d, "}")

    def _reduce(self, phase: int) -> None:
        """What is known of the row when a pass is over."""
        length = self.space.length
        for n in self.reductions(phase):
            i = self.code[n]
            a = i.args[0]
            array = f"x{self.code[a].detail}" if self.is_in_memory(a) else f"row{a}"
            kind = suffix(self.dtypes[n])
            if i.name == "gather":
                at = self.value(i.args[1])
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
                inner = self.index_of_position(self.space.steps[i.detail].inner)
                self.put(2, f"y{i.detail}[{inner}] = {value};")
                self.put(1, "}")
        self.put(0, "}")
