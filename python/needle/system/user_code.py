"""Where we are in the user's program: the innermost line outside of this package."""

from __future__ import annotations

import functools
import linecache
import os
import sys
from types import FrameType
from typing import NamedTuple

import numpy as np

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
# Files that are not the user's: the package, NumPy, and Python itself.
NOT_THE_USERS = (PACKAGE, os.path.dirname(np.__file__) + os.sep, "<frozen ")
PYTHON = os.path.dirname(os.__file__) + os.sep
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class Line(NamedTuple):
    """A line of the user's program; as text, with what is written there."""

    file: str
    number: int

    @property
    def place(self) -> str:
        """file:number"""
        return f"{self.file}:{self.number}"

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.number).strip()
        return self.place + (f": {text}" if text else "")


def is_users(frame: FrameType) -> bool:
    """Does a frame belong to the user's program?"""
    return is_users_file(frame.f_code.co_filename, installed=True)


@functools.cache
def is_users_file(name: str, installed: bool = False) -> bool:
    """Is it a file of the user's program, or of an installed package other than this one?"""
    if name.startswith(NOT_THE_USERS):
        return False
    if any(folder in name for folder in INSTALLED):
        return installed
    return not name.startswith(PYTHON)


def is_users_module(name: str, installed: bool = False) -> bool:
    """Is a module, by its name, a part of the user's program, or of an installed package?"""
    file = getattr(sys.modules.get(name), "__file__", None)
    return name == "__main__" if file is None else is_users_file(file, installed)


def user_line() -> Line | None:
    """The innermost line outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    return None if frame is None else Line(frame.f_code.co_filename, frame.f_lineno)


def user_place() -> str:
    """`user_line` as "file:number", or "" if there is none."""
    line = user_line()
    return "" if line is None else line.place


def line_at(place: str) -> str:
    """A place, "file:number", followed by the text of that line."""
    file, _, number = place.rpartition(":")
    return str(Line(file, int(number)))
