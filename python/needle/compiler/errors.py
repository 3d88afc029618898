"""Errors of traced and compiled functions, which name the line of the user's program."""

from __future__ import annotations

import sys
from types import FrameType

from ..ndarray.index.errors import say
from ..system.user_code import PACKAGE, is_users, line_at, user_line
from .ir.graph import Node


class TraceError(TypeError):
    """A function that cannot be compiled as it is: its Python depends on tensors' elements."""


class NeedsTruth(TraceError):
    """A tensor decides what Python does: as a condition, as a number of steps, or to be printed."""


# Files of this package whose functions read elements, and what to do instead.
REMEDIES = {
    "optim/schedule.py": "call the scheduler's step between calls of the compiled function, which "
    "reads the learning rate in every call",
}
# Methods that read elements to print them.
SHOWING = ("__repr__", "__str__", "__format__")
DECIDING = ("__bool__", "__index__", *SHOWING)
PRINT_LATER = "return it, and print it after the call"


def needs_data(what: str, remedy: str) -> TraceError:
    """The error for Python code that reads elements which are not computed yet."""
    frame: FrameType | None = sys._getframe(1)
    kind = TraceError
    while frame is not None and not is_users(frame):
        remedy = REMEDIES.get(frame.f_code.co_filename.removeprefix(PACKAGE), remedy)
        remedy = PRINT_LATER if frame.f_code.co_name in SHOWING else remedy
        kind = NeedsTruth if frame.f_code.co_name in DECIDING else kind
        frame = frame.f_back
    return at_user_line(
        f"[jit] {what} while the function is traced: its elements are not computed yet; {remedy}.",
        kind,
    )


def at_user_line(message: str, kind: type[TraceError] = TraceError) -> TraceError:
    """An error with the user's line below it."""
    line = user_line()
    return kind(message if line is None else f"{message}\n  {line}")


def name_call(error: BaseException, node: Node) -> BaseException:
    """The error of a call in a program as eager mode raises it, with the user's line.

    Of several calls with the same indices, eager mode fails in the first. The program may not have
    that call any more: the gradient of a sum, for one, does not need its elements."""
    node = node.first or node
    place = f"\n  {line_at(node.source)}" if node.source else ""
    if getattr(error, "outside", None) is not None:
        error = say(error, *node.words)
        error.args = (f"{error}{place}",)
    elif place and isinstance(error, Exception):  # of the user's own operator, or no memory
        error.add_note(f"in a compiled function, at{place}")
    return error
