"""`ndl.cuda`, which is a function with the device's properties, and here also a package: what
imports `needle.cuda` finds that function, and `python -m needle.cuda.selftest` its program.

Stands on: backend, init, nn, optim, compiler.
"""

import sys

from ..backend.device import cuda

vars(cuda).update(__path__=__path__, __spec__=__spec__)
sys.modules[__name__] = cuda  # type: ignore[assignment]
