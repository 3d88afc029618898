"""The size of a dynamic axis as the user's Python sees it while a function is probed.

A shape that user code reads has `SymbolicSize`s in it: integers that know how they depend on the
size n. Sums and multiples of them are such sizes too. A comparison adds a guard, a condition that
other sizes must meet in the same way. Anything else would turn the size into a plain number: it
raises.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

from ...autograd import Tensor
from ...system.user_code import is_users
from ..errors import at_user_line

NEAR = 16  # a size this close to a multiple of the probe's size is taken to depend on it
REMEDY = (
    "divide a tensor by the size instead (loss.sum() / x.shape[0]), or leave `dynamic` out, so "
    "that each size is traced"
)


class Guard(NamedTuple):
    """A comparison and its outcome: compare(slope * n + shift, other) is `result`."""

    compare: Callable[[Any, Any], bool]
    slope: int
    shift: int
    other: Any
    result: bool

    def holds(self, n: int) -> bool:
        return self.compare(self.slope * n + self.shift, self.other) == self.result


guards: set[Guard] = set()  # of the probe that runs now: the lock of tracing allows only one


def _is_user() -> bool:
    """Does the code that called our caller belong to the user's program?"""
    return is_users(sys._getframe(2))


class SymbolicSize(int):
    """slope * n + shift, for the n of a probe."""

    slope: int
    shift: int

    @staticmethod
    def of(n: int, slope: int, shift: int) -> SymbolicSize:
        made = SymbolicSize(slope * n + shift)
        made.slope, made.shift, made.n = slope, shift, n
        return made

    n: int

    def _linear(self, other: int, scale: int, factor: int) -> SymbolicSize:
        """scale self + factor other"""
        slope, shift = (
            (other.slope, other.shift) if isinstance(other, SymbolicSize) else (0, int(other))
        )
        return SymbolicSize.of(
            self.n, scale * self.slope + factor * slope, scale * self.shift + factor * shift
        )

    def __add__(self, other: int) -> SymbolicSize:
        return self._linear(other, 1, 1) if isinstance(other, int) else NotImplemented

    def __sub__(self, other: int) -> SymbolicSize:
        return self._linear(other, 1, -1) if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: int) -> SymbolicSize:
        return self._linear(other, -1, 1) if isinstance(other, int) else NotImplemented

    def __mul__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        if isinstance(other, SymbolicSize):
            return _left(self, "a product of sizes") if _is_user() else int(self) * int(other)
        return SymbolicSize.of(self.n, self.slope * other, self.shift * other)

    __radd__, __rmul__ = __add__, __mul__

    def __bool__(self) -> bool:
        result = int.__bool__(self)
        if _is_user():
            guards.add(Guard(operator.ne, self.slope, self.shift, 0, result))
        return result

    def __hash__(self) -> int:
        return _left(self, "a key") if _is_user() else int.__hash__(self)


def _left(size: SymbolicSize, what: str) -> NoReturn:
    raise at_user_line(f"[jit] the size of a dynamic axis became {what}; {REMEDY}.")


def _comparing(name: str) -> Callable[[SymbolicSize, int], bool]:
    compare, plain = getattr(operator, name), getattr(int, f"__{name}__")

    def method(self: SymbolicSize, other: int) -> bool:
        result: bool = plain(self, other)
        if result is NotImplemented or not _is_user():
            return result
        if isinstance(other, SymbolicSize):  # the difference is compared with 0
            slope, shift = self.slope - other.slope, self.shift - other.shift
            guards.add(Guard(compare, slope, shift, 0, result))
        else:
            guards.add(Guard(compare, self.slope, self.shift, other, result))
        return result

    return method


def _refusing(name: str) -> Callable[..., object]:
    plain = getattr(int, name)

    def method(self: SymbolicSize, *args: object) -> object:
        return _left(self, "a plain number") if _is_user() else plain(self, *args)

    return method


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SymbolicSize, f"__{_name}__", _comparing(_name))
for _name in (
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "divmod",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
):
    for _side in ("", "r"):
        setattr(SymbolicSize, f"__{_side}{_name}__", _refusing(f"__{_side}{_name}__"))
for _name in ("float", "int", "neg", "pos", "abs", "invert", "round"):
    setattr(SymbolicSize, f"__{_name}__", _refusing(f"__{_name}__"))


def as_sizes(shape: tuple[int, ...], n: int) -> tuple[int, ...]:
    """A shape with Sizes in place of the numbers that depend on n."""

    def seen(dim: int) -> int:
        slope = (int(dim) + NEAR) // n
        shift = int(dim) - slope * n
        return SymbolicSize.of(n, slope, shift) if slope and abs(shift) <= NEAR else dim

    return tuple(map(seen, shape))


@contextmanager
def seen_by_user(n: int) -> Iterator[None]:
    """Within this context, shapes that user code reads in this thread have Sizes in them."""
    real: Any = Tensor.__dict__["shape"]
    thread = threading.get_ident()
    guards.clear()

    def shape(tensor: Tensor) -> tuple[int, ...]:
        found: tuple[int, ...] = real.__get__(tensor)
        is_asked = threading.get_ident() == thread and _is_user()
        return as_sizes(found, n) if is_asked else found

    def length(tensor: Tensor) -> int:
        found = real.__get__(tensor)
        is_asked = threading.get_ident() == thread and _is_user()
        if is_asked and found and isinstance(as_sizes(found[:1], n)[0], SymbolicSize):
            raise at_user_line("[jit] len() of a dynamic axis is a plain number; use x.shape[0].")
        size: int = len_of(tensor)
        return size

    len_of: Any = Tensor.__dict__["__len__"]
    setattr(Tensor, "shape", property(shape))  # noqa: B010
    setattr(Tensor, "__len__", length)  # noqa: B010
    try:
        yield
    finally:
        setattr(Tensor, "shape", real)  # noqa: B010
        setattr(Tensor, "__len__", len_of)  # noqa: B010
