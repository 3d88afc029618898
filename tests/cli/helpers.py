"""Running `needle` in this process or in another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from needle.cli import main

QUICK = ["--epochs", "3", "--batch-size", "120"]  # 10 steps an epoch


class Result(NamedTuple):
    code: int
    out: str
    err: str


def call(capsys, *arguments: str) -> Result:
    """The command in this process."""
    try:
        code = main([str(a) for a in arguments])
    except SystemExit as stop:  # argparse: --help, bad arguments
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return Result(code, out, err)


def start(*arguments: str, folder: Path, **options) -> subprocess.Popen:
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "needle", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "NEEDLE_NUM_THREADS": "1"},
        text=True,
        **options,
    )


def refused(result: Result) -> str:
    """The one line on stderr of a command that was called wrongly."""
    assert result.code == 2
    assert result.out == ""
    assert result.err.count("\n") == 1 and result.err.endswith("\n")
    return result.err.rstrip("\n")
