"""Errors of traced functions, which name the line of the user's program."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType

PACKAGE = str(Path(__file__).parent.parent)


class TraceError(TypeError):
    """A function that cannot be compiled as it is: its Python depends on tensors' elements."""


def user_frame() -> FrameType | None:
    """The innermost frame outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE, "<frozen ")):
        frame = frame.f_back
    return frame


def user_line() -> str:
    """file:line of the user's program."""
    frame = user_frame()
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


# Files of this package whose functions ask for elements, and what to do instead.
REMEDIES = {
    "optim/schedule.py": "call the scheduler's step between calls of the compiled function, which "
    "reads the learning rate anew",
}


def needs_data(what: str, remedy: str) -> TraceError:
    """The error for Python that asks for elements which are not computed yet."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE, "<frozen ")):
        remedy = REMEDIES.get(frame.f_code.co_filename[len(PACKAGE) + 1 :], remedy)
        frame = frame.f_back
    return at_user_line(
        f"[jit] {what} while the function is traced: its elements are not computed yet; {remedy}."
    )


def at_user_line(message: str) -> TraceError:
    """An error with the user's line below it."""
    frame = user_frame()
    place = ""
    if frame is not None:
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        place = f"\n  {frame.f_code.co_filename}:{frame.f_lineno}: {text}"
    return TraceError(message + place)
