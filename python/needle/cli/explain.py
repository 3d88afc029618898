"""`needle explain`: what the compiled functions of a script are made of."""

from __future__ import annotations

import runpy
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from ..compile import function
from ..compile.explain import page
from .errors import UsageError


class Watch:
    """Sums up the seconds of every kernel, over all calls of every program."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[str, Any, list[float], int]] = {}

    def __call__(self, name: str, program: Any, seconds: list[float]) -> None:
        _, _, before, calls = self.seen.get(id(program), (name, program, [], 0))
        fewest = [min(pair) for pair in zip(before, seconds, strict=True)] if before else seconds
        self.seen[id(program)] = (name, program, fewest, calls + 1)


def run_explain(options: Namespace) -> int:
    """The command; its exit code."""
    script = Path(options.script)
    if not script.is_file():
        raise UsageError(f"there is no script {options.script}")
    watch = Watch()
    before = sys.argv
    sys.argv = [str(script), *options.arguments]
    function.watch = watch
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        function.watch = None
        sys.argv = before
    if not watch.seen:
        raise UsageError(f"{options.script} called no function under ndl.jit")
    functions = []
    for name, program, seconds, calls in watch.seen.values():
        kernels = program.kernels()
        for kernel, time in zip(kernels, seconds, strict=True):
            kernel.seconds = time
        functions.append((f"{name}, {calls} call{'s' if calls > 1 else ''}", program, kernels))
    Path(options.out).write_text(page(functions), encoding="utf-8")
    print(f"wrote {options.out}: {len(functions)} compiled programs")
    return 0
