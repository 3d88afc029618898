"""Loops of rewritten functions: Python's, until a condition is a tensor; then one of the graph.

What a loop of the graph carries is found by tracing a step: variables that a step changes, until
no more are found. A variable that has no value before the loop, or changes its type, belongs to
the step alone, and is `Unusable` after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any

from ...autograd import Tensor
from ...dtype import bool_, float32, int64
from ...ops import clone, logical_and
from ...system.user_code import user_line
from ...tracing import active
from ...tree import leaves, leaves_by_path, map_leaves, with_leaves
from ..control.bodies import NotCompact, body_of
from ..control.functions import is_same, truth
from ..control.until import constant, until_false
from ..errors import at_user_line
from .exits import RESULT, RUNTIME
from .operators import (
    Block,
    Branch,
    any_of,
    branches,
    conditional,
    is_traced,
    not_,
    original,
    written,
)
from .values import MISSING, NUMBERS, Unusable, Value, Variables, in_words, said

MOST_STEPS = 10_000  # of a Python loop that only a tensor ends
Values = dict[str, Any]


class TensorRange:
    """range(...) of tensors."""

    def __init__(self, *numbers: Value):
        first, last, step = {1: (0, *numbers, 1), 2: (*numbers, 1), 3: numbers}[len(numbers)]
        if is_traced(step):
            raise at_user_line("[range] expected the step to be a number, got a tensor.")
        self.start, self.stop, self.step = first, last, step


def while_(test: Block, body: Block, names: tuple[str, ...], stops: tuple[str, ...]) -> None:
    """while not any(stops) and test(): body()"""
    variables, flags = Variables(names, test, body), Variables(stops, test, body)
    while True:
        stopped = any_of(flags.read().values())
        if not is_traced(stopped):
            if stopped:
                return
            found = test()
            if not is_traced(found):
                if not found:
                    return
                body()
                continue
        _Loop("while", variables, flags, test, body).run()
        return


def for_(
    items: Iterable[Value], body: Callable[[Value], object], names: Value, stops: tuple[str, ...]
) -> None:
    """for item in items: body(item), until one of the stops is set"""
    variables, flags = Variables(names, body), Variables(stops, body)
    if isinstance(items, TensorRange):
        _for_range(items, body, variables, flags)
        return
    masked = 0
    for item in items:
        stopped = any_of(flags.read().values())
        if not is_traced(stopped):
            if stopped:
                return
            body(item)
            continue
        masked += 1
        if masked > MOST_STEPS:
            raise at_user_line(
                f"[for] more than {MOST_STEPS} steps of a loop that a tensor ends; use `while`."
            )
        conditional(not_(stopped), partial(body, item), None, variables)


def _for_range(items: TensorRange, body: Value, variables: Variables, flags: Variables) -> None:
    start = items.start if is_traced(items.start) else constant(items.start, int64)
    loop = _Loop("for", variables, flags, None, body)
    loop.run_range(start, items.stop, items.step)


class _Loop:
    """A loop of the graph."""

    def __init__(
        self, op: str, variables: Variables, flags: Variables, test: Block | None, body: Value
    ):
        self.op, self.variables, self.flags = op, variables, flags
        self.test, self.body = test, body
        self.line = user_line()
        self.path = branches[-1].path if branches else None
        self.before = variables.read()
        # What steps read is as it is now, also when the gradient computes them again.
        self.seen = variables.all_cells()
        self.carried: Values = {}  # variables that steps change: trees with tensors
        self.own: dict[str, str] = {}  # variables that belong to a step, and why
        self.in_place: set[str] = set()  # those whose tensors a step writes into

    def run(self) -> None:
        self._find(self.body)
        init = self._tensors()
        if not init:
            raise at_user_line(f"[{self.op}] no variable changes in this loop: it would not end.")

        def condition(state: list[Tensor]) -> Tensor:
            with self._entered(state):
                return self._goes_on(self.test)

        def update(state: list[Tensor]) -> list[Tensor]:
            return self._step(state, self.body)

        self._finish(until_false(self.op, condition, update, init))

    def run_range(self, start: Tensor, stop: Value, step: int) -> None:
        def condition(state: list[Tensor]) -> Tensor:
            with self._entered(state[1:]):
                return self._goes_on(lambda: state[0] < stop if step > 0 else state[0] > stop)

        def update(state: list[Tensor]) -> list[Tensor]:
            new = self._step(state[1:], partial(self.body, state[0]))
            return [state[0] + step, *new]

        self._find(partial(self.body, start))
        made = until_false(self.op, condition, update, [start, *self._tensors()])
        self._finish(made[1:])

    # A step -----------------------------------------------------------------------------------

    @contextmanager
    def _entered(self, state: list[Tensor]) -> Iterator[Branch]:
        """Within this context, the variables are as before a step; then as they were."""
        now, rest = self.variables.read() | self.variables.all_cells(), iter(state)
        values = self.seen | self.before
        for name, tree in self.carried.items():
            values[name] = map_leaves(lambda x: next(rest) if isinstance(x, Tensor) else x, tree)
        for name, why in self.own.items():
            values[name] = MISSING if self.before[name] is MISSING else Unusable(why)
        made = Branch(None)
        branches.append(made)
        try:
            self.variables.write(values)
            yield made
        finally:
            branches.pop()
            self.variables.write(now)

    def _values_after(self, state: list[Tensor], run: Block) -> tuple[Values, Branch]:
        with self._entered(state) as made, self.variables.same_items(self.op):
            run()
            return self.variables.read(), made

    def _step(self, state: list[Tensor], run: Block) -> list[Tensor]:
        """The tensors that are carried, after a step."""
        made, rest = [], iter(state)
        after, branch = self._values_after(state, run)
        for name, tree in self.carried.items():
            for x, y in zip(leaves(tree), leaves(after[name]), strict=True):
                if isinstance(x, Tensor):
                    given = next(rest)
                    if given is not y and original(y, branch.copies) is given:
                        self.in_place.add(name)
                    made.append(y if isinstance(y, Tensor) else constant(y, x.dtype, x.device))
        return made

    def _goes_on(self, test: Value) -> Tensor:
        """Does the loop go on? Not where the branch around it does not count."""
        stopped = any_of(self.flags.read().values())
        parts = [not_(stopped), test()] + ([] if self.path is None else [self.path])
        known = all(p for p in parts if not is_traced(p))
        found = [truth(self.op, p) for p in parts if is_traced(p)]
        return reduce(logical_and, found) if known and found else constant(known, bool_)

    # What is carried --------------------------------------------------------------------------

    def _find(self, run: Block) -> None:
        """Trace steps, and forget them, until nothing else is found to be carried."""
        recording: Any = active()
        is_new = True
        while is_new:
            try:
                with body_of(recording):
                    after, _ = self._values_after(self._tensors(clone), run)
            except NotCompact as found:
                raise at_user_line(
                    f"[{self.op}] expected a loop on a tensor that changes only variables, but "
                    f"{found} (a tensor from outside, its gradient, or a random generator); assign "
                    "to a variable, and draw random numbers before the loop."
                ) from None
            is_new = self._note(after)

    def _tensors(self, made: Callable[[Tensor], Tensor] = lambda x: x) -> list[Tensor]:
        trees = self.carried.values()
        return [made(x) for tree in trees for x in leaves(tree) if isinstance(x, Tensor)]

    def _note(self, after: Values) -> bool:
        """Note what a step has changed: was it anything new?"""
        is_new = False
        for name, value in after.items():
            first = self.carried.get(name, self.before[name])
            if name in self.own or (first is MISSING and value is MISSING):
                continue
            if first is MISSING and name == RESULT:
                first = map_leaves(zeros_as, value)
            why = self._why_not(name, first, value)
            if why:
                self.own[name] = why
                self.carried.pop(name, None)
                is_new = True
                continue
            pairs = zip(leaves(first), leaves(value), strict=True)
            made = [self._start(x, y, name in self.carried) for x, y in pairs]
            if any(x is not y for x, y in zip(made, leaves(first), strict=True)) or (
                name not in self.carried and not is_same_tree(self.before[name], value)
            ):
                self.carried[name] = with_leaves(first, made)
                is_new = True
        return is_new

    def _why_not(self, name: str, first: Value, value: Value) -> str:
        """Why a variable cannot be carried, in words; "" if it can."""
        if isinstance(first, Unusable) or isinstance(value, Unusable):
            found = first if isinstance(first, Unusable) else value
            return str(vars(found)["message"])
        where = f"by the loop on a tensor ({self.line})"
        if first is MISSING or value is MISSING:
            return f"[{self.op}] {said(name)} has a value only {where}; assign it before the loop."
        fits = leaves_by_path(first).keys() == leaves_by_path(value).keys() and all(
            is_same(x, y) or _can_become(x, y)
            for x, y in zip(leaves(first), leaves(value), strict=True)
        )
        if fits:
            return ""
        return (
            f"[{self.op}] {said(name)} is {in_words(first)} before a step and {in_words(value)} "
            f"after it {where}; let every step give the same nesting, shapes and dtypes."
        )

    @staticmethod
    def _start(x: Value, y: Value, is_carried: bool) -> Value:
        """A leaf before the first step: a tensor, if a step changes it."""
        if isinstance(x, Tensor) or is_same(x, y):
            return x
        if isinstance(y, Tensor):
            return constant(x, y.dtype, y.device, y.shape)
        kinds = {type(x), type(y)}
        return constant(x, float32 if float in kinds else int64 if int in kinds else bool_)

    # The end ----------------------------------------------------------------------------------

    def _finish(self, made: list[Tensor]) -> None:
        """Let the variables be what the loop has left."""
        rest = iter(made)
        values: Values = {}
        for name, tree in self.carried.items():
            values[name] = map_leaves(lambda x: next(rest) if isinstance(x, Tensor) else x, tree)
            if name in self.in_place and isinstance(self.before[name], Tensor):
                values[name] = written(self.before[name], values[name])
        for name, why in self.own.items():
            values[name] = MISSING if name.startswith(RUNTIME) else Unusable(why)
        self.variables.write(values)


def _can_become(x: Value, y: Value) -> bool:
    """Can a leaf be x before and y after a step?"""
    if not isinstance(x, (Tensor, *NUMBERS)) or not isinstance(y, (Tensor, *NUMBERS)):
        return False
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return (x.shape, x.dtype) == (y.shape, y.dtype)
    return not isinstance(x, Tensor) or x.shape == ()


def is_same_tree(a: Value, b: Value) -> bool:
    first, second = leaves(a), leaves(b)
    return len(first) == len(second) and all(map(is_same, first, second))


def zeros_as(x: Value) -> Value:
    """What stands for a value that is not there yet."""
    return constant(0, x.dtype, x.device, x.shape) if isinstance(x, Tensor) else x
