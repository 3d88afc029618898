"""The compiler: `jit` and control flow that it can record."""

from .control import cond as cond, scan as scan, while_loop as while_loop
from .errors import TraceError as TraceError
from .exporting import Exported as Exported, export as export, load_exported as load_exported
from .function import CacheInfo as CacheInfo, Jitted as Jitted, jit as jit

__all__ = [
    *("CacheInfo", "Exported", "Jitted", "TraceError"),
    *("cond", "export", "jit", "load_exported", "scan", "while_loop"),
]
