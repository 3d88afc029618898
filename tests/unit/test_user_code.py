"""The line of the user's program is the innermost one outside the package."""

import os
from types import FunctionType

import numpy as np

from needle.system import user_code


def line_from(file: str) -> user_code.Line | None:
    """What user_line gives to code in a file of that name."""
    code = compile("def ask():\n    return user_line()", file, "exec").co_consts[0]
    return FunctionType(code, {"user_line": user_code.user_line})()


def test_this_file_is_the_users():
    line = user_code.user_line()
    assert line is not None and line.file == __file__
    assert str(line).endswith("line = user_code.user_line()")


def test_a_folder_whose_name_begins_like_the_package_is_the_users():
    neighbour = user_code.PACKAGE.rstrip(os.sep) + "_demo.py"
    assert line_from(neighbour) == (neighbour, 2)


def test_files_of_the_package_are_passed_over():
    line = line_from(os.path.join(user_code.PACKAGE, "nn", "some.py"))
    assert line is not None and line.file == __file__


def test_files_of_numpy_are_passed_over():
    line = line_from(os.path.join(os.path.dirname(np.__file__), "linalg", "some.py"))
    assert line is not None and line.file == __file__
