"""The compiler: `jit` and control flow that it can record.

Stands on: io, transforms.
"""

from .control.functions import *
from .errors import TraceError as TraceError
from .function import *
