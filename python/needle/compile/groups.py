"""Groups of pieces that become one tile program: the space that they share, and their order.

Each group has a *space*, the sizes of the loops that its program runs over; the last axes of it are
the rows, if there are any. Two groups can be one if a space splits the spaces of both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..ndarray.layout import Shape
from .graph import FlatValue, Node
from .pieces import FULL, ROW, Piece
from .spaces import Access, count_of, refinement, split


class Group:
    """Pieces that become one call, over a space that splits the space of each."""

    def __init__(self, piece: Piece | None, node: Node, number: int):
        self.numbers = [number]  # of the calls, in their order
        self.nodes = [node]
        self.pieces = [] if piece is None else [piece]
        self.space: Shape = () if piece is None else piece.space
        self.row = 0 if piece is None else piece.row  # elements of a row; 0: it has none
        self.needs: set[Group] = set()
        self.users: set[Group] = set()  # which need it
        self.latest = number  # the last call of it and of all that it needs, near and far
        self.joined: Group | None = None  # what it has become a part of

    @property
    def is_random(self) -> bool:
        return any(piece.is_random for piece in self.pieces)

    def now(self) -> Group:
        """The group that it is part of by now."""
        group = self
        while group.joined is not None:
            group = group.joined
        return group

    @property
    def values(self) -> Iterator[tuple[FlatValue, Access, str, Piece]]:
        """What its pieces compute."""
        for piece in self.pieces:
            for out, kind in zip(piece.outputs, piece.output_kinds, strict=True):
                yield out.value, out, kind, piece


# Spaces ------------------------------------------------------------------------------------------


def meet(a: Group, b: Group) -> tuple[Shape, int] | None:
    """The space that two groups can share and the length of its rows, or None."""
    if a.nodes[0].device is not b.nodes[0].device:
        return None
    total_a, total_b = math.prod(a.space), math.prod(b.space)
    if total_a != total_b:
        return _meet_in_rows(a, b) if total_a > total_b else _meet_in_rows(b, a)
    if a.row and b.row and a.row != b.row:
        return None
    space = refinement(a.space, b.space)
    row = a.row or b.row
    if space is None or (row and count_of(space, row) is None):
        return None
    return space, row


def _meet_in_rows(large: Group, small: Group) -> tuple[Shape, int] | None:
    """A group over the rows of another: elementwise, one element per row, none of them random."""
    if small.is_random:
        return None
    if not large.row or small.row or math.prod(large.space) != math.prod(small.space) * large.row:
        return None
    inner = count_of(large.space, large.row)
    if inner is None:
        return None
    outer = refinement(large.space[: len(large.space) - inner], small.space)
    return None if outer is None else (outer + large.space[len(large.space) - inner :], large.row)


def kind_in(piece: Piece, kind: str, space: Shape) -> str:
    """The kind of a piece's value in a larger space: a piece over rows alone is of rows."""
    return ROW if kind == FULL and math.prod(piece.space) != math.prod(space) else kind


def over(entry: Access, kind: str, piece: Piece, space: Shape, row: int) -> Access:
    """An access over another space: rows have no step inside, columns none outside."""
    own = piece.space
    inner = count_of(space, row) or 0
    outer_space, inner_space = space[: len(space) - inner], space[len(space) - inner :]
    if kind == FULL:
        return entry._replace(steps=split(entry.steps, own, space))
    if kind == ROW:
        steps = split(entry.steps, piece.rows, outer_space)
        return entry._replace(steps=steps + (0,) * inner)
    columns = own[len(piece.rows) :]
    return entry._replace(steps=(0,) * len(outer_space) + split(entry.steps, columns, inner_space))


# Order -------------------------------------------------------------------------------------------


def is_any_between(a: Group, b: Group) -> bool:
    """Is there a third group that needs one of them and that the other needs?"""
    return _leads(a, b) or _leads(b, a)


def _leads(a: Group, b: Group) -> bool:
    """Does b need a by way of a third group? Only groups as late as a can need it."""
    pending = [g for g in (n.now() for n in b.needs) if g is not a and g is not b]
    seen: set[Group] = set()
    while pending:
        group = pending.pop()
        if group in seen or group.latest < a.latest:
            continue
        seen.add(group)
        for source in group.needs:
            source = source.now()
            if source is a:
                return True
            if source is not b:
                pending.append(source)
    return False


def make_users_late(group: Group) -> None:
    """What needs a group is as late as the group, also when that was joined."""
    pending = [group]
    while pending:
        source = pending.pop()
        for user in {g.now() for g in source.users}:
            if user.latest < source.latest:
                user.latest = source.latest
                pending.append(user)
