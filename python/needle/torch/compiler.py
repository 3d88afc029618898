"""`torch.compiler`: marks that change nothing."""

from __future__ import annotations

from .jit.compiling import compile as compile, ignore as disable, is_scripting as is_compiling

allow_in_graph = assume_constant_result = disable
is_dynamo_compiling = is_exporting = is_compiling


def reset() -> None:
    """Nothing to forget."""


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark."""
