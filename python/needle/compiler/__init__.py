"""The compiler: `jit` and control flow that it can record.

Stands on: io, transforms.
"""

from .control.functions import cond as cond, scan as scan, while_loop as while_loop
from .errors import TraceError as TraceError
from .function import CacheInfo as CacheInfo, Jitted as Jitted, jit as jit

__all__ = [
    *("CacheInfo", "Jitted", "TraceError"),
    *("cond", "jit", "scan", "while_loop"),
]
