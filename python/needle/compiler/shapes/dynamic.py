"""Functions for any size of one axis: programs for new sizes are derived without running Python.

A function is traced at two more sizes, the *probes*, and the trace for every other size follows
from these two (`blend.py`). This is checked: for the size of the first call and for a small one,
the derived graph must equal the traced one. Sizes 0 and 1 are always traced, since they broadcast.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from ...ndarray.array import NDArray
from ...tree import leaves
from ..errors import TraceError
from ..trace.state import Cell, Layout, data_of, layout_of
from ..trace.tracer import ArgumentType, Rewrite, Trace, trace
from .blend import PROBES, Blend, Varies, is_same_graph
from .sizes import Guard, guards, seen_by_user

SMALL = 3  # derived traces are checked for this size, and for that of the first call


class Dynamic:
    """Which axes of a function's arguments are dynamic: one for all arrays, or by parameter."""

    def __init__(self, function: Callable[..., object], axes: int | dict[str, int]):
        self.axes = axes
        self.signature = inspect.signature(function)
        numbers = axes.values() if isinstance(axes, dict) else (axes,)
        if any(type(axis) is not int for axis in numbers):
            raise TypeError(
                "[jit] expected dynamic to be the number of an axis, as in dynamic=0 or "
                f"dynamic={{'x': 0}}, got {axes!r}."
            )
        if isinstance(axes, dict):
            unknown = [name for name in axes if name not in self.signature.parameters]
            if unknown:
                known = ", ".join(self.signature.parameters)
                raise ValueError(
                    f"[jit] expected dynamic to name parameters of the function ({known}), got "
                    f"{unknown[0]!r}."
                )

    def marks_and_size(self, call: Any) -> tuple[list[int | None], int | None]:
        """The dynamic axis of each array of a call (or None), and the one size of these axes."""
        marks = self._marks(call)
        shapes = [array.shape for array in call.arrays]
        sizes = {s[axis] for s, axis in zip(shapes, marks, strict=True) if axis is not None}
        if len(sizes) > 1:
            raise ValueError(
                f"[jit] expected one size for all dynamic axes, got {sorted(sizes)}; name the "
                "parameters, as in dynamic={'x': 0}."
            )
        return marks, sizes.pop() if sizes else None

    def _marks(self, call: Any) -> list[int | None]:
        if isinstance(self.axes, int):
            return [_counted(self.axes, array.ndim) for array in call.arrays]
        bound = self.signature.bind(*call.args, **call.kwargs).arguments
        axis_of = {id(x): axis for name, axis in self.axes.items() for x in leaves(bound.get(name))}
        given = zip(call.originals, call.arrays, strict=True)
        named = [(axis_of.get(id(original)), array.ndim) for original, array in given]
        marks = [None if axis is None else _counted(axis, ndim) for axis, ndim in named]
        for (axis, ndim), mark in zip(named, marks, strict=True):
            if axis is not None and mark is None:
                raise ValueError(
                    f"[jit] expected dynamic to name an axis of the argument, got axis {axis} for "
                    f"an array with {ndim} axes."
                )
        return marks


def _counted(axis: int, ndim: int) -> int | None:
    """An axis counted from the first one, or None if an array has no such axis."""
    return axis % ndim if -ndim <= axis < ndim else None


def with_size(
    types: Sequence[ArgumentType | None], marks: list[int | None], n: int
) -> list[ArgumentType | None]:
    """Argument types with another size in the dynamic axes."""
    rest = iter(marks)
    made: list[ArgumentType | None] = []
    for kind in types:
        axis = None if kind is None else next(rest)
        if kind is not None and axis is not None:
            shape = (*kind.shape[:axis], n, *kind.shape[axis + 1 :])
            made.append(replace(kind, shape=shape))
        else:
            made.append(kind)
    return made


def open_key(key: Hashable, marks: list[int | None]) -> Hashable:
    """A call's key without the sizes of dynamic axes."""
    rest = iter(marks)

    def opened(part: Hashable) -> Hashable:
        if not isinstance(part, tuple):
            return part
        if part and part[0] is NDArray:
            axis = next(rest)
            shape = tuple(None if d == axis else n for d, n in enumerate(part[1]))
            return (*part[:1], shape, *part[2:])
        return tuple(map(opened, part))

    return opened(key)


# Families ----------------------------------------------------------------------------------------


class Family:
    """The programs of one function for every size of its dynamic axes."""

    def __init__(self, probes: tuple[Trace, Trace], conditions: set[Guard]):
        self.probes = probes
        self.guards = conditions
        self.used = 0  # the time of its last use, for cache.py
        self.layouts: list[Layout] = []
        self.memory: list[int] = []  # the same number for those that share it
        first, second = probes
        if first.host or second.host:
            raise Varies("NumPy draws the random numbers (call ndl.manual_seed first)")
        if first.escaped or second.escaped:
            raise Varies("a tensor that the function makes outlives the call")
        for one, other in zip(first.states, second.states, strict=True):
            if one.cells != other.cells:
                raise Varies("the tensors that it uses from outside depend on the size")
            self.layouts += [layout_of(a) for a in one.arrays]
            self.memory += [id(one)] * len(one.arrays)
            one.release()
            other.release()
        self.wanted = self._wanted()

    def allows(self, n: int) -> bool:
        """Would Python take the same path for this size, with the tensors as they are now?"""
        tensors = [cell.tensor() for cell in self._cells()]
        if any(t is None for t in tensors):
            return False
        arrays = [data_of(t) for t in tensors]
        pairs = set(zip(self.memory, [id(a._handle) for a in arrays], strict=True))
        is_same = (
            [layout_of(a) for a in arrays] == self.layouts
            and len(pairs) == len({m for m, _ in pairs}) == len({h for _, h in pairs})
            and self._wanted() == self.wanted
        )
        return n > 1 and is_same and all(guard.holds(n) for guard in self.guards)

    def _cells(self) -> list[Cell]:
        return [cell for state in self.probes[0].states for cell in state.cells]

    def _wanted(self) -> list[bool]:
        """Which tensors require a gradient."""
        return [cell.owner.requires_grad for cell in self._cells()]

    def trace_for(self, n: int) -> Trace:
        """What tracing with size n would give."""
        return Blend(*self.probes, n).trace()


# Probing -----------------------------------------------------------------------------------------


def family_of(
    function: Callable[..., object],
    call: Any,
    marks: list[int | None],
    traced: Trace,
    n: int,
    rewrite: Rewrite,
) -> Family:
    """The family of a function that was traced for a call with size n. Raises TraceError if it has
    none."""
    blend = None

    def traced_for(size: int) -> Trace:
        types = with_size(call.types, marks, size)
        return trace(function, call.args, call.kwargs, types, rewrite)

    try:
        conditions: set[Guard] = set()
        probes = []
        for probe in PROBES:
            with seen_by_user(probe):
                probes.append(traced_for(probe))
                conditions |= guards
        family = Family((probes[0], probes[1]), conditions)
        for size, found in ((n, traced), (SMALL, None)):
            if not all(guard.holds(size) for guard in conditions):
                continue  # Python takes another path there, so this size is traced
            blend = Blend(*family.probes, size)
            made = blend.trace().graph
            if not is_same_graph(made, (found or traced_for(size)).graph):
                raise Varies(f"the calls for size {size} differ from those that were derived")
        return family
    except Varies as problem:
        node = None if blend is None else blend.node
        place = "" if node is None else f", in {node.kernel} at {node.source}"
        raise TraceError(
            f"[jit] programs for other sizes of the dynamic axis cannot be derived{place}: "
            f"{problem}; leave `dynamic` out, so that each size is traced."
        ) from None
