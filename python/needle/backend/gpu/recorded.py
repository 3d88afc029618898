"""Kernels that look at elements before they go on, as parts of a recorded sequence.

Indices are checked on the host, which waits for the device. In a sequence such a kernel is a call
of Python: what was handed over before is done by then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from ..._native import Buffer, cuda
from .views import View

P = ParamSpec("P")


def waiting(kernel: Callable[P, None]) -> Callable[P, None]:
    """A kernel that waits, whose first operand is its output."""

    @wraps(kernel)
    def called(*args: P.args, **kwargs: P.kwargs) -> None:
        if not cuda.is_recording():
            return kernel(*args, **kwargs)
        found: list[Any] = []
        _each_operand(args, found.append)
        operands = tuple(found)

        def again(places: list[tuple[Buffer, int]]) -> None:
            made = (
                View(buffer, tuple(x.shape), tuple(x.strides), offset, x.dtype)
                for x, (buffer, offset) in zip(operands, places, strict=True)
            )
            kernel(*_each_operand(args, lambda _: next(made)), **kwargs)

        cuda.record_python(again, operands[:1], operands[1:])

    return called


def _each_operand(args: Any, change: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Arguments with every operand in them, also in tuples, changed."""
    return tuple(
        _each_operand(x, change)
        if isinstance(x, tuple)
        else change(x)
        if hasattr(x, "_handle")
        else x
        for x in args
    )
