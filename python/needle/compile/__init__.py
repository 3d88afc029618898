"""The compiler: `jit` and control flow that it can record."""

from .errors import TraceError as TraceError
from .function import CacheInfo as CacheInfo, Jitted as Jitted, jit as jit

__all__ = ["CacheInfo", "Jitted", "TraceError", "jit"]
