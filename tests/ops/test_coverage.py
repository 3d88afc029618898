"""The records and the exported operators are the same set."""

import inspect
import pkgutil
import subprocess
import sys

import needle as ndl

from .records import CREATION, RECORDS


def exported(module, package):
    """The public functions that a package defines, each under its first name."""
    found = {}
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__.startswith(package):
            found.setdefault(value, name)
    return {name: f for f, name in found.items() if not name.startswith("_")}


def test_every_operator_has_a_record():
    recorded = {r.operator for r in RECORDS} | {getattr(ndl.ops, r.name) for r in RECORDS}
    functions = exported(ndl.ops, "needle.ops")
    missing = sorted(n for n, f in functions.items() if f not in recorded)
    assert not missing, f"no record in tests/ops/records for {missing}"


def test_every_record_is_exported():
    for record in RECORDS:
        assert callable(getattr(ndl.ops, record.name, None)), record.name
        assert getattr(ndl, record.name) is getattr(ndl.ops, record.name), record.name


def test_every_creation_function_has_a_record():
    recorded = {r.name for r in CREATION}
    missing = sorted(set(exported(ndl.init, "needle.init")) - recorded)
    assert not missing, f"no record in tests/ops/records/creation.py for {missing}"


def test_names_are_unique():
    names = [r.name for r in (*RECORDS, *CREATION)]
    assert len(set(names)) == len(names)


def test_no_module_takes_the_name_of_a_function():
    """Python binds a module to its package when it is first imported: `import needle` does that
    before it binds the functions."""
    modules = {module.name for module in pkgutil.iter_modules(ndl.__path__)}
    shared = sorted(modules & {record.name for record in (*RECORDS, *CREATION)})
    code = (
        "import importlib, needle\n"
        f"for name in {shared}:\n"
        "    importlib.import_module('needle.' + name)\n"
        "    assert getattr(needle, name) is getattr(needle.ops, name), name\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_loosened_tolerances_have_a_reason():
    for record in RECORDS:
        assert not record.tolerance or record.reason, record.name
