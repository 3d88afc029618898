"""What a tile program is made of: instructions, their dtypes, and the code that devices read.

program.py says what programs are for and how they are written.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..backend.protocol import (
    COLUMN as COLUMN,
    FULL as FULL,
    KINDS,
    ROW as ROW,
    ROW_REDUCTIONS,
    SCALAR as SCALAR,
    VALUE_KINDS,
)
from ..dtype import (
    DTYPES,
    DType,
    Scalar,
    bool_,
    computed_in,
    float32,
    int64,
    promote,
)
from .schedule import phases_of

# Instructions that ask where in its row an element stands.
POSITIONAL = frozenset({"row_index", "row_size", "gather", "add_at"})
MAX_OPERANDS, MAX_INSTRUCTIONS = 24, 256


class ProgramError(ValueError):
    """A program that has no meaning, or none for these dtypes."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """name(args) as a value; `detail` is a load's or store's operand, a constant, a dtype."""

    name: str
    args: tuple[int, ...]  # numbers of earlier instructions
    kind: str
    detail: Any = None

    @property
    def is_row_reduction(self) -> bool:
        """Does it read a whole row to give one number for it?"""
        return self.name in ROW_REDUCTIONS or self.name == "gather"

    @property
    def text(self) -> str:
        parts = [f"%{a}" for a in self.args]
        if self.name == "store":
            return f"store {self.detail}, {parts[0]}"
        if self.detail is not None:
            parts.append(str(self.detail))
        return " ".join([self.name, ", ".join(parts)]).rstrip()


@dataclass(frozen=True)
class Program:
    """A program for all dtypes that it has a meaning for."""

    name: str
    arguments: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    inputs: tuple[str, ...]  # kinds
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.inputs) + len(self.outputs) > MAX_OPERANDS:
            raise ProgramError(
                f"[program] {self.name} has {len(self.inputs)} inputs and {len(self.outputs)} "
                f"outputs; at most {MAX_OPERANDS} operands work."
            )
        object.__setattr__(self, "_typed", {})
        object.__setattr__(self, "_hash", hash((self.name, self.instructions)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]

    @property
    def text(self) -> str:
        """One line per instruction."""
        return _listing(self, [i.kind for i in self.instructions])

    def __str__(self) -> str:
        return self.text

    def for_dtypes(
        self, inputs: tuple[DType, ...], outputs: tuple[DType, ...] | None = None
    ) -> TypedProgram:
        """The program for inputs of these dtypes, and for outputs of their own, or of these."""
        known: dict[Any, TypedProgram] = self._typed  # type: ignore[attr-defined]
        typed = known.get((inputs, outputs))
        if typed is None:
            typed = known[inputs, outputs] = _Typing(self, inputs).finish(outputs)
        return typed


@dataclass(frozen=True)
class TypedProgram:
    """A program for given dtypes: what devices run."""

    program: Program
    instructions: tuple[Instruction, ...]
    dtypes: tuple[DType, ...]  # one per instruction: what its value stands for
    inputs: tuple[DType, ...]
    outputs: tuple[DType, ...]
    code: bytes

    @property
    def input_kinds(self) -> tuple[str, ...]:
        return self.program.inputs

    @property
    def output_kinds(self) -> tuple[str, ...]:
        return self.program.outputs

    @property
    def is_elementwise(self) -> bool:
        """Does every element of its results depend on the same element of its inputs alone (and on
        its number, if there are random ones)?"""
        plain = (FULL, SCALAR)
        return all(i.kind in plain and i.name not in POSITIONAL for i in self.instructions)

    @property
    def reduces_rows(self) -> bool:
        """Does it reduce rows, in one pass over them? Then no full value waits for a reduction, and
        none is random or summed over columns."""
        for i, phase in zip(self.instructions, self.phases, strict=True):
            if i.kind == COLUMN or (i.kind == FULL and phase > 0):
                return False
        return not self.is_elementwise and not self.is_random and SCALAR not in self.output_kinds

    @cached_property
    def phases(self) -> tuple[int, ...]:
        """The pass over its row in which each instruction is computed."""
        return phases_of(self.instructions)

    @property
    def is_random(self) -> bool:
        """Does it draw numbers? Then elements depend on their position in the whole."""
        return any(i.name == "random" for i in self.instructions)

    @property
    def text(self) -> str:
        """One line per instruction, with kinds and dtypes."""
        notes = [f"{i.kind} {d}" for i, d in zip(self.instructions, self.dtypes, strict=True)]
        return _listing(self, notes)

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.code)


def _listing(program: Any, notes: list[str]) -> str:
    source = program if isinstance(program, Program) else program.program
    lines = [f"{source.name}({', '.join(source.arguments)})"]
    for number, (i, note) in enumerate(zip(program.instructions, notes, strict=True)):
        line = i.text if i.name == "store" else f"%{number} = {i.text}"
        is_silent = isinstance(program, Program) and i.name == "store"
        lines.append(f"  {line}" if is_silent else f"  {line:<24}   {note}")
    return "\n".join(lines)


class _Typing:
    """Gives every value its dtype; a number becomes one constant per dtype that it is used in."""

    def __init__(self, program: Program, inputs: tuple[DType, ...]):
        if len(inputs) != len(program.inputs):
            raise ProgramError(
                f"[program] {program.name} takes {len(program.inputs)} inputs, got {len(inputs)}."
            )
        self.program = program
        self.inputs = inputs
        self.instructions: list[Instruction] = []
        self.dtypes: list[DType] = []
        self.number: dict[int, int] = {}  # old -> new; weak values are not in it
        self.constants: dict[tuple[Any, ...], int] = {}

    def put(self, i: Instruction, args: Sequence[int], dtype: DType, detail: object = None) -> int:
        self.instructions.append(Instruction(i.name, tuple(args), i.kind, detail))
        self.dtypes.append(dtype)
        return len(self.instructions) - 1

    def fail(self, i: Instruction, problem: str) -> ProgramError:
        return ProgramError(f"[program] {self.program.name}: `{i.text}`: {problem}")

    def common_dtype(self, i: Instruction, operands: Sequence[int]) -> DType:
        """The one dtype of an instruction's operands, numbers apart."""
        found: DType | None = None
        for a in operands:
            if a not in self.number:
                continue
            dtype = self.dtypes[self.number[a]]
            if found is None:
                found = dtype
            elif computed_in(found) is not computed_in(dtype):
                raise self.fail(i, f"{found} meets {dtype}; cast one of them.")
            else:
                found = promote(found, dtype)
        if found is None:
            raise self.fail(i, "no operand has a dtype; give one by constant(number, dtype).")
        return found

    def typed_operand(self, a: int, dtype: DType) -> int:
        """An operand's number; a weak one is made in the type that dtype is computed in."""
        if a in self.number:
            return self.number[a]
        source, dtype = self.program.instructions[a], computed_in(dtype)
        if source.name == "as_number":
            cast_to = Instruction("cast", (), source.kind)
            return self.put(cast_to, (self.typed_operand(source.args[0], dtype),), dtype, dtype)
        return self.constant(source, source.detail, dtype)

    def constant(self, i: Instruction, value: Scalar, dtype: DType) -> int:
        if dtype.is_integer and value != int(value):
            raise self.fail(i, f"{value} is no {dtype}.")
        exact = float(value) if dtype.is_floating else bool(value) if dtype is bool_ else int(value)
        key = (repr(exact), dtype)
        if key not in self.constants:
            source = Instruction("constant", (), SCALAR, exact)
            self.constants[key] = self.put(source, (), dtype, exact)
        return self.constants[key]

    def finish(self, outputs: tuple[DType, ...] | None) -> TypedProgram:
        for number, i in enumerate(self.program.instructions):
            if is_weak(i):
                continue
            if i.name == "store":
                self.store(i, outputs)
            else:
                self.number[number] = self.visit(i)
        if len(self.instructions) > MAX_INSTRUCTIONS:
            raise ProgramError(
                f"[program] {self.program.name} has {len(self.instructions)} instructions; at most "
                f"{MAX_INSTRUCTIONS} work."
            )
        stores = [d for i, d in zip(self.instructions, self.dtypes, strict=True) if is_store(i)]
        instructions, dtypes = tuple(self.instructions), tuple(self.dtypes)
        code = encode(instructions, dtypes, self.inputs, self.program.inputs, stores)
        return TypedProgram(self.program, instructions, dtypes, self.inputs, tuple(stores), code)

    def store(self, i: Instruction, outputs: tuple[DType, ...] | None) -> None:
        (a,) = i.args
        if a not in self.number and outputs is None:
            raise self.fail(i, "a number has no dtype; give one by constant(number, dtype).")
        own = self.dtypes[self.number[a]] if a in self.number else outputs[i.detail]  # type: ignore[index]
        dtype = own if outputs is None else outputs[i.detail]
        self.put(i, (self.typed_operand(a, own),), dtype, i.detail)

    def visit(self, i: Instruction) -> int:
        if i.name == "load":
            return self.put(i, (), self.inputs[i.detail], i.detail)
        if i.name == "constant":
            return self.constant(i, *i.detail)
        if i.name in ("row_index", "row_size"):
            return self.put(i, (), i.detail)
        if i.name == "random":
            words = [self.typed_operand(a, int64) for a in i.args]
            for word in words:
                if self.dtypes[word] is not int64:
                    raise self.fail(i, f"seed and offset must be int64, not {self.dtypes[word]}.")
            return self.put(i, words, float32)
        if i.name == "cast":
            return self.put(i, (self.typed_operand(i.args[0], i.detail),), i.detail, i.detail)
        if i.name in ("cast_like", "computed_like"):
            dtype = self.dtypes[self.number[i.args[1]]]
            dtype = dtype if i.name == "cast_like" else computed_in(dtype)
            cast_to = Instruction("cast", (), i.kind)
            return self.put(cast_to, (self.typed_operand(i.args[0], dtype),), dtype, dtype)
        if i.name == "gather":
            x = self.number[i.args[0]]
            return self.put(i, (x, self.index(i)), self.dtypes[x])
        if i.name == "add_at":
            x, _, amount = i.args
            dtype = self.common_dtype(i, (x, amount))
            return self.put(i, (self.number[x], self.index(i), self.number[amount]), dtype)
        return self.function(i)

    def index(self, i: Instruction) -> int:
        """The number of an instruction's second operand, a position in the row."""
        number = self.number[i.args[1]]
        if not self.dtypes[number].is_integer:
            raise self.fail(i, f"expected an integer index, got {self.dtypes[number]}.")
        return number

    def function(self, i: Instruction) -> int:
        condition: tuple[int, ...] = ()
        operands = i.args
        if i.name == "where":
            condition, operands = i.args[:1], i.args[1:]
            if self.common_dtype(i, condition) is not bool_:
                raise self.fail(i, "the condition must be bool.")
        dtype = self.common_dtype(i, operands)
        kind = KINDS.get(i.name)
        if kind == "floating" and not dtype.is_floating:
            raise self.fail(i, f"expected a floating dtype, got {dtype}.")
        args = [self.typed_operand(a, bool_) for a in condition]
        args += [self.typed_operand(a, dtype) for a in operands]
        return self.put(i, args, bool_ if kind == "predicate" else dtype)


def is_weak(i: Instruction) -> bool:
    """Does it take its dtype from what it meets?"""
    return i.name == "as_number" or (i.name == "constant" and not isinstance(i.detail, tuple))


def is_store(i: Instruction) -> bool:
    return i.name == "store"


def encode(
    instructions: Sequence[Instruction],
    dtypes: Sequence[DType],
    inputs: Sequence[DType],
    input_kinds: Sequence[str],
    outputs: Sequence[DType],
) -> bytes:
    """Counts, operands, function names, then 17 bytes an instruction; see native/tile/program.h."""
    names = list(dict.fromkeys(i.name for i in instructions))
    position = {d: n for n, d in enumerate(DTYPES)}
    parts = [struct.pack("<4sBBBH", b"tile", len(inputs), len(outputs), len(names),
                         len(instructions))]  # fmt: skip
    for dtype, kind in zip(inputs, input_kinds, strict=True):
        parts.append(bytes([position[dtype], VALUE_KINDS.index(kind)]))
    parts.append(bytes(position[dtype] for dtype in outputs))
    parts.extend(bytes([len(n)]) + n.encode() for n in names)
    for i, dtype, phase in zip(instructions, dtypes, phases_of(instructions), strict=True):
        args = (*i.args, *(0xFFFF,) * (3 - len(i.args)))
        head = names.index(i.name), position[dtype], min(phase, 0xFF)
        parts.append(struct.pack("<BBBHHH", *head, *args))
        parts.append(_payload(i, dtype))
    return b"".join(parts)


def _payload(i: Instruction, dtype: DType) -> bytes:
    if i.name == "constant" and dtype.is_floating:
        return struct.pack("<d", i.detail)
    return struct.pack("<q", i.detail if i.name in ("constant", "load", "store") else 0)
