"""What all dialects write alike: what is computed in which pass over a row, values, and places.

Values are v0, v1, ..., numbered as their instructions. A row begins at x0, x1, ... (inputs) and y0,
y1, ... (outputs), a call's memory is in0, in1, ... and out0, out1, ...; j is the position in a row,
j0, j1, ... that in each of its axes. A dialect (c11.py) writes the loops around a pass, what rows
and columns are reduced with, and where values are kept that a later pass needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol import COLUMN, FULL, ROW, SCALAR
from .text import STORED, literal, loaded, rounded, suffix

if TYPE_CHECKING:
    from ...tile.ir import Instruction, TypedProgram
    from ...types import Shape
    from .space import Space, Steps


class ProgramText:
    """The text of one program over a space, while it is written."""

    def __init__(self, name: str, typed: TypedProgram, space: Space):
        self.name = name
        self.typed = typed
        self.space = space
        self.code: tuple[Instruction, ...] = typed.instructions
        self.dtypes = typed.dtypes
        self.phase = typed.phases
        self.columns = [n for n, i in enumerate(self.code) if i.name == "column_sum"]
        self.drawn = [n for n, i in enumerate(self.code) if i.name == "random"]
        self.kept = self._used_later()  # the numbers of values that a pass keeps for later ones
        self.lines: list[str] = []

    def put(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    # What a dialect decides -------------------------------------------------------------------

    def kept_at(self, n: int) -> str:
        """Where an element of a kept or a drawn value is."""
        raise NotImplementedError

    def column_at(self, n: int) -> str:
        """Where an element that is summed down its column goes."""
        raise NotImplementedError

    # What is computed when --------------------------------------------------------------------

    def _used_later(self) -> set[int]:
        """Full values that are used in a later pass, and are not read there again."""
        both = [(n, a) for n, i in enumerate(self.code) for a in i.args]
        return {
            a
            for n, a in both
            if self.code[a].kind == FULL
            and self.phase[n] > self.phase[a]
            and not self.is_at_hand(a)
        }

    def is_at_hand(self, n: int) -> bool:
        """Is it read where it is used, in any pass?"""
        return self.code[n].name in ("load", "row_index", "random")

    def is_in_memory(self, n: int) -> bool:
        """Is it a row of an input, stored as it is computed with, element by element?"""
        if self.code[n].name != "load" or STORED[self.dtypes[n]] != suffix(self.dtypes[n]):
            return False
        return self.input_steps(n).inner == (1,)

    def steps(self, phase: int) -> list[int]:
        """The instructions of a pass over the row."""
        found = []
        for n, i in enumerate(self.code):
            if self.phase[n] != phase or i.is_row_reduction:
                continue
            is_computed = i.kind == FULL and not self.is_at_hand(n)
            if is_computed or i.name == "column_sum" or n in self.kept.difference(self.drawn):
                found.append(n)
        return found

    def reductions(self, phase: int) -> list[int]:
        """The numbers that are known of a row at the end of a pass."""
        code = enumerate(self.code)
        return [n for n, i in code if i.is_row_reduction and self.phase[n] == phase]

    # Places -----------------------------------------------------------------------------------

    def input_steps(self, n: int) -> Steps:
        """How the input of a load moves."""
        number: int = self.code[n].detail
        return self.space.steps[len(self.typed.outputs) + number]

    def pointers(self) -> None:
        """The call's memory, from the array `at`: outputs, then inputs."""
        outs = len(self.typed.outputs)
        for k, dtype in enumerate(self.typed.outputs):
            if self.typed.output_kinds[k] != COLUMN:
                self.put(1, f"{STORED[dtype]} *const out{k} = at[{k}];")
        for k, dtype in enumerate(self.typed.inputs):
            self.put(1, f"const {STORED[dtype]} *const in{k} = at[{outs + k}];")

    def row_places(self) -> None:
        """Where the row of number `row` begins in every operand."""
        outer = self.space.outer
        if len(outer) > 1:
            self.put(2, "i64 rest = row;")
            for d in reversed(range(1, len(outer))):
                self.put(2, f"const i64 r{d} = rest % {outer[d]};")
                self.put(2, f"rest /= {outer[d]};")
        axes = ["rest" if len(outer) > 1 else "row", *(f"r{d}" for d in range(1, len(outer)))]
        outs = len(self.typed.outputs)
        for k, steps in enumerate(self.space.steps):
            terms = [times(a, s) for a, s in zip(axes, steps.outer, strict=False) if s != 0]
            if k < outs:
                if self.typed.output_kinds[k] != COLUMN:
                    place = " + ".join([f"out{k}", *terms])
                    self.put(2, f"{STORED[self.typed.outputs[k]]} *const y{k} = {place};")
            elif self.typed.input_kinds[k - outs] != SCALAR:
                number = k - outs
                place = " + ".join([f"in{number}", *terms])
                dtype = STORED[self.typed.inputs[number]]
                self.put(2, f"const {dtype} *const x{number} = {place};")

    def element(self, n: int) -> str:
        """The element of the input of a load."""
        return self._element("in", "x", self.code[n].detail, self.input_steps(n))

    def output(self, k: int) -> str:
        """The element of an output."""
        return self._element("out", "y", k, self.space.steps[k])

    def _element(self, flat: str, row: str, k: int, steps: Steps) -> str:
        if self.space.is_flat:
            return f"{flat}{k}[{times('j', steps.outer[0])}]"
        return f"{row}{k}[{self._index(steps.inner)}]"

    def _index(self, steps: Shape) -> str:
        if len(steps) == 1:
            return times("j", steps[0])
        return " + ".join(times(f"j{d}", s) for d, s in enumerate(steps) if s) or "0"

    def index_of_position(self, steps: Shape) -> str:
        """The place of position j of a row, where only j is known."""
        terms, below = [], 1
        for n, s in zip(reversed(self.space.inner), reversed(steps), strict=True):
            part = "j" if below == 1 else f"j / {below}"
            terms.append(f"({part}) % {n} * {s}" if len(steps) > 1 else times("j", s))
            below *= n
        return " + ".join(terms)

    # Values -----------------------------------------------------------------------------------

    def scalar_values(self) -> None:
        """The values that the whole call shares."""
        for n, i in enumerate(self.code):
            if i.kind == SCALAR and i.name not in ("constant", "store"):
                self._put_value(1, n, self._computed(n))

    def row_values(self, phase: int) -> None:
        """The row's own values that are first known in a pass."""
        for n, i in enumerate(self.code):
            is_value = i.name != "store" and not i.is_row_reduction
            if i.kind == ROW and is_value and self.phase[n] == phase:
                self._put_value(2, n, self._computed(n))

    def store_row_values(self) -> None:
        for n, i in enumerate(self.code):
            if i.name == "store" and i.kind == ROW:
                value = rounded(self.value(i.args[0]), self.dtypes[i.args[0]], self.dtypes[n])
                self.put(2, f"*y{i.detail} = {value};")

    def body(self, depth: int, phase: int) -> None:
        """A pass at one element: everything that is first computed in it."""
        known: set[int] = set()  # what has a name in this pass

        def use(a: int) -> str:
            """A value in the loop; sources are read where they are first used."""
            if self.code[a].kind != FULL:
                return self.value(a)
            if a not in known:
                known.add(a)
                self._put_value(depth, a, self._source(a))
            return f"v{a}"

        steps = self.steps(phase)
        stores = [n for n in steps if self.code[n].name == "store"]
        for n in steps[: len(steps) - len(stores)]:
            i = self.code[n]
            args = [use(a) for a in i.args]
            if i.name == "column_sum":
                self.put(depth, f"{self.column_at(n)} = {args[0]};")
            elif self.is_at_hand(n):
                use(n)
            else:
                known.add(n)
                self._put_value(depth, n, self._applied(n, args))
            if n in self.kept:
                self.put(depth, f"{self.kept_at(n)} = v{n};")
        # Everything is read before anything is written: an output may be an input's memory.
        values = [use(self.code[n].args[0]) for n in stores]
        for n, value in zip(stores, values, strict=True):
            i = self.code[n]
            text = rounded(value, self.dtypes[i.args[0]], self.dtypes[n])
            self.put(depth, f"{self.output(i.detail)} = {text};")

    def value(self, n: int) -> str:
        """A scalar or row value."""
        i = self.code[n]
        return literal(i.detail, self.dtypes[n]) if i.name == "constant" else f"v{n}"

    def _put_value(self, depth: int, n: int, text: str) -> None:
        self.put(depth, f"const {suffix(self.dtypes[n])} v{n} = {text};")

    def _source(self, n: int) -> str:
        """A full value that is read."""
        name = self.code[n].name
        if name == "load":
            return loaded(self.element(n), self.dtypes[n])
        return f"({suffix(self.dtypes[n])})j" if name == "row_index" else self.kept_at(n)

    def _computed(self, n: int) -> str:
        """A scalar or row value from others of its kind."""
        i = self.code[n]
        if i.name == "load":
            place = "in" if i.kind == SCALAR else "x"
            return loaded(f"*{place}{i.detail}", self.dtypes[n])
        if i.name == "row_size":
            return str(self.space.length)
        return self._applied(n, [self.value(a) for a in i.args])

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


def times(index: str, step: int) -> str:
    return "0" if step == 0 else index if step == 1 else f"{index} * {step}"
