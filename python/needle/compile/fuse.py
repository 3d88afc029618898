"""Fusion: calls that pass elements to one another become one tile program.

Every piece starts as a group of its own and joins the groups that compute its inputs, where the
spaces fit together, elements meet the same elements, and no call outside would have to run both
before and after the group. A group becomes one `run` call: values that nobody else needs are never
stored.

Programs over rows that the native core has as one loop (`native/cpu/frozen.h`) take half the time
of others, which is more than a group can save: softmax and its gradient of 4096 x 1024 elements
take 3.5 ms as one program, and 2.1 as two. So they stay apart unless the group's program is frozen.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from typing import Any

from .. import _native
from ..backend.program import Builder, Program, ProgramError, Symbol
from ..ndarray.layout import Shape, broadcast_shapes
from .graph import FlatValue, Graph, Node, Operand
from .groups import Group, is_any_between, kind_in, make_users_late, meet, over
from .passes import without_dead
from .pieces import COLUMN, FULL, ROW, Piece, piece_of, typed_constant
from .rules import constant_of
from .spaces import Access, count_of
from .split import split_reductions

MOST_OPERANDS = 20  # of a program; the device takes a few more
MOST_PIECES = 64


class Fusion:
    """The groups of a graph, while they grow. Calls that are `apart` join none."""

    def __init__(self, graph: Graph, apart: Collection[Node] = ()):
        self.graph = graph
        self.apart = {id(node) for node in apart}
        self.groups: dict[FlatValue, Group] = {}  # by the values that they compute
        self.all: list[Group] = []
        self.numbers: Group | None = None  # the last group of calls on single numbers
        self.users: dict[FlatValue, set[int]] = {}
        self.made: dict[FlatValue, Node] = {}
        for number, node in enumerate(graph.nodes):
            self.made.update({o.value: node for o in node.outs})
            for value in node.reads():
                self.users.setdefault(value, set()).add(number)
        for result in graph.results:
            self.users.setdefault(result.value, set()).add(-1)

    def run(self) -> Graph:
        for number, node in enumerate(self.graph.nodes):
            self._add(number, node)
        return self.graph.with_nodes(self._ordered())

    def _number(self, x: Operand | Access) -> Any:
        """The number that fills a value, if that is known."""
        node = self.made.get(x.value)
        if node is None or node.kernel != "fill" or node.continues:
            return None
        return constant_of(node.outs[0], self.made)

    def _add(self, number: int, node: Node) -> None:
        piece = None if id(node) in self.apart else piece_of(node)
        group = Group(piece, node, number)
        self.all.append(group)
        for value in node.reads():
            source = self.groups.get(value)
            if source is not None:
                group.needs.add(source)
                source.users.add(group)
        for out in node.outs:
            self.groups[out.value] = group
        if piece is not None:
            for source in sorted(group.needs, key=lambda g: -g.numbers[-1]):
                if source.pieces and source.joined is None and self._may_join(source, group):
                    group = self._join(source, group)
            self._join_numbers(group)

    def _join_numbers(self, group: Group) -> None:
        """Calls on single numbers run together, even if they have nothing to do with each other."""
        if group.space or group.row:
            return
        other = None if self.numbers is None else self.numbers.now()
        if other is not None and other is not group and self._may_join(other, group):
            group = self._join(other, group)
        self.numbers = group

    # May two groups be one? -----------------------------------------------------------------

    def _may_join(self, a: Group, b: Group) -> bool:
        """May b, which uses what a computes, be one group with it?"""
        if len(a.pieces) + len(b.pieces) > MOST_PIECES or is_any_between(a, b):
            return False
        met = meet(a, b)
        if met is None:
            return False
        space, row = met
        computed = {v: (entry, kind, piece) for v, entry, kind, piece in a.values}
        for piece in b.pieces:
            for entry, kind in zip(piece.inputs, piece.input_kinds, strict=True):
                if not isinstance(entry, Access) or entry.value not in computed:
                    continue
                source, source_kind, maker = computed[entry.value]
                if source_kind == COLUMN:
                    return False
                here = over(entry, kind_in(piece, kind, space), piece, space, row)
                there = over(source, kind_in(maker, source_kind, space), maker, space, row)
                if here != there:
                    return False
        return self._operands(a, b) <= MOST_OPERANDS

    def _operands(self, a: Group, b: Group) -> int:
        numbers = {*a.numbers, *b.numbers}
        made = {v for g in (a, b) for v, *_ in g.values}
        loads = {
            (entry.value, entry.offset)
            for g in (a, b)
            for piece in g.pieces
            for entry in piece.inputs
            if isinstance(entry, Access) and entry.value not in made and self._number(entry) is None
        }
        stores = [v for v in made if self.users.get(v, set()) - numbers]
        return len(loads) + len(stores)

    def _join(self, a: Group, b: Group) -> Group:
        met = meet(a, b)
        assert met is not None
        a.space, a.row = met
        both = zip(a.numbers + b.numbers, a.nodes + b.nodes, strict=True)
        merged = sorted(both, key=lambda pair: pair[0])
        a.numbers, a.nodes = [n for n, _ in merged], [x for _, x in merged]
        order = {id(node): i for i, node in enumerate(a.nodes)}
        a.pieces = sorted(a.pieces + b.pieces, key=lambda p: order[id(p.node)])
        for value, *_ in b.values:
            self.groups[value] = a
        b.joined = a
        a.needs = {g.now() for g in a.needs | b.needs} - {a}
        a.users |= b.users
        a.latest = max(a.latest, b.latest)
        make_users_late(a)
        return a

    # Calls ----------------------------------------------------------------------------------

    def _ordered(self) -> list[Node]:
        """The groups' calls, each after what it needs, else as late as its last piece was."""
        groups = [g for g in self.all if g.joined is None]
        users: dict[Group, list[Group]] = {}
        waiting: dict[Group, int] = {}
        for group in groups:
            needs = {g.now() for g in group.needs} - {group}
            waiting[group] = len(needs)
            for source in needs:
                users.setdefault(source, []).append(group)
        ready = [(g.numbers[-1], i, g) for i, g in enumerate(groups) if not waiting[g]]
        heapq.heapify(ready)
        nodes: list[Node] = []
        while ready:
            _, _, group = heapq.heappop(ready)
            nodes.extend(self._calls(group))
            for user in users.get(group, ()):
                waiting[user] -= 1
                if waiting[user] == 0:
                    heapq.heappush(ready, (user.numbers[-1], id(user), user))
        return nodes

    def slowed(self) -> list[Node]:
        """Calls of frozen programs that are in groups whose own programs are not frozen."""
        found: list[Node] = []
        for group in self.all:
            frozen = [node for node in group.nodes if is_frozen(node)]
            if group.joined is None and len(group.pieces) > 1 and frozen:
                calls = self._calls(group)
                found += frozen if len(calls) == 1 and not is_frozen(calls[0]) else []
        return found

    def _calls(self, group: Group) -> list[Node]:
        if len(group.pieces) < 2:
            return group.nodes
        try:
            return [self._program_call(group)]
        except ProgramError:
            return group.nodes  # what a program cannot express runs call by call

    def alone(self, number: int, node: Node) -> Node | None:
        """A call as a program of its own, if it can be one."""
        piece = piece_of(node)
        try:
            return None if piece is None else self._program_call(Group(piece, node, number))
        except ProgramError:
            return None

    def _program_call(self, group: Group) -> Node:
        draft = _Writer(self, group, [])
        writer = _Writer(self, group, draft.loads.in_order())  # programs begin with their loads
        outer = len(group.space) - (count_of(group.space, group.row) or 0)
        numbers = set(group.numbers)
        results: list[Symbol] = []
        outs: list[Operand] = []
        for value, entry, kind, piece in group.values:
            if not self.users.get(value, set()) - numbers:
                continue
            symbol = writer.symbols[value]
            kind = kind_in(piece, kind, group.space)
            if symbol.kind != kind:
                raise ProgramError(f"{value} is stored as {kind} but computed as {symbol.kind}")
            results.append(symbol)
            steps = over(entry, kind, piece, group.space, group.row).steps
            outs.append(_operand(entry, steps, group.space, kind, outer))
        ins = [_operand(e, e.steps, group.space, k, outer) for e, k in writer.loads.in_order()]
        shapes = (x.shape for x in (*outs, *ins))
        if group.is_random and broadcast_shapes("run", *shapes) != group.space:
            raise ProgramError("no operand shows how many numbers are drawn")
        names = [f"x{i}" for i in range(len(ins))]
        program: Program = writer.builder.finish("fused", names, *results)
        typed = program.for_dtypes(tuple(x.dtype for x in ins), tuple(out.dtype for out in outs))
        inner = len(group.space) - outer
        last = group.nodes[-1]
        args = (typed, tuple(outs), tuple(ins), inner)
        return Node("run", args, tuple(outs), last.device, source=last.source)


def is_frozen(node: Node) -> bool:
    """Does the native core have this call's program, over rows, as one loop?"""
    return node.kernel == "run" and node.args[3] > 0 and _native.is_frozen(node.args[0])


def _operand(entry: Access, steps: Shape, space: Shape, kind: str, outer: int) -> Operand:
    """An access as the operand of a call: size 1 where its kind has no elements."""
    spans = {
        FULL: (True, True), ROW: (True, False), COLUMN: (False, True), "scalar": (False, False)
    }[kind]  # fmt: skip
    shape = tuple(n if spans[i >= outer] else 1 for i, n in enumerate(space))
    return Operand(entry.value, shape, steps, entry.offset)


class _Loads:
    """The operands that a program reads, each once per kind."""

    def __init__(self) -> None:
        self._known: dict[tuple[Access, str], Symbol] = {}

    def get(self, builder: Builder, entry: Access, kind: str) -> Symbol:
        found = self._known.get((entry, kind))
        if found is None:
            found = self._known[entry, kind] = builder.input(kind)
        return found

    def in_order(self) -> list[tuple[Access, str]]:
        return list(self._known)


class _Writer:
    """Writes the instructions of a group's pieces, one after the other."""

    def __init__(self, fusion: Fusion, group: Group, loads: list[tuple[Access, str]]):
        self.fusion = fusion
        self.group = group
        self.builder = Builder()
        self.loads = _Loads()
        self.symbols: dict[FlatValue, Symbol] = {}
        for entry, kind in loads:
            self.loads.get(self.builder, entry, kind)
        for piece in group.pieces:
            self._add(piece)

    def _add(self, piece: Piece) -> None:
        group = self.group
        full = kind_in(piece, FULL, group.space)
        entries = [
            over(e, kind_in(piece, k, group.space), piece, group.space, group.row)
            if isinstance(e, Access)
            else e
            for e, k in zip(piece.inputs, piece.input_kinds, strict=True)
        ]
        kinds = [self._kind_of(e) for e in entries]
        is_narrow = full not in kinds and ROW not in piece.input_kinds and not piece.is_random
        if is_narrow and self._needs_all(piece):
            # Its result has an element for each position, so an operand must have one too.
            kinds = [full if self._is_loaded(e) else k for e, k in zip(entries, kinds, strict=True)]
        symbols = [self._symbol(e, k) for e, k in zip(entries, kinds, strict=True)]
        for out, symbol in zip(piece.outputs, piece.emit(self.builder, symbols), strict=True):
            self.symbols[out.value] = symbol

    def _kind_of(self, entry: Any) -> str:
        """The narrowest kind that has all elements of an access."""
        if not isinstance(entry, Access):
            return "scalar"
        if entry.value in self.symbols:
            return self.symbols[entry.value].kind
        if not self._is_loaded(entry):
            return "scalar"
        inner = count_of(self.group.space, self.group.row) or 0
        outer = len(entry.steps) - inner
        if not any(entry.steps):
            return "scalar"
        return ROW if inner and not any(entry.steps[outer:]) else FULL

    def _symbol(self, entry: Any, kind: str) -> Any:
        if not isinstance(entry, Access):
            return entry
        if entry.value in self.symbols:
            return self.symbols[entry.value]
        number = self.fusion._number(entry)
        if number is not None:
            return typed_constant(self.builder, number, entry.value.dtype)
        return self.loads.get(self.builder, entry, kind)

    def _is_loaded(self, entry: Any) -> bool:
        """Does an operand come from memory?"""
        if not isinstance(entry, Access) or entry.value in self.symbols:
            return False
        return self.fusion._number(entry) is None

    def _needs_all(self, piece: Piece) -> bool:
        """Is a result stored or summed, so that an element is needed for each position?"""
        numbers = set(self.group.numbers)
        for out in piece.outputs:
            users = self.fusion.users.get(out.value, set())
            nodes = [self.fusion.graph.nodes[i] for i in users & numbers]
            if users - numbers or any(n.kernel in ("reduce", "run") for n in nodes):
                return True
        return False


def fuse(graph: Graph) -> Graph:
    """The graph with tile programs in the place of calls that pass elements to one another."""
    graph = split_reductions(graph)
    fusion = Fusion(graph)
    fused = fusion.run()
    apart = fusion.slowed()
    return without_dead(Fusion(graph, apart).run() if apart else fused)
