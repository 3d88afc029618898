"""Environment variables: what makes no sense is refused when needle is imported."""

import os
import subprocess
import sys

import pytest

import needle as ndl
from needle import config


def imported(**variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NEEDLE_")}
    return subprocess.run(
        [sys.executable, "-c", "import needle; print(needle.get_num_threads())"],
        env=environment | variables | {"PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


GARBAGE = ["²", "٣", "③", "0", "-1", "+4", " 4", "4 ", "4\n", "1_0", "0x4", "4.0", "1e1", "1025",
           "9" * 5000, "four"]  # fmt: skip


@pytest.mark.parametrize("value", GARBAGE, ids=lambda v: ascii(v[:8]))
def test_numbers_of_threads(value, monkeypatch):
    monkeypatch.setenv("NEEDLE_NUM_THREADS", value)
    with pytest.raises(RuntimeError, match="NEEDLE_NUM_THREADS must be a positive whole number"):
        config._num_threads()


@pytest.mark.parametrize(("value", "expected"), [("1", 1), ("007", 7), ("1024", 1024), ("", None)])
def test_numbers_of_threads_that_are_taken(value, expected, monkeypatch):
    monkeypatch.setenv("NEEDLE_NUM_THREADS", value)
    assert config._num_threads() == expected


def test_the_most_threads_are_those_of_the_native_core():
    before = ndl.get_num_threads()
    with pytest.raises(ValueError, match=f"expected 1 to {config.MOST_THREADS} threads"):
        ndl.set_num_threads(config.MOST_THREADS + 1)
    assert ndl.get_num_threads() == before


@pytest.mark.parametrize("name", ["NEEDLE_BACKEND", "NEEDLE_JIT", "NEEDLE_CPU"])
@pytest.mark.parametrize("value", ["²", "np ", "AVX2", "1"])
def test_choices(name, value):
    done = imported(**{name: value})
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"RuntimeError: [needle] {name} must be one of") and repr(value) in last


def test_the_error_of_an_import_names_the_variable():
    done = imported(NEEDLE_NUM_THREADS="²")
    assert done.stderr.strip().splitlines()[-1] == (
        "RuntimeError: [needle] NEEDLE_NUM_THREADS must be a positive whole number, at most 1024, "
        "got '²'."
    )
    assert imported(NEEDLE_NUM_THREADS="3").stdout == "3\n"
