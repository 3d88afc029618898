"""Nested tuples, lists and dicts of tensors: what functions take and return."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .autograd import TensorTuple


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same nesting with function(leaf) in the place of every leaf.

    >>> map_leaves(lambda x: x + 1, {"a": 1, "b": (2, [3])})
    {'a': 2, 'b': (3, [4])}
    """
    if isinstance(tree, dict):
        return {key: map_leaves(function, x) for key, x in tree.items()}
    if isinstance(tree, TensorTuple):
        tree = tree.tuple()
    if isinstance(tree, (tuple, list)):
        items = [map_leaves(function, x) for x in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """All leaves in order.

    >>> leaves({"a": 1, "b": (2, [3])})
    [1, 2, 3]
    """
    found: list[Any] = []
    map_leaves(found.append, tree)
    return found


def with_leaves(tree: Any, new_leaves: Iterable[Any]) -> Any:
    """The same nesting with other leaves."""
    rest = iter(new_leaves)
    return map_leaves(lambda _: next(rest), tree)
