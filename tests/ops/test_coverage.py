"""The records and the exported operators are the same set."""

import inspect

import needle as ndl

from .records import CREATION, RECORDS


def exported(module, package):
    """The public functions that a package defines, each under its first name."""
    found = {}
    for name in dir(module):
        value = getattr(module, name)
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


def test_loosened_tolerances_have_a_reason():
    for record in RECORDS:
        assert not record.tolerance or record.reason, record.name
