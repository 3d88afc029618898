"""Public names: each stands in one place, and packages find it there when it is first used."""

from __future__ import annotations

import builtins
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from needle.system.later import places
from needle.system.public_names import PUBLIC_NAMES

ROOT = Path(__file__).parents[2]


def run(code: str) -> str:
    """What a program prints in a process of its own."""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_the_table_is_what_the_tool_writes() -> None:
    check = subprocess.run([sys.executable, ROOT / "tools" / "public_names.py", "--check"])
    assert check.returncode == 0, "run: python tools/public_names.py"


@pytest.mark.parametrize("package", PUBLIC_NAMES)
def test_every_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    for name, (file, own) in places(package).items():
        home = importlib.import_module(file)
        assert getattr(module, name) is (getattr(home, own) if own else home), name
        assert vars(module)[name] is getattr(module, name), "found once, then kept"
    assert {*places(package)} <= {*dir(module)}


@pytest.mark.parametrize("package", PUBLIC_NAMES)
def test_star_imports_are_complete_and_hide_nothing_of_python(package: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {package} import *", names)
    hidden = {name for name in places(package) if hasattr(builtins, name) or name == "io"}
    assert {*names} - {"__builtins__"} == {*places(package)} - hidden


def test_no_file_hides_a_function_of_its_name() -> None:
    """`needle.tile` and `ops.matmul` are functions, in whatever order files are imported."""
    code = """
import importlib, pkgutil, needle
for found in pkgutil.walk_packages(needle.__path__, "needle."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
from needle.system.later import places, PUBLIC_NAMES
for package in PUBLIC_NAMES:
    for name, (_, own) in places(package).items():
        if isinstance(getattr(importlib.import_module(package), name), type(needle)) and own:
            print(package, name)
"""
    assert run(code).split() == ["needle", "array_api"]  # which is a module


def test_files_of_a_package_are_its_attributes() -> None:
    code = """
import needle as ndl
print(ndl.optim.adam.Adam.__name__, ndl.transforms.checkpoint.__name__, ndl.nn.norm.__name__)
"""
    assert run(code).split() == ["Adam", "needle.transforms.checkpoint", "needle.nn.norm"]


@pytest.mark.parametrize("name", ["nope", "__nope__", "__main__", "no pe", "no.pe"])
def test_other_names_are_not_there(name: str) -> None:
    for package in PUBLIC_NAMES:
        with pytest.raises(AttributeError, match=f"module '{package}' has no attribute '{name}'"):
            getattr(importlib.import_module(package), name)


def test_a_file_that_fails_says_why() -> None:
    """An import that fails inside of a file is not taken for a name that is not there."""
    code = """
import sys
sys.modules["json"] = None
import needle
try:
    needle.export
except ImportError as error:
    print(error.name)
"""
    assert run(code).split() == ["json"]


def test_import_loads_tensors_and_nothing_above_them() -> None:
    loaded = run("import sys, needle; print(*sys.modules)").split()
    rooms = {name.split(".")[1] for name in loaded if name.startswith("needle.")}
    later = "cli compat compiler data init io nn optim testing train transforms tree utils"
    assert not rooms & {*later.split()}
    assert {"autograd", "ops", "ndarray"} <= rooms


def test_modules_are_modules() -> None:
    import needle as ndl

    for name in ("amp", "data", "io", "models", "nn", "optim", "testing", "utils"):
        assert isinstance(getattr(ndl, name), ModuleType)
