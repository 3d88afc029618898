"""Control flow on tensors that works in eager mode and inside compiled functions.

In eager mode these are Python's own `if`, `for` and `while`. A compiled function makes a fixed list
of calls, so there `cond` computes both branches and chooses, `scan` is one call for all steps, and
`while_loop` makes all of its steps and ignores those after the condition has become false. All of
them can be differentiated in both modes.

Their results have memory of their own in both modes, also where a function gives back its argument
or a view of something: a later write to one of them changes no other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ... import tracing
from ...autograd import Tensor, next_stamp
from ...dtype import bool_
from ...facts import PLAIN
from ...ops import clone, logical_and, stack
from ...tracing import is_tracing
from ...tree import leaves, leaves_by_path, map_leaves, with_leaves
from .bodies import NotCompact, only_chosen
from .choice import choose
from .scan import compact_scan
from .until import constant, until_false

__all__ = ["cond", "scan", "while_loop"]

Tree = Any  # nested lists, tuples and dicts of tensors


def cond(
    condition: object, if_true: Callable[..., Tree], if_false: Callable[..., Tree], *args: object
) -> Tree:
    """if_true(*args) where a 0-d condition holds, else if_false(*args).

    A compiled function computes both and chooses, so both must give results of the same nesting,
    shapes and dtypes and must not assign to tensors from outside.

    >>> x = ndl.tensor(-3.0)
    >>> ndl.cond(x > 0, lambda x: x * 2, lambda x: -x, x).item()
    3.0
    """
    condition = truth("cond", condition)
    if not (is_tracing() and isinstance(condition, Tensor)):
        return _own(if_true(*args) if bool(condition) else if_false(*args))
    start = next_stamp()
    with only_chosen("cond", _recording()):
        new, old = if_true(*args), if_false(*args)
    return _chosen("cond", condition, new, old, start)


def _recording() -> Any:
    """Where this thread's calls are recorded."""
    return tracing.active()


def truth(op: str, condition: object) -> Any:
    """A condition; a tensor of one element becomes a 0-d bool tensor: is the element not zero?"""
    if not isinstance(condition, Tensor):
        return condition
    if condition.size != 1:
        raise ValueError(
            f"[{op}] expected a condition of one element, got shape {condition.shape}; use .any() "
            "or .all(), or ndl.where to choose element by element."
        )
    return condition.reshape(()).astype("bool")


def _chosen(op: str, condition: Tensor, new: Tree, old: Tree, start: int) -> Tree:
    """The leaves of `new` where the condition holds, else those of `old` in the same places."""
    first, second = leaves_by_path(new), leaves_by_path(old)
    if first.keys() != second.keys():
        raise ValueError(
            f"[{op}] expected results of the same nesting, got leaves at {[*first]} and "
            f"{[*second]}."
        )
    shapes = [[getattr(side[path], "shape", ()) for path in first] for side in (first, second)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"[{op}] expected results of the same shapes, got {shapes[0]} and {shapes[1]}."
        )
    for path, a in first.items():
        b = second[path]
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype != b.dtype:
            raise TypeError(
                f"[{op}] expected results of the same dtypes, got {a.dtype} and {b.dtype} of shape "
                f"{a.shape}; convert one of them with .astype()."
            )
    differ = {path: (a, second[path]) for path, a in first.items() if not is_same(a, second[path])}
    chosen = dict(zip(differ, choose(condition, [*differ.values()], start), strict=True))
    return with_leaves(new, [chosen[p] if p in chosen else _own(a) for p, a in first.items()])


def is_same(a: object, b: object) -> bool:
    """The same object, or equal Python values."""
    return a is b or (type(a) is type(b) and isinstance(a, PLAIN) and a == b)


def _own(results: Tree) -> Tree:
    """The same results, each in memory of its own."""
    return map_leaves(lambda x: clone(x) if isinstance(x, Tensor) else x, results)


def scan(
    f: Callable[[Tree, Tree], tuple[Tree, Tree]],
    init: Tree,
    xs: Tree = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Tree, Tree]:
    """Steps along the first axis of xs: carry, y = f(carry, x); the last carry and the stacked y.

    xs may be None if a length is given; with `reverse` the last element comes first. In a compiled
    function f is traced once, and all steps are one call, whose gradient computes each step again.
    If f has effects outside (draws random numbers, assigns to tensors) or changes the types of the
    carry, it is traced once per step instead.

    >>> total, sums = ndl.scan(lambda s, x: (s + x, s + x), ndl.tensor(0.0), ndl.arange(1, 5))
    >>> total.item(), sums.tolist()
    (10.0, [1.0, 3.0, 6.0, 10.0])
    """
    sizes = {x.shape[0] if x.shape else None for x in leaves(xs) if isinstance(x, Tensor)}
    sizes |= set() if length is None else {length}
    if len(sizes) != 1 or None in sizes:
        raise ValueError(
            "[scan] expected tensors with first axes of one size, or a length, got "
            f"{sorted(map(str, sizes))}."
        )
    steps = sizes.pop() or 0

    def step(carry: Tree, x: Tree) -> tuple[Tree, Tree]:
        made = f(carry, x)
        if not (isinstance(made, tuple) and len(made) == 2):
            raise TypeError(
                f"[scan] expected f to return a pair (carry, y), got {type(made).__name__}; "
                "without a y, return (carry, None)."
            )
        return made

    if is_tracing() and steps > 1:
        try:
            return compact_scan(step, init, xs, steps, reverse)
        except NotCompact:
            pass
    carry, results = init, []
    for i in reversed(range(steps)) if reverse else range(steps):
        x = map_leaves(lambda a: a[i] if isinstance(a, Tensor) else a, xs)  # noqa: B023
        carry, y = step(carry, x)
        results.append(y)
    if not results:
        raise ValueError("[scan] expected at least one step.")
    if reverse:
        results.reverse()
    columns = zip(*(leaves(y) for y in results), strict=True)
    stacked = [stack(list(c), 0) if isinstance(c[0], Tensor) else None for c in columns]
    return _own(carry), with_leaves(results[0], stacked)


def while_loop(
    condition: Callable[[Tree], object],
    body: Callable[[Tree], Tree],
    init: Tree,
    max_steps: int | None = None,
) -> Tree:
    """state = body(state) as long as condition(state) holds, but at most max_steps times.

    With max_steps, a compiled function whose condition is a tensor makes all of them, and keeps the
    state once the condition does not hold any more. Without, it ends when the condition does; its
    gradient computes the steps before each step again.

    >>> ndl.while_loop(lambda x: x < 100, lambda x: x * 2, ndl.tensor(3.0)).item()
    192.0
    """
    state, steps = init, 0
    if not is_tracing():
        while max_steps is None or steps < max_steps:
            if not bool(truth("while_loop", condition(state))):
                break
            state, steps = body(state), steps + 1
        return _own(state)
    going: Any = None
    while max_steps is None or steps < max_steps:
        with nullcontext() if going is None else only_chosen("while_loop", _recording()):
            holds = truth("while_loop", condition(state))
        if not isinstance(holds, Tensor):
            if not holds:
                break
        elif max_steps is None:
            return _until(condition, body, state)
        else:
            going = holds if going is None else logical_and(going, holds)
        steps += 1
        if going is None:
            state = body(state)
            continue
        start = next_stamp()
        with only_chosen("while_loop", _recording()):
            new = body(state)
        state = _chosen("while_loop", going, new, state, start)
    return state if going is not None else _own(state)


def _until(condition: Callable[[Tree], object], body: Callable[[Tree], Tree], init: Tree) -> Tree:
    """A while_loop of no known length in a traced function."""

    def holds(state: list[Tensor]) -> Tensor:
        found = truth("while_loop", condition(with_leaves(init, state)))
        return found if isinstance(found, Tensor) else constant(bool(found), bool_)

    def update(state: list[Tensor]) -> list[Tensor]:
        new = body(with_leaves(init, state))
        if leaves_by_path(new).keys() != leaves_by_path(init).keys():
            raise ValueError("[while_loop] expected the body to keep the nesting of the state.")
        return leaves(new)

    if not all(isinstance(x, Tensor) for x in leaves(init)):
        raise TypeError("[while_loop] expected a state of tensors; or give max_steps.")
    return with_leaves(init, until_false("while_loop", holds, update, leaves(init)))
