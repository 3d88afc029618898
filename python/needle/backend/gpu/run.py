"""Running tile programs: which kernels a call takes, and over which spaces (programs.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..._native import cuda
from ...dtype import DType
from ..protocol import Operand, Steps
from . import programs, views
from .modules import by_rank_of, kernel_of
from .programs import COLUMN, FULL, ROW, SCALAR, Code
from .reduce import ENOUGH_BLOCKS, THREADS, WARP, reduce

if TYPE_CHECKING:
    from ...tile.program import TypedProgram

PER_THREAD = 4  # elements of elementwise kernels, as operand.cuh has them
LEAST_ROWS = 32  # in a piece of rows whose columns are summed


def run(
    program: TypedProgram, outs: Sequence[Operand], ins: Sequence[Operand], inner: int = 1
) -> None:
    code = _code(program)
    shape = np.broadcast_shapes(*(tuple(o.shape) for o in (*outs, *ins)))
    kinds = program.output_kinds
    if program.is_elementwise:
        if FULL in kinds:
            _run_elementwise(code, outs, ins, shape)
    else:
        call = _Call(code, program.phases, outs, ins, shape, len(shape) - inner)
        if COLUMN in kinds:  # first: its inputs may be the memory of other outputs
            _run_columns(call)
        if FULL in kinds or ROW in kinds:
            _run_rows(call.part("rows", code.stores(FULL, ROW)))
    if SCALAR in kinds:  # last, for the same reason
        call = _Call(code, program.phases, outs, ins, shape, len(shape) - inner)
        _run_scalars(call.part("scalars", code.stores(SCALAR)))


def run_each(
    program: TypedProgram, calls: Sequence[tuple[Sequence[Operand], Sequence[Operand]]]
) -> None:
    for outs, ins in calls:
        run(program, outs, ins, 0)


@cache
def _code(program: TypedProgram) -> Code:
    return programs.code_of(program)


class _Call:
    """A program with its operands over rows: the axes of a shape before and after a cut."""

    def __init__(
        self, code: Code, phases: Sequence[int], outs: Sequence[Operand], ins: Sequence[Operand],
        shape: Steps, cut: int,
    ):  # fmt: skip
        self.code, self.phases, self.outs, self.ins = code, phases, outs, ins
        self.shape, self.cut = shape, cut

    @property
    def rows(self) -> int:
        return math.prod(self.shape[: self.cut])

    @property
    def length(self) -> int:
        return math.prod(self.shape[self.cut :])

    def part(self, name: str, stores: Sequence[int]) -> _Call:
        """The call of a part of the program, with the outputs that it stores."""
        outs = [self.outs[self.code.instructions[n].detail] for n in stores]
        code = self.code.part(name, stores)
        return _Call(code, self.phases, outs, self.ins, self.shape, self.cut)

    def strides(self) -> list[Steps]:
        return [_spread(o, self.shape) for o in (*self.outs, *self.ins)]

    def ranks(self) -> tuple[dict[str, int], bytes]:
        """The definitions OUTER and INNER, and the bytes of Rows after the first addresses."""
        strides = self.strides()
        outer, of_rows = views.space(self.shape[: self.cut], [s[: self.cut] for s in strides])
        inner, of_elements = views.space(self.shape[self.cut :], [s[self.cut :] for s in strides])
        addresses = bytes(8 * len(strides))
        return {"OUTER": outer, "INNER": inner}, of_rows + addresses + of_elements

    def room(self, dtypes: Sequence[DType]) -> list[views.View]:
        """New operands with an element for each row."""
        shape = (*self.shape[: self.cut], *(1,) * (len(self.shape) - self.cut))
        return [views.new(shape, dtype) for dtype in dtypes]


def _spread(o: Operand, shape: Steps) -> Steps:
    """The strides of an operand over a shape; one element serves all of it."""
    if math.prod(o.shape) == 1:
        return (0,) * len(shape)
    return views.broadcast_strides(o, shape)


def _run_elementwise(
    code: Code, outs: Sequence[Operand], ins: Sequence[Operand], shape: Steps
) -> None:
    stores = code.stores(FULL)
    part = code if len(stores) == len(outs) else code.part("elements", stores)
    written = tuple(outs[code.instructions[n].detail] for n in stores)
    read = tuple(views.seen_as(a, (), ()) if math.prod(a.shape) == 1 else a for a in ins)
    find = by_rank_of(_elementwise(part), part.name)
    if not code.is_random:
        return cuda.launch_each(find, written, read, b"", part.name)
    if 0 in shape:
        return
    strides = [*(_spread(o, shape) for o in (*written, *read)), views.compact_strides(shape)]
    rank, tail = views.space(shape, strides)
    count = math.prod(shape)
    threads = min(THREADS, views.blocks_for(count, PER_THREAD * WARP) * WARP)
    blocks = views.blocks_for(count, PER_THREAD * threads)
    find(rank).launch(blocks, threads, written, read, bytes(8) + tail)


_elementwise = cache(programs.elementwise)
_rows = cache(programs.rows)
_columns = cache(programs.columns)
_scalars = cache(programs.scalars)


def _run_rows(call: _Call) -> None:
    if call.rows == 0:
        return
    definitions, tail = call.ranks()
    team = _team(call)
    text = _rows(call.code, tuple(call.phases))
    kernel = kernel_of(text, call.code.name, TEAM=team, **definitions)
    blocks = views.blocks_for(call.rows * team, THREADS)
    kernel.launch(blocks, THREADS, tuple(call.outs), tuple(call.ins), tail)


def _team(call: _Call) -> int:
    """How many threads share a row: neighbours in memory should be neighbours in a warp."""
    strides = max(call.strides(), key=lambda s: sum(map(bool, s)))
    both = list(zip(call.shape, strides, strict=True))
    down, along = (
        min((abs(s) for n, s in part if n > 1 and s != 0), default=math.inf)
        for part in (both[: call.cut], both[call.cut :])
    )
    if call.length < WARP // 4 or down < along:
        return 1
    return WARP if call.length <= 8 * WARP else THREADS


def _run_columns(call: _Call) -> None:
    code = call.code.part("columns", call.code.stores(COLUMN))
    stores = code.stores(COLUMN)
    outs = [call.outs[call.code.instructions[n].detail] for n in stores]
    sums = [code.instructions[n].args[0] for n in stores]
    known = [n for n in code.needed(sums) if code.instructions[n].is_row_reduction]
    ins = list(call.ins)
    if known:
        storing = call.code.storing(known)
        rooms = call.room(storing.outs)
        phases = (*call.phases, *(call.phases[n] + 1 for n in known))
        _run_rows(_Call(storing, phases, rooms, ins, call.shape, call.cut))
        code, ins = code.loading(known), [*ins, *rooms]
    if call.length == 0:
        return
    blocks = views.blocks_for(call.length)
    piece = max(LEAST_ROWS, -(-call.rows * blocks // ENOUGH_BLOCKS))
    pieces = max(1, -(-call.rows // piece))
    totals = [programs.total_dtype(code.dtypes[n]) for n in sums]
    along = call.shape[call.cut :]
    made = outs
    if pieces > 1:
        made = [views.new((pieces, *along), dtype) for dtype in totals]
        lines = [views.one_of(m, 0) for m in made]
        _launch_columns(replace(code, outs=tuple(totals)), call, lines, ins, piece, pieces)
        for out, total in zip(outs, made, strict=True):
            last = views.seen_as(out, (1, *along), (1, *_spread(out, call.shape)[call.cut :]))
            reduce("sum", last, total)
    else:
        _launch_columns(code, call, made, ins, piece, 1)


def _launch_columns(
    code: Code, call: _Call, outs: Sequence[Operand], ins: Sequence[Operand],
    piece: int, pieces: int,
) -> None:  # fmt: skip
    part = _Call(code, call.phases, outs, ins, call.shape, call.cut)
    definitions, tail = part.ranks()
    kernel = kernel_of(_columns(code), code.name, **definitions)
    grid = (views.blocks_for(call.length), pieces)
    kernel.launch(grid, THREADS, tuple(outs), tuple(ins), tail + views.members("I", piece))


def _run_scalars(call: _Call) -> None:
    definitions, tail = call.ranks()
    kernel = kernel_of(_scalars(call.code), call.code.name, **definitions)
    kernel.launch(1, 1, tuple(call.outs), tuple(call.ins), tail)
