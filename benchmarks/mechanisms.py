"""What each mechanism of the compiler buys: steps with it switched off, beside steps with it.

    python benchmarks/steps.py --peers "without prologues,without panels" [--only gpt]

A row's speed says how much slower a step is without the mechanism; its first calls say what the
mechanism costs when a function is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from needle import config
from needle.compiler.run import program


def _unchanged(graph: Any, *_: Any) -> Any:
    return graph


def _without_panels() -> None:
    program.panels = lambda graph, fixed: (graph, {})  # type: ignore[assignment]


def _without_lanes() -> None:
    program.sections = lambda plan: []  # type: ignore[assignment]


def _without_pass(name: str) -> Callable[[], None]:
    return lambda: program.PASSES.update({name: _unchanged})


def _without_c() -> None:
    config.JIT = "tile"


SWITCHES: dict[str, Callable[[], None]] = {
    "fused": _without_pass("fused"),
    "epilogues": _without_pass("epilogues"),
    "prologues": _without_pass("prologues"),
    "together": _without_pass("together"),
    "panels": _without_panels,
    "lanes": _without_lanes,
    "c": _without_c,
}


def switch_off(name: str) -> None:
    """Compile functions without a mechanism from now on."""
    SWITCHES[name]()
