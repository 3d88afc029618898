"""Groups of fusible nodes that become one tile program: the space that they share, and their order.

Each group has a *space*: the sizes of the loops that its program runs over. Its last axes are the
rows, if there are any. Two groups can be merged if their spaces have a common refinement, and if no
third group lies between them in the order of dependencies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...ndarray.layout import Shape
from ...tile.ir import FULL, ROW
from ..ir.graph import FlatValue, Node
from .fusible import FusibleNode
from .spaces import Access, count_of, refinement, split


class Group:
    """Fusible nodes that become one call, over a refinement of their spaces. A call that is not
    fusible is a group of its own, without members."""

    def __init__(self, fusible: FusibleNode | None, node: Node, position: int):
        self.positions = [position]  # of its calls in the graph, in order
        self.nodes = [node]
        self.members = [] if fusible is None else [fusible]
        self.space: Shape = () if fusible is None else fusible.space
        self.row = 0 if fusible is None else fusible.row  # elements of a row; 0: it has none
        self.needs: set[Group] = set()  # the groups that compute its inputs
        self.users: set[Group] = set()  # the groups that need it
        self.latest = position  # the last position in it and in all groups that it depends on
        self.joined: Group | None = None  # the group that it was merged into

    @property
    def is_random(self) -> bool:
        return any(fusible.is_random for fusible in self.members)

    def root(self) -> Group:
        """The group that it is part of after all merges so far."""
        group = self
        while group.joined is not None:
            group = group.joined
        return group

    @property
    def values(self) -> Iterator[tuple[FlatValue, Access, str, FusibleNode]]:
        """What its members compute: value, access, kind, and the member that computes it."""
        for fusible in self.members:
            for out, kind in zip(fusible.outputs, fusible.output_kinds, strict=True):
                yield out.value, out, kind, fusible


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


def kind_in(fusible: FusibleNode, kind: str, space: Shape) -> str:
    """The kind of a node's value in a group's space: the full values of a node that runs over
    the group's rows are row values there."""
    return ROW if kind == FULL and math.prod(fusible.space) != math.prod(space) else kind


def over(entry: Access, kind: str, fusible: FusibleNode, space: Shape, row: int) -> Access:
    """An access of a node in a group's space: row values have no step inside the row, and
    column values none outside of it."""
    own = fusible.space
    inner = count_of(space, row) or 0
    outer_space, inner_space = space[: len(space) - inner], space[len(space) - inner :]
    if kind == FULL:
        return entry._replace(steps=split(entry.steps, own, space))
    if kind == ROW:
        steps = split(entry.steps, fusible.rows, outer_space)
        return entry._replace(steps=steps + (0,) * inner)
    columns = own[len(fusible.rows) :]
    return entry._replace(steps=(0,) * len(outer_space) + split(entry.steps, columns, inner_space))


# Order -------------------------------------------------------------------------------------------


def is_any_between(a: Group, b: Group) -> bool:
    """Does one of them depend on the other by way of a third group? Merging them would make a
    cycle."""
    return _depends_indirectly(a, b) or _depends_indirectly(b, a)


def _depends_indirectly(b: Group, a: Group) -> bool:
    """Does b depend on a by way of a third group? Groups with a lower `latest` than a's cannot."""
    pending = [g for g in (n.root() for n in b.needs) if g is not a and g is not b]
    seen: set[Group] = set()
    while pending:
        group = pending.pop()
        if group in seen or group.latest < a.latest:
            continue
        seen.add(group)
        for source in group.needs:
            source = source.root()
            if source is a:
                return True
            if source is not b:
                pending.append(source)
    return False


def update_latest(group: Group) -> None:
    """Raise `latest` of all groups that depend on this one to at least its own."""
    pending = [group]
    while pending:
        source = pending.pop()
        for user in {g.root() for g in source.users}:
            if user.latest < source.latest:
                user.latest = source.latest
                pending.append(user)
