"""Variables of rewritten functions, and what they are after a branch or a loop on a tensor.

A variable that cannot be one value (tensors of two shapes, a number or None, no value in one
branch) becomes `Unusable`, which raises where it is used: many are not used any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import CellType, FunctionType
from typing import Any

from ...autograd import Tensor
from ...ops import logical_not
from ...system.user_code import user_line
from ...tree import leaves, leaves_by_path, map_leaves, with_leaves
from ..control.choice import choose
from ..control.functions import is_same
from ..errors import TraceError, at_user_line
from .exits import RUNTIME

Value = Any  # what a variable of the user's holds
NUMBERS = (bool, int, float)


class _Missing:
    """A variable without a value."""

    def __repr__(self) -> str:
        return "no value"


MISSING = _Missing()


class Unusable:
    """A variable that has no one value: every use of it is an error that says why."""

    def __init__(self, message: str):
        self.__dict__["message"] = message

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What isinstance(x, Tensor) asks, with which operators begin."""
        raise self.error()

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        raise self.error()

    def error(self) -> TraceError:
        return at_user_line(self.__dict__["message"])


def _fail(self: Unusable, *args: object) -> Value:
    raise self.error()


_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
_USES = "call bool len iter getitem setitem contains neg pos abs invert int float index lt le gt ge"
for _use in [*_USES.split(), *_BINARY, *(f"r{name}" for name in _BINARY)]:
    setattr(Unusable, f"__{_use}__", _fail)


def returned(value: Value) -> Value:
    """A returned value, which must be one."""
    for leaf in leaves(value):
        if isinstance(leaf, Unusable):
            raise leaf.error()
    return value


class Variables:
    """The variables that blocks of a function assign: cells that they share, and attributes."""

    def __init__(self, names: Iterable[str], *blocks: Callable[..., object] | None):
        self._cells: dict[str, CellType] = {}
        self._globals: dict[str, Any] = {}
        self.names = [*names]
        for block in blocks:
            if isinstance(block, FunctionType):
                cells = zip(block.__code__.co_freevars, block.__closure__ or (), strict=True)
                self._cells.update(cells)
                self._globals = block.__globals__

    def read(self) -> dict[str, Value]:
        return {name: self._get(name) for name in self.names}

    def all_cells(self) -> dict[str, Value]:
        """All variables of the function that the blocks use."""
        return {name: self._get(name) for name in self._cells}

    def write(self, values: dict[str, Value]) -> None:
        for name, value in values.items():
            base, _, attribute = name.rpartition(".")
            if not base and name in self._cells:
                _set_cell(self._cells[name], value)
            elif not base:
                _set_item(self._globals, name, value)
            elif self._get(name) is not value:
                _set_attribute(self._get(base), attribute, value)

    @contextmanager
    def same_items(self, op: str) -> Iterator[None]:
        """Within this context, containers that the blocks can see keep their items."""
        held = self.all_cells()
        kept = {name: _items(x) for name, x in held.items() if _is_container(x)}
        yield
        for name, items in kept.items():
            now = _items(held[name])
            if len(now) != len(items) or any(x is not y for x, y in zip(now, items, strict=True)):
                raise at_user_line(
                    f"[{op}] {name!r} is changed in place, and it depends on a tensor whether "
                    "that happens; make a new one (x = [*x, y]), or use tensors of a fixed size."
                )

    def _get(self, name: str) -> Value:
        base, _, attribute = name.rpartition(".")
        if base:
            return getattr(self._get(base), attribute, MISSING)
        if name not in self._cells:
            return self._globals.get(name, MISSING)
        try:
            return self._cells[name].cell_contents
        except ValueError:
            return MISSING


def _is_container(x: object) -> bool:
    return not isinstance(x, Unusable) and isinstance(x, (list, dict, set))


def _items(container: Value) -> list[Value]:
    return [*container.values()] if isinstance(container, dict) else [*container]


def _set_cell(cell: CellType, value: object) -> None:
    if value is not MISSING:
        cell.cell_contents = value
        return
    with suppress(ValueError):  # it has no value already
        del cell.cell_contents


def _set_item(names: dict[str, Value], name: str, value: object) -> None:
    if value is not MISSING:
        names[name] = value
    else:
        names.pop(name, None)


def _set_attribute(owner: object, name: str, value: object) -> None:
    if value is not MISSING:
        setattr(owner, name, value)
    else:
        delattr(owner, name)


# One value of two -------------------------------------------------------------------------------


def said(name: str) -> str:
    """A variable in words."""
    return "the returned value" if name.startswith(RUNTIME) else f"{name!r}"


def merged(name: str, condition: Tensor, a: Value, b: Value) -> Value:
    """a where the condition holds, else b: with a `Pair` for each leaf that is to be chosen;
    `Unusable` if that is no one value."""
    if a is b:
        return a
    if name.startswith(RUNTIME) and (a is MISSING or b is MISSING):
        return b if a is MISSING else a  # nobody asks for the other one
    if isinstance(a, Unusable) or isinstance(b, Unusable):
        return a if isinstance(a, Unusable) else b
    problem = _difference(a, b)
    if problem:
        return Unusable(
            f"[if] {said(name)} is {problem} by the branches of a condition on a tensor "
            f"({user_line()}); {_remedy(a, b)}."
        )
    others = leaves_by_path(b)
    pairs = [(x, others[path]) for path, x in leaves_by_path(a).items()]
    return with_leaves(a, [_choice(condition, x, y) for x, y in pairs])


class Pair:
    """Two leaves, of which one is chosen."""

    def __init__(self, first: Value, second: Value):
        self.both = first, second


def _choice(condition: Tensor, a: Value, b: Value) -> object:
    if is_same(a, b):
        return a
    if isinstance(a, bool) and isinstance(b, bool):
        return condition if a else logical_not(condition)
    return Pair(a, b)


def chosen(condition: Tensor, trees: Iterable[Value], start: int) -> list[Value]:
    """What `merged` gave, with one of each pair. They were computed since the time `start`."""
    trees = [*trees]
    usable = [tree for tree in trees if not isinstance(tree, Unusable)]
    pairs = [x.both for x in leaves(usable) if isinstance(x, Pair)]
    made = iter(choose(condition, pairs, start))

    def one(x: object) -> object:
        return next(made) if isinstance(x, Pair) else x

    return [t if isinstance(t, Unusable) else map_leaves(one, t) for t in trees]


def _difference(a: Value, b: Value) -> str:
    """Why two values cannot become one, in words; "" if they can."""
    first, second = leaves_by_path(a), leaves_by_path(b)
    if first.keys() != second.keys():
        return f"{in_words(a)} or {in_words(b)}"
    for path, x in first.items():
        y = second[path]
        if is_same(x, y):
            continue
        kinds = (Tensor, *NUMBERS)
        fits = isinstance(x, kinds) and isinstance(y, kinds)
        if fits and isinstance(x, Tensor) and isinstance(y, Tensor):
            fits = (x.shape, x.dtype) == (y.shape, y.dtype)
        elif fits and (isinstance(x, Tensor) or isinstance(y, Tensor)):
            fits = (x if isinstance(x, Tensor) else y).shape == ()
        if not fits:
            where_ = f" in {[*path]}" if path else ""
            return f"{in_words(x)} or {in_words(y)}{where_}"
    return ""


def in_words(x: object) -> str:
    if isinstance(x, Tensor):
        return f"{x.dtype}{list(x.shape)}"
    if x is None or isinstance(x, (*NUMBERS, str)) or x is MISSING:
        return f"{x!r:.40}"
    count = f" of {len(x)}" if isinstance(x, (list, tuple, dict)) else ""
    return f"a {type(x).__name__}{count}"


def _remedy(a: object, b: object) -> str:
    if a is MISSING or b is MISSING:
        return "assign it before, or in both branches"
    if any(isinstance(x, Tensor) for x in (*leaves(a), *leaves(b))):
        return "let both have the same nesting, shapes and dtypes"
    return "let the branches give tensors or numbers, or decide by a Python value"
