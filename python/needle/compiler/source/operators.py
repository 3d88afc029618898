"""What rewritten functions call: Python's control flow on Python values, the graph's on tensors.

On a tensor, both branches are computed and each variable is chosen from what they made of it. A
write within a branch (`x += y`, `x[i] = y`) is made to a copy, and after the branch, what was
chosen is written into the tensor itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

from ...autograd import Tensor, next_stamp
from ...ops import clone, logical_and, logical_not, logical_or
from ...tracing import active
from ..control.bodies import only_chosen
from ..control.functions import truth
from ..trace.record import Handle
from .values import Unusable, Value, Variables, chosen, merged, returned

Block = Callable[[], object]


Copies = dict[int, tuple[Tensor, Tensor]]  # by id: a tensor that is written into, and of what


class Branch:
    """A part of the function that runs only where a condition holds."""

    def __init__(self, path: Tensor | None):
        self.start = next_stamp()  # tensors with an older stamp are from outside
        self.path = path  # does the branch count? None: yes
        self.is_dead = False  # does it raise?
        self.copies: Copies = {}


branches: list[Branch] = []  # around the line that runs; tracing holds a lock


def is_traced(value: object) -> bool:
    """Is it a tensor whose elements are not known yet?"""
    if not isinstance(value, Tensor) or active() is None:
        return False
    return isinstance(value.realize_cached_data()._handle, Handle)


# Branches ----------------------------------------------------------------------------------------


def if_(test: Value, then: Block, orelse: Block | None, names: tuple[str, ...]) -> None:
    """if test: then() else: orelse()"""
    if not is_traced(test):
        run = then if test else orelse
        if run is not None:
            run()
        return
    conditional(test, then, orelse, Variables(names, then, orelse))


def conditional(test: Tensor, then: Block, orelse: Block | None, variables: Variables) -> None:
    """if test: then() else: orelse(), on a tensor"""
    condition = truth("if", test)
    new, first = _after(condition, then, variables)
    old, second = _after(logical_not(condition), orelse, variables)
    if first.is_dead and second.is_dead and branches:
        branches[-1].is_dead = True
    if first.is_dead:  # nobody sees what it has assigned
        condition, new, first = logical_not(condition), old, second
    if second.is_dead:
        old, second = new, first
    sides = first.copies, second.copies
    homes = {id(x): x for side in sides for _, x in side.values()}
    values: dict[str, Value] = {}
    for name in new:
        x = original(new[name], sides[0])
        if id(x) not in homes or original(old[name], sides[1]) is not x:
            values[name] = merged(name, condition, new[name], old[name])
    for x in homes.values():
        a, b = (_copy_of(x, side) for side in sides)
        values[str(id(x))] = merged("a tensor", condition, a, b)
    found = dict(zip(values, chosen(condition, values.values(), first.start), strict=True))
    after = {key: written(x, found[str(key)]) for key, x in homes.items()}
    names = (n for n in new if n not in found)
    found |= {n: after[id(original(new[n], sides[0]))] for n in names}
    variables.write({name: found[name] for name in new})


def _copy_of(x: Tensor, copies: Copies) -> Tensor:
    return next((copy for copy, of in copies.values() if of is x), x)


def choose(test: Value, then: Block, orelse: Block) -> Value:
    """then() if test else orelse()"""
    if not is_traced(test):
        return then() if test else orelse()
    return _chosen("the value of `if ... else`", truth("if", test), then, orelse)


def _chosen(what: str, condition: Tensor, then: Block, orelse: Block) -> Value:
    with branch(condition) as first:
        a = then()
    with branch(logical_not(condition)):
        b = orelse()
    return returned(*chosen(condition, [merged(what, condition, a, b)], first.start))


@contextmanager
def branch(condition: Tensor) -> Iterator[Branch]:
    """Within this context, what runs counts only where a condition holds."""
    path = branches[-1].path if branches else None
    recording: Any = active()
    made = Branch(condition if path is None else logical_and(path, condition))
    branches.append(made)
    try:
        with only_chosen("if", recording):
            yield made
    finally:
        branches.pop()


def _after(
    condition: Tensor, run: Block | None, variables: Variables
) -> tuple[dict[str, Value], Branch]:
    """The variables after a branch, which then are as before again."""
    before = variables.read()
    if run is None:
        return before, Branch(condition)
    try:
        with variables.same_items("if"), branch(condition) as made:
            run()
        return variables.read(), made
    finally:
        variables.write(before)


def own(x: Value) -> Value:
    """What `x += y` and `x[i] = y` may write into: within a branch, a copy of a tensor from outside
    of it."""
    if not branches or not isinstance(x, Tensor) or id(x) in branches[-1].copies:
        return x
    if x._stamp >= branches[-1].start:
        return x
    made = _copy_of(x, branches[-1].copies)
    if made is x:
        made = clone(x)
        branches[-1].copies[id(made)] = made, x
    return made


def original(x: Value, copies: Copies) -> Value:
    """The tensor that this one is a copy of, or itself."""
    return copies[id(x)][1] if id(x) in copies else x


def written(x: Tensor, value: Value) -> Value:
    """x, with the elements of `value`; or a copy, in a branch that x is not of."""
    if isinstance(value, Unusable):
        raise value.error()
    if branches and x._stamp < branches[-1].start:
        before = original(x, branches[-1].copies)
        branches[-1].copies = {
            key: pair for key, pair in branches[-1].copies.items() if pair[1] is not before
        }
        branches[-1].copies[id(value)] = value, before
        return value
    x[...] = value
    return x


# Conditions --------------------------------------------------------------------------------------


def and_(*parts: Block) -> Value:
    """Each part is asked for only if those before it hold."""
    return _joined(parts, logical_and, False)


def or_(*parts: Block) -> Value:
    return _joined(parts, logical_or, True)


def _joined(parts: tuple[Block, ...], join: Callable[..., Tensor], ends: bool) -> Value:
    value: Any = parts[0]()
    for k in range(1, len(parts)):
        if is_traced(value):
            return _joined_tensor(value, parts[k:], join, ends)
        if bool(value) is ends:
            return value
        value = parts[k]()
    return value


def _joined_tensor(value: Tensor, rest: Value, join: Callable[..., Tensor], ends: bool) -> Value:
    condition = truth("or" if ends else "and", value)
    with branch(logical_not(condition) if ends else condition) as made:
        other = _joined(rest, join, ends)
    if (isinstance(other, bool) or _is_bool(other)) and _is_bool(value):
        return join(condition, other)
    pair = (value, other) if ends else (other, value)
    found = merged("the value of `or`" if ends else "the value of `and`", condition, *pair)
    return returned(*chosen(condition, [found], made.start))


def _is_bool(x: object) -> bool:
    return isinstance(x, Tensor) and str(x.dtype) == "bool" and x.shape == ()


def not_(value: Value) -> Value:
    return logical_not(truth("not", value)) if is_traced(value) else not value


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


def compare(left: Value, *rest: Value) -> Value:
    """left < a() <= b() ...: each value is computed once, and only if those before it hold."""
    name, thunk, *more = rest
    right = thunk()
    found = OPERATORS[name](left, right)
    return and_(lambda: found, lambda: compare(right, *more)) if more else found


def any_of(flags: Iterable[Value]) -> Value:
    """Does one of these conditions hold? A tensor if that depends on tensors."""
    found = [f for f in flags if is_traced(f) or f]
    if any(not is_traced(f) for f in found):
        return True
    return reduce(logical_or, [truth("while", f) for f in found]) if found else False
