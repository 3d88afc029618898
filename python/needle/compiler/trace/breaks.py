"""Breaks: operators of the user's whose `compute` needs elements, and so cannot be recorded.

Such an operator runs as Python in the middle of the program. The call is a node like any other, and
a warning says where it is when the function is traced. The shape of its result is found by calling
`compute` once with ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ...autograd import Op
from ...ndarray.array import NDArray, compact_view, full
from ...system.user_code import user_place
from ...tracing import tracing
from ..errors import TraceError
from ..guards.generators import rewind
from ..ir.graph import Node, whole
from .record import Handle, Recording

if TYPE_CHECKING:
    from ...types import Arrays
    from ..ir.graph import Operand

PYTHON = "python"


def has_effect(node: Node) -> bool:
    """Is a call, or one in its body, made for what it does, not for its results?"""
    if not node.args:
        return False
    body = getattr(node.args[0], "body", None)  # of a loop
    inside = [] if body is None else body.nodes
    return getattr(node.args[0], "has_effect", False) or any(map(has_effect, inside))


class Break:
    """The call of an operator's compute, on real arrays."""

    has_effect = False

    def __init__(self, op: Op):
        self.op = op
        self.name = type(op).__name__

    def __repr__(self) -> str:
        return self.name

    def run(self, outs: tuple[NDArray, ...], ins: tuple[NDArray, ...]) -> None:
        """Compute, and copy the results into `outs`."""
        found = self.op.compute(*ins)
        for out, array in zip(outs, _listed(found), strict=True):
            if array.shape != out.shape or array.dtype is not out.dtype:
                raise TypeError(
                    f"[{self.name}.compute] expected {out.dtype}{list(out.shape)}, as when it was "
                    f"traced, got {array.dtype}{list(array.shape)}."
                )
            out.device.mod.copy(out, array)


def _listed(found: NDArray | Arrays) -> Arrays:
    return found if isinstance(found, tuple) else (found,)


def launch(node: Node, array: Callable[[Operand], object]) -> None:
    """Make the call on the CPU as a part of a native sequence."""
    what, outs, ins = node.args
    shapes = [(x.shape, x.dtype, node.device) for x in (*outs, *ins)]

    def callback(handles: list[object]) -> None:
        arrays = [
            compact_view(shape, dtype, device, handle)
            for handle, (shape, dtype, device) in zip(handles, shapes, strict=True)
        ]
        inputs = tuple(arrays[len(outs) :])
        if isinstance(what, Break):  # the operator may keep them
            inputs = tuple(a.copy() for a in inputs)
        what.run(tuple(arrays[: len(outs)]), inputs)

    node.device.mod.run_python(callback, tuple(map(array, outs)), tuple(map(array, ins)))


# Tracing -----------------------------------------------------------------------------------------


def compute(recording: Recording, op: Op, arrays: Arrays) -> NDArray | Arrays:
    """The result of an operator's compute, recorded. One from outside of the package that needs
    elements is a break."""
    if type(op).__module__.split(".")[0] == "needle":
        return cast("NDArray | Arrays", op.compute(*arrays))
    calls, states = len(recording.graph.nodes), recording.reached.generators.states()
    try:
        return cast("NDArray | Arrays", op.compute(*arrays))
    except TraceError:
        del recording.graph.nodes[calls:]
    made = _recorded(recording, op, arrays)
    rewind(states)  # each run draws for itself
    return made[0] if len(made) == 1 else tuple(made)


def _recorded(recording: Recording, op: Op, arrays: tuple[NDArray, ...]) -> list[NDArray]:
    graph, what = recording.graph, Break(op)
    source = user_place()
    warnings.warn(
        f"[jit] {what.name}.compute needs the elements of its inputs, so it runs as Python in the "
        f"middle of the program ({source}).",
        RuntimeWarning,
        stacklevel=2,
    )
    ins = tuple(recording.in_c_order(a) for a in arrays)
    device = arrays[0].device
    outs, made = [], []
    for example in _example(op, arrays):
        value = graph.new_value(example.size, example.dtype)
        outs.append(whole(value, example.shape))
        handle = Handle(value.size, value.dtype, value)
        made.append(compact_view(example.shape, example.dtype, device, handle))
    args = (what, tuple(outs), ins)
    graph.nodes.append(Node(PYTHON, args, tuple(outs), device, source=source))
    return made


def _example(op: Op, arrays: Arrays) -> Arrays:
    """The results of compute for inputs of ones, computed now."""
    with tracing(None):
        ones = [full(a.shape, 1, a.dtype, a.device) for a in arrays]
        return _listed(op.compute(*ones))
