"""Fusion: calls that pass elements to one another become one tile program.

A fusible node (`fusible.py`) starts as a group of its own (`groups.py`) and joins the groups that
compute its inputs if three conditions hold: their spaces have a common refinement, each point of it
reads the elements that were computed at the same point, and no call outside the group would have to
run both before and after it. A group becomes one `run` call, and values that no other call needs
are never stored.

Programs over rows that the native core has as one loop (`native/tile/builtin.h`) take half the time
of others, which is more than fusion can save: softmax and its gradient of 4096 x 1024 elements take
3.5 ms as one program, and 2.1 as two. So they stay apart unless the group's own is built in too.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from operator import itemgetter
from typing import Any

from ...ndarray.layout import Shape, broadcast_shapes
from ...tile.ir import COLUMN, FULL, ROW, SCALAR
from ...tile.program import Builder, Program, ProgramError, Symbol
from ..ir.effects import Effects
from ..ir.graph import FlatValue, Graph, Node, Operand
from ..passes.rules import constant_of
from ..passes.simplify import eliminate_dead_code
from ..passes.split import split_reductions
from .fusible import FusibleNode, as_fusible, typed_constant
from .groups import Group, is_any_between, kind_in, meet, over, update_latest
from .spaces import Access, count_of

# Of a program; the device takes a few more operands, and 256 instructions with loads and stores.
MOST_OPERANDS, MOST_INSTRUCTIONS, MOST_PASSES = 20, 216, 15
MOST_FUSED = 64
CALLER = -1  # the position of whoever gets the graph's results


class Fusion:
    """The groups of a graph, while they grow. The calls in `apart` join no group."""

    def __init__(self, graph: Graph, apart: Collection[Node] = ()):
        self.graph = graph
        self.apart = {id(node) for node in apart}
        self.groups: dict[FlatValue, Group] = {}  # by the values that they compute
        self.all: list[Group] = []  # also those that were merged into others
        self.scalars: Group | None = None  # the last group of calls on single numbers
        self.readers: dict[FlatValue, set[int]] = {}  # the positions of the calls that read a value
        self.made: dict[FlatValue, Node] = {}  # the call that computes a value
        self.effects = Effects(graph.nodes)
        # For a call that overwrites memory, those that must have read it before.
        self.readers_before = self.effects.readers_before(graph.nodes)
        for position, node in enumerate(graph.nodes):
            self.made.update({o.value: node for o in node.outs})
            for value in node.reads():
                self.readers.setdefault(value, set()).add(position)
        for result in graph.results:
            self.readers.setdefault(result.value, set()).add(CALLER)

    def run(self) -> Graph:
        for position, node in enumerate(self.graph.nodes):
            self._add(position, node)
        return self.graph.with_nodes(self._ordered())

    def number_in(self, x: Access) -> int | float | None:
        """The number that every element of a value is, if that is known."""
        node = self.made.get(x.value)
        if node is None or node.kernel != "fill" or node.continues:
            return None
        return constant_of(node.outs[0], self.made)

    def is_read_outside(self, value: FlatValue, positions: Iterable[int]) -> bool:
        """Does a call at another position, or the caller, read a value?"""
        return not self.readers.get(value, set()).issubset(positions)

    def _add(self, position: int, node: Node) -> None:
        fusible = None if id(node) in self.apart else as_fusible(node)
        group = Group(fusible, node, position)
        self.all.append(group)
        sources = [self.groups.get(value) for value in node.reads()]
        sources += [self.all[i].root() for i in self.readers_before.get(position, ())]
        for source in sources:
            if source is not None:
                group.needs.add(source)
                source.users.add(group)
        for out in node.outs:
            self.groups[out.value] = group
        if fusible is not None:
            for source in sorted(group.needs, key=lambda g: -g.positions[-1]):
                if source.members and source.joined is None and self._may_join(source, group):
                    group = self._join(source, group)
            self._join_scalars(group)

    def _join_scalars(self, group: Group) -> None:
        """Calls on single numbers run together, even if they do not depend on each other."""
        if group.space or group.row:
            return
        other = None if self.scalars is None else self.scalars.root()
        if other is not None and other is not group and self._may_join(other, group):
            group = self._join(other, group)
        self.scalars = group

    # May two groups be one? -----------------------------------------------------------------

    def _may_join(self, a: Group, b: Group) -> bool:
        """May b, which comes after a and may use what it computes, be one group with it?"""
        if not _has_room(a, b) or is_any_between(a, b):
            return False
        met = meet(a, b)
        if met is None:
            return False
        space, row = met
        computed = {v: (entry, kind, fusible) for v, entry, kind, fusible in a.values}
        for fusible in b.members:
            for entry, kind in zip(fusible.inputs, fusible.input_kinds, strict=True):
                if not isinstance(entry, Access) or entry.value not in computed:
                    continue
                source, source_kind, maker = computed[entry.value]
                if source_kind == COLUMN:
                    return False
                here = over(entry, kind_in(fusible, kind, space), fusible, space, row)
                there = over(source, kind_in(maker, source_kind, space), maker, space, row)
                if here != there:
                    return False
        return self._count_operands(a, b) <= MOST_OPERANDS

    def _count_operands(self, a: Group, b: Group) -> int:
        """How many operands the program of both would load and store."""
        positions = {*a.positions, *b.positions}
        made = {v for g in (a, b) for v, *_ in g.values}
        loads = {
            (entry.value, entry.offset)
            for g in (a, b)
            for fusible in g.members
            for entry in fusible.inputs
            if isinstance(entry, Access)
            if entry.value not in made and self.number_in(entry) is None
        }
        stores = [v for v in made if self.is_read_outside(v, positions)]
        return len(loads) + len(stores)

    def _join(self, a: Group, b: Group) -> Group:
        """Merge b into a."""
        met = meet(a, b)
        assert met is not None
        a.space, a.row = met
        both = zip(a.positions + b.positions, a.members + b.members, strict=True)
        in_order = sorted(both, key=itemgetter(0))
        a.positions = [position for position, _ in in_order]
        a.members = [fusible for _, fusible in in_order]
        a.nodes = [fusible.node for fusible in a.members]
        for value, *_ in b.values:
            self.groups[value] = a
        b.joined = a
        a.needs = {g.root() for g in a.needs | b.needs} - {a}
        a.users |= b.users
        a.latest = max(a.latest, b.latest)
        update_latest(a)
        return a

    # Calls ----------------------------------------------------------------------------------

    def _ordered(self) -> list[Node]:
        """The calls of all groups in topological order; of those that are ready, the one whose last
        call came first in the graph."""
        groups = [g for g in self.all if g.joined is None]
        users: dict[Group, list[Group]] = {}
        waiting: dict[Group, int] = {}
        for group in groups:
            needs = {g.root() for g in group.needs} - {group}
            waiting[group] = len(needs)
            for source in needs:
                users.setdefault(source, []).append(group)
        # Positions are distinct, so the heap never compares groups.
        ready = [(g.positions[-1], g) for g in groups if not waiting[g]]
        heapq.heapify(ready)
        nodes: list[Node] = []
        while ready:
            _, group = heapq.heappop(ready)
            nodes.extend(self._calls(group))
            for user in users.get(group, ()):
                waiting[user] -= 1
                if waiting[user] == 0:
                    heapq.heappush(ready, (user.positions[-1], user))
        return nodes

    def slowed(self) -> list[Node]:
        """The calls of built-in programs in groups whose own program is not built in."""
        found: list[Node] = []
        for group in self.all:
            built_in = [node for node in group.nodes if is_builtin(node)]
            if group.joined is None and len(group.members) > 1 and built_in:
                calls = self._calls(group)
                found += built_in if len(calls) == 1 and not is_builtin(calls[0]) else []
        return found

    def _calls(self, group: Group) -> list[Node]:
        if len(group.members) < 2:
            return group.nodes
        try:
            return [self._program_call(group)]
        except ProgramError:
            return group.nodes  # what a program cannot express runs call by call

    def as_program(self, position: int, node: Node) -> Node | None:
        """A single call as a program, if it can be one."""
        fusible = as_fusible(node)
        try:
            return None if fusible is None else self._program_call(Group(fusible, node, position))
        except ProgramError:
            return None

    def _program_call(self, group: Group) -> Node:
        draft = _ProgramWriter(self, group)
        writer = _ProgramWriter(self, group, draft.loads)  # a program begins with all of its loads
        outer = len(group.space) - (count_of(group.space, group.row) or 0)
        results: list[Symbol] = []
        outs: list[Operand] = []
        for value, entry, kind, fusible in group.values:
            if not self.is_read_outside(value, group.positions):
                continue
            symbol = writer.symbols[value]
            kind = kind_in(fusible, kind, group.space)
            if symbol.kind != kind:
                raise ProgramError(f"{value} is stored as {kind} but computed as {symbol.kind}")
            results.append(symbol)
            steps = over(entry, kind, fusible, group.space, group.row).steps
            outs.append(_operand(entry, steps, group.space, kind, outer))
        ins = [_operand(e, e.steps, group.space, k, outer) for e, k in writer.loads]
        shapes = (x.shape for x in (*outs, *ins))
        if group.is_random and broadcast_shapes("run", *shapes) != group.space:
            raise ProgramError("no operand shows how many numbers are drawn")
        names = [f"x{i}" for i in range(len(ins))]
        program: Program = writer.builder.finish("fused", names, *results)
        typed = program.for_dtypes(tuple(x.dtype for x in ins), tuple(out.dtype for out in outs))
        inner = len(group.space) - outer
        args = (typed, tuple(outs), tuple(ins), inner)
        return group.nodes[-1].instead("run", args, tuple(outs))


def _has_room(a: Group, b: Group) -> bool:
    """Has one program room for both?"""
    members = a.members + b.members
    if len(members) > MOST_FUSED or sum(p.size for p in members) > MOST_INSTRUCTIONS:
        return False
    if sum(p.passes for p in members) <= MOST_PASSES:
        return True
    waits: dict[FlatValue, int] = {}  # how many passes over the row a value waits for
    for _, fusible in sorted(
        zip(a.positions + b.positions, members, strict=True), key=itemgetter(0)
    ):
        values = [x.value for x in fusible.inputs if isinstance(x, Access)]
        after = max((waits.get(value, 0) for value in values), default=0) + fusible.passes
        waits |= {out.value: after for out in fusible.outputs}
    return max(waits.values()) <= MOST_PASSES


def is_builtin(node: Node) -> bool:
    """Does the device have this call's program, over rows, as a loop of its own?"""
    return (
        node.kernel == "run" and node.args[3] > 0 and node.device.offers.has_built_in(node.args[0])
    )


def _operand(entry: Access, steps: Shape, space: Shape, kind: str, outer: int) -> Operand:
    """An access as the operand of a call: size 1 where its kind has no elements."""
    spans = {
        FULL: (True, True), ROW: (True, False), COLUMN: (False, True), SCALAR: (False, False)
    }[kind]  # fmt: skip
    shape = tuple(n if spans[i >= outer] else 1 for i, n in enumerate(space))
    return Operand(entry.value, shape, steps, entry.offset)


class _ProgramWriter:
    """Writes the instructions of a group's fusible nodes, one after the other. Operands that are
    known to be loaded can be given in advance."""

    def __init__(self, fusion: Fusion, group: Group, loads: Iterable[tuple[Access, str]] = ()):
        self.fusion = fusion
        self.group = group
        self.builder = Builder()
        # What is read from memory, in the order of the program's inputs.
        self.loads = {(entry, kind): self.builder.input(kind) for entry, kind in loads}
        self.symbols: dict[FlatValue, Symbol] = {}  # what the fusible nodes have computed so far
        for fusible in group.members:
            self._add(fusible)

    def _add(self, fusible: FusibleNode) -> None:
        group = self.group
        full = kind_in(fusible, FULL, group.space)
        entries = [
            over(e, kind_in(fusible, k, group.space), fusible, group.space, group.row)
            if isinstance(e, Access)
            else e
            for e, k in zip(fusible.inputs, fusible.input_kinds, strict=True)
        ]
        kinds = [self._kind_of(e) for e in entries]
        is_narrow = full not in kinds and ROW not in fusible.input_kinds and not fusible.is_random
        if is_narrow and self._needs_all(fusible):
            # Its result has an element for each position, so an operand must have one too.
            kinds = [full if self._is_loaded(e) else k for e, k in zip(entries, kinds, strict=True)]
        symbols = [self._symbol(e, k) for e, k in zip(entries, kinds, strict=True)]
        for out, symbol in zip(fusible.outputs, fusible.emit(self.builder, symbols), strict=True):
            self.symbols[out.value] = symbol

    def _kind_of(self, entry: Any) -> str:
        """The narrowest kind that has all elements of an access."""
        if isinstance(entry, Access) and entry.value in self.symbols:
            return self.symbols[entry.value].kind
        if not self._is_loaded(entry) or not any(entry.steps):
            return SCALAR
        inner = count_of(self.group.space, self.group.row) or 0
        outer = len(entry.steps) - inner
        return ROW if inner and not any(entry.steps[outer:]) else FULL

    def _symbol(self, entry: object, kind: str) -> Any:
        if not isinstance(entry, Access):
            return entry
        if entry.value in self.symbols:
            return self.symbols[entry.value]
        number = self.fusion.number_in(entry)
        if number is not None:
            return typed_constant(self.builder, number, entry.value.dtype)
        if (entry, kind) not in self.loads:
            self.loads[entry, kind] = self.builder.input(kind)
        return self.loads[entry, kind]

    def _is_loaded(self, entry: object) -> bool:
        """Does an operand come from memory?"""
        if not isinstance(entry, Access) or entry.value in self.symbols:
            return False
        return self.fusion.number_in(entry) is None

    def _needs_all(self, fusible: FusibleNode) -> bool:
        """Is a result stored or summed, so that an element is needed for each position?"""
        own = set(self.group.positions)
        for out in fusible.outputs:
            readers = self.fusion.readers.get(out.value, set())
            inside = [self.fusion.graph.nodes[i] for i in readers & own]
            if readers - own or any(n.kernel in ("reduce", "run") for n in inside):
                return True
        return False


def fuse(graph: Graph) -> Graph:
    """The graph with tile programs in the place of calls that pass elements to one another."""
    graph = split_reductions(graph)
    fusion = Fusion(graph)
    fused = fusion.run()
    apart = fusion.slowed()
    return eliminate_dead_code(Fusion(graph, apart).run() if apart else fused)
