"""`print`, `assert` and `raise` on tensors: Python that runs in every call of the program.

Each is a call of the graph that gives nothing which others need, and is kept for what it does; one
follows the other in the order of the source.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...autograd import Tensor
from ...dtype import bool_
from ...ndarray.array import NDArray
from ...ops import logical_and, logical_not
from ...system.user_code import user_place
from ...tracing import active
from ...tree import leaves, map_leaves
from ..control.functions import truth
from ..control.until import constant
from ..ir.graph import Node, whole
from ..trace.breaks import PYTHON, has_effect
from .operators import branches, is_traced
from .values import Value


class Effect:
    """What is done with the elements of tensors, if a condition holds: the first input."""

    has_effect = True

    def __init__(self, name: str, count: int, do: Callable[[Sequence[NDArray]], None]):
        self.name, self.count, self.do = name, count, do

    def __repr__(self) -> str:
        return self.name

    def run(self, outs: tuple[NDArray, ...], ins: tuple[NDArray, ...]) -> None:
        """Called with the elements."""
        if ins[0].numpy().item():
            self.do(ins[1 : 1 + self.count])


def assert_(test: Value, message: Callable[[], object]) -> None:
    """assert test, message()"""
    if is_traced(test):
        text = message()
        error = AssertionError() if text is None else AssertionError(text)
        _raise_where(logical_not(truth("assert", test)), "assert", error)
    elif not test:
        text = message()
        raise AssertionError() if text is None else AssertionError(text)


def raises(error: Callable[[], Value]) -> bool:
    """Must `raise` be run now? Not in a branch on a tensor: then the program does it."""
    if not branches:
        return True
    found = error()
    _raise_where(None, "raise", found() if isinstance(found, type) else found)
    branches[-1].is_dead = True
    return False


def print_(*values: object, **options: Value) -> None:
    """print of values, with tensors among them."""
    if not any(map(is_traced, leaves(list(values)))):
        print(*values, **options)
        return
    tensors = [x for x in leaves(list(values)) if is_traced(x)]

    def do(arrays: Sequence[NDArray]) -> None:
        rest = iter(arrays)
        shown = map_leaves(
            lambda x: Tensor.make_const(next(rest)) if isinstance(x, _Place) else x, places
        )
        print(*shown, **options)

    places = map_leaves(lambda x: _Place() if is_traced(x) else x, list(values))
    _record(None, Effect("print", len(tensors), do), tensors)


class _Place:
    """Stands for a tensor."""


def _raise_where(condition: Tensor | None, name: str, error: BaseException) -> None:
    def do(_: Sequence[NDArray]) -> None:
        raise copy.copy(error)

    _record(condition, Effect(name, 0, do), [])


def _record(condition: Tensor | None, effect: Effect, tensors: list[Tensor]) -> None:
    """Add the call to the graph, after those before it."""
    recording: Any = active()
    if recording.is_again:
        return
    parts = [c for c in (branches[-1].path if branches else None, condition) if c is not None]
    holds = functools.reduce(logical_and, parts) if parts else constant(True, bool_)
    graph = recording.graph
    ins = [recording.in_c_order(x.realize_cached_data()) for x in (holds, *tensors)]
    before = [node.outs[0] for node in graph.nodes if has_effect(node)][-1:]
    token = whole(graph.new_value(1, holds.dtype), (1,))
    arguments = (effect, (token,), (*ins, *before))
    graph.nodes.append(Node(PYTHON, arguments, (token,), holds.device, source=user_place()))
