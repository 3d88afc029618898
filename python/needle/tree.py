"""Nested tuples, lists and dicts of tensors: what functions take and return.

Stands on: autograd.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from .autograd import TensorTuple

T = TypeVar("T")


def map_leaves(function: Callable[[object], object], tree: object) -> Any:
    """The same nesting with function(leaf) in the place of every leaf.

    >>> map_leaves(lambda x: x + 1, {"a": 1, "b": (2, [3])})
    {'a': 2, 'b': (3, [4])}
    """
    if isinstance(tree, dict):
        items = {key: map_leaves(function, x) for key, x in tree.items()}
        return items if type(tree) is dict else _same_kind(tree, items)
    if isinstance(tree, TensorTuple):
        tree = tree.tuple()
    if isinstance(tree, (tuple, list)):
        parts = [map_leaves(function, x) for x in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return function(tree)


def _same_kind(tree: dict[object, object], items: dict[object, object]) -> dict[object, object]:
    """A dict of the user's kind, such as a defaultdict, with other items."""
    made = copy.copy(tree)
    for key, item in items.items():
        dict.__setitem__(made, key, item)  # a Counter's update would add
    return made


def leaves(tree: object) -> list[Any]:
    """All leaves in order.

    >>> leaves({"a": 1, "b": (2, [3])})
    [1, 2, 3]
    """
    found: list[Any] = []
    map_leaves(found.append, tree)
    return found


def leaves_by_path(tree: object) -> dict[tuple[Hashable, ...], Any]:
    """All leaves in order, by the keys and positions that lead to them.

    >>> leaves_by_path({"a": 1, "b": (2, [3])})
    {('a',): 1, ('b', 0): 2, ('b', 1, 0): 3}
    """
    if isinstance(tree, TensorTuple):
        tree = tree.tuple()
    if isinstance(tree, (tuple, list)):
        tree = dict(enumerate(tree))
    if not isinstance(tree, dict):
        return {(): tree}
    below = ((key, leaves_by_path(x)) for key, x in tree.items())
    return {(key, *path): leaf for key, found in below for path, leaf in found.items()}


def with_leaves(tree: T, new_leaves: Iterable[object]) -> T:
    """The same nesting with other leaves."""
    rest = iter(new_leaves)
    made: T = map_leaves(lambda _: next(rest), tree)
    return made
