"""Tile programs: fused elementwise, row and column computations as one kernel call.

A program is a list of instructions over values, written as a Python function that is run once with
symbols for the values:

>>> @program
... def softmax(x: Symbol) -> Symbol:
...     e = exp(x - row_max(x))
...     return e / row_sum(e)
>>> print(softmax.text)
softmax(x)
  %0 = load 0                full
  %1 = row_max %0            row
  %2 = subtract %0, %1       full
  %3 = exp %2                full
  %4 = row_sum %3            row
  %5 = divide %3, %4         full
  store 0, %5

`Backend.run` executes it over the broadcast of its operands' shapes. The last `inner` axes of that
shape are the *row*. A value is of one of four kinds, and mixes with those before it in this list:

- scalar: one for the whole call (constants, inputs annotated `Scalar`)
- row: one per row (inputs annotated `Row`, row reductions and what is computed from them)
- full: one per element (all other inputs)
- column: one per position in the row: the result of column_sum, which can only be returned

`random` values are full: a number of a Philox stream for each element, by its position in C order.

Types are fixed by `for_dtypes`. Operands of one function must agree in the type that they are
computed in (halves count as float32, small integers as int32); Python numbers and `as_number` take
the type of the other operand, `cast` does the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, overload

from ..backend.protocol import BINARY, UNARY, VALUE_KINDS
from ..dtype import Scalar as Number, computed_in, dtype_of, int64
from .ir import (
    COLUMN,
    FULL,
    ROW,
    SCALAR,
    Instruction as Instruction,
    Program as Program,
    ProgramError as ProgramError,
    TypedProgram as TypedProgram,
)

if TYPE_CHECKING:
    from ..types import DTypeLike

# Symbols and their builder ----------------------------------------------------------------------


Unary = Callable[["Symbol"], "Symbol"]
Binary = Callable[["SymbolLike", "SymbolLike"], "Symbol"]


def _unary(name: str) -> Unary:
    return lambda x: apply(name, x)


def _binary(name: str) -> Binary:
    return lambda a, b: apply(name, a, b)


def _both_ways(name: str) -> tuple[Binary, Binary]:
    """An operator, and its reflection: 1 - x."""
    return _binary(name), lambda a, b: apply(name, b, a)


class Symbol:
    """The result of one instruction, while a program is being written."""

    __slots__ = ("builder", "number")

    def __init__(self, builder: Builder, number: int):
        self.builder = builder
        self.number = number

    @property
    def kind(self) -> str:
        return self.builder.instructions[self.number].kind

    __add__, __radd__ = _both_ways("add")
    __sub__, __rsub__ = _both_ways("subtract")
    __mul__, __rmul__ = _both_ways("multiply")
    __truediv__, __rtruediv__ = _both_ways("divide")
    __pow__, maximum = _binary("power"), _binary("maximum")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __neg__, square = _unary("negative"), _unary("square")
    sqrt, sign = _unary("sqrt"), _unary("sign")

    def __bool__(self) -> bool:
        raise TypeError("[program] a value has no truth of its own; choose with where(cond, a, b).")


class Row(Symbol):
    """As an annotation of an input: one element per row."""


class Scalar(Symbol):
    """As an annotation of an input: one element for the whole call."""


SymbolLike = Symbol | Number

_active: ContextVar[Builder] = ContextVar("builder")


class Builder:
    """Instructions one after the other; equal ones are made once."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.inputs: list[str] = []  # their kinds
        self._known: dict[tuple[Any, ...], int] = {}

    def emit(self, name: str, args: tuple[int, ...], kind: str, detail: object = None) -> Symbol:
        key = (name, args, type(detail), repr(detail))
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.instructions)
            self.instructions.append(Instruction(name, args, kind, detail))
        return Symbol(self, number)

    def input(self, kind: str = FULL) -> Symbol:
        """The next input."""
        self.inputs.append(kind)
        return self.emit("load", (), kind, len(self.inputs) - 1)

    def value(self, operand: SymbolLike) -> Symbol:
        """A number as a constant without a type of its own; a value as it is."""
        if not isinstance(operand, Symbol):
            if not isinstance(operand, (bool, int, float)):
                raise TypeError(f"[program] expected a value or a number, got {operand!r}.")
            return self.emit("constant", (), SCALAR, operand)
        if operand.builder is not self:
            raise ProgramError("[program] a value of another program cannot be used here.")
        return operand

    def apply(self, name: str, *operands: SymbolLike, detail: object = None) -> Symbol:
        """An elementwise function: the widest kind of its operands."""
        values = [self.value(v) for v in operands]
        kinds = [v.kind for v in values]
        if COLUMN in kinds:
            raise ProgramError(f"[program] {name}: a column value can only be returned.")
        kind = max(kinds, key=VALUE_KINDS.index)
        return self.emit(name, tuple(v.number for v in values), kind, detail)

    def reduce(self, name: str, kind: str, x: SymbolLike, *others: Symbol) -> Symbol:
        """A reduction of a full value."""
        x = self.value(x)
        if x.kind != FULL:
            raise ProgramError(f"[program] {name}: expected a full value, got a {x.kind} value.")
        return self.emit(name, (x.number, *(v.number for v in others)), kind)

    def finish(self, name: str, arguments: Sequence[str], *results: SymbolLike) -> Program:
        """The program that returns these values: what does not contribute is left out."""
        stored = [self.value(r).number for r in results]
        needed = set(stored)
        for number in reversed(range(len(self.instructions))):
            if self.instructions[number].name == "load":
                needed.add(number)  # inputs keep their places
            if number in needed:
                needed.update(self.instructions[number].args)
        new: dict[int, int] = {}
        kept: list[Instruction] = []
        for number in sorted(needed):
            i = self.instructions[number]
            new[number] = len(kept)
            kept.append(Instruction(i.name, tuple(new[a] for a in i.args), i.kind, i.detail))
        outputs = tuple(self.instructions[n].kind for n in stored)
        for place, number in enumerate(stored):
            kept.append(Instruction("store", (new[number],), outputs[place], place))
        return Program(name, tuple(arguments), tuple(kept), tuple(self.inputs), outputs)


# Writing programs -------------------------------------------------------------------------------


@overload
def program(function: Callable[..., object]) -> Program: ...
@overload
def program(*, name: str) -> Callable[[Callable[..., Any]], Program]: ...
def program(function: Callable[..., object] | None = None, *, name: str | None = None) -> Any:
    """Make a program of a function from values to a value or a tuple of values."""
    if function is None:
        return lambda f: _traced(f, name or f.__name__)
    return _traced(function, function.__name__)


def _traced(function: Callable[..., object], name: str) -> Program:
    kinds = {"Row": ROW, "Scalar": SCALAR}
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        raise ProgramError(f"[program] {name}: the number of inputs must be fixed, not *args.")
    words = [
        p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", "")
        for p in parameters
    ]
    found = [kinds.get(word.rpartition(".")[2], FULL) for word in words]
    return trace(function, name, [p.name for p in parameters], found)


def trace(
    function: Callable[..., object], name: str, arguments: Sequence[str], kinds: Sequence[str] = ()
) -> Program:
    """The program of a function of named values; their kinds are full where none is given."""
    builder = Builder()
    values = [builder.input(kind) for kind in kinds or (FULL,) * len(arguments)]
    token = _active.set(builder)
    try:
        results = function(*values)
    finally:
        _active.reset(token)
    return builder.finish(name, arguments, *(results if isinstance(results, tuple) else (results,)))


def _builder(*operands: object) -> Builder:
    for operand in operands:
        if isinstance(operand, Symbol):
            return operand.builder
    try:
        return _active.get()
    except LookupError:
        raise ProgramError("[program] this works inside of a @program function only.") from None


def apply(name: str, *operands: SymbolLike) -> Symbol:
    """An elementwise function by name."""
    expected = 1 if name in UNARY else 2 if name in BINARY else None
    if expected is None:
        raise ProgramError(f"[program] there is no elementwise function {name!r}.")
    if len(operands) != expected:
        raise ProgramError(f"[program] {name} takes {expected} operands, got {len(operands)}.")
    return _builder(*operands).apply(name, *operands)


def where(condition: Symbol, a: SymbolLike, b: SymbolLike) -> Symbol:
    """a where the condition (bool) holds, else b."""
    return _builder(condition, a, b).apply("where", condition, a, b)


def cast(x: Symbol, to: object) -> Symbol:
    """x rounded to a dtype, or to that of another value."""
    if isinstance(to, Symbol):
        builder = _builder(x)
        return builder.emit("cast_like", (x.number, to.number), x.kind)
    return _builder(x).apply("cast", x, detail=dtype_of(to))


def computed_like(x: Symbol, other: Symbol) -> Symbol:
    """x in the type that another value is computed in: `cast`, but halves do not round it."""
    return _builder(x).emit("computed_like", (x.number, other.number), x.kind)


def constant(value: Number, dtype: DTypeLike) -> Symbol:
    """A number of a dtype."""
    return _builder().emit("constant", (), SCALAR, (value, computed_in(dtype_of(dtype))))


def row_index() -> Symbol:
    """The position of each element in its row: 0, 1, 2, ..., int64."""
    return _builder().emit("row_index", (), FULL, int64)


def row_size() -> Symbol:
    """The number of elements in a row, int64."""
    return _builder().emit("row_size", (), SCALAR, int64)


def as_number(x: Symbol) -> Symbol:
    """x in the type of what it meets, as a Python number would be: halves do not round it."""
    return _builder(x).emit("as_number", (x.number,), x.kind)


def random(seed: SymbolLike, offset: SymbolLike) -> Symbol:
    """Numbers in [0, 1), float32: what the kernel `random` gives as "uniform" for this seed and
    offset to the element's position in C order. Both are int64 scalars; all their bits count."""
    builder = _builder(seed, offset)
    words = [builder.value(word) for word in (seed, offset)]
    for word in words:
        if word.kind != SCALAR:
            raise ProgramError(f"[program] random: expected scalars, got a {word.kind} value.")
    return builder.emit("random", tuple(word.number for word in words), FULL)


def _reduction(name: str) -> Callable[[Symbol], Symbol]:
    kind = COLUMN if name == "column_sum" else ROW

    def reduction(x: Symbol) -> Symbol:
        return _builder(x).reduce(name, kind, x)

    return reduction


row_sum, row_prod = _reduction("row_sum"), _reduction("row_prod")
row_max, row_min = _reduction("row_max"), _reduction("row_min")  # NaN if one is
column_sum = _reduction("column_sum")


def row_mean(x: Symbol) -> Symbol:
    """The mean of each row."""
    count = x.builder.emit("row_size", (), SCALAR, int64)
    return row_sum(x) / as_number(count)


def gather(x: Symbol, index: Symbol) -> Symbol:
    """The element of each row at a position, a row value of an integer dtype; 0 outside of it."""
    if index.kind not in (SCALAR, ROW):
        raise ProgramError(f"[program] gather: expected a row value as index, got {index.kind}.")
    return _builder(x).reduce("gather", ROW, x, index)


def add_at(x: Symbol, index: Symbol, amount: Symbol) -> Symbol:
    """x with a row value added at a position of each row, if it is in the row."""
    if x.kind != FULL:
        raise ProgramError(f"[program] add_at: expected a full value, got a {x.kind} value.")
    if index.kind not in (SCALAR, ROW) or amount.kind not in (SCALAR, ROW):
        raise ProgramError("[program] add_at: expected row values as index and amount.")
    return _builder(x).emit("add_at", (x.number, index.number, amount.number), FULL)


abs, sign, round = _unary("abs"), _unary("sign"), _unary("round")  # halves to even
square, sqrt, rsqrt = _unary("square"), _unary("sqrt"), _unary("rsqrt")
exp, expm1, log, log1p = _unary("exp"), _unary("expm1"), _unary("log"), _unary("log1p")
sin, cos, erf = _unary("sin"), _unary("cos"), _unary("erf")
relu, tanh, sigmoid = _unary("relu"), _unary("tanh"), _unary("sigmoid")
gelu, gelu_slope = _unary("gelu"), _unary("gelu_slope")
isfinite, logical_not = _unary("isfinite"), _unary("logical_not")
logical_and, logical_or = _binary("logical_and"), _binary("logical_or")
maximum, minimum = _binary("maximum"), _binary("minimum")
equal, not_equal = _binary("equal"), _binary("not_equal")
