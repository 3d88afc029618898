"""`needle torch-check`: what a PyTorch program uses that needle.torch has not."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from ..torch.run.checking import missing
from .errors import UsageError


def run_torch_check(options: Namespace) -> int:
    """List names that are missing; 1 if there are any."""
    paths = [Path(script) for script in options.scripts]
    for path in paths:
        if not path.is_file():
            raise UsageError(f"expected a Python file, got {str(path)!r}")
    try:
        found = missing(paths)
    except SyntaxError as error:
        raise UsageError(f"{error.filename}:{error.lineno}: {error.msg}") from None
    for use in found:
        print(f"{use.path}:{use.line}: {use.name} is missing")
    if not found:
        print("Nothing is missing.")
    return 1 if found else 0
