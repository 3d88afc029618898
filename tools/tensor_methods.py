"""Write python/needle/tensor_methods.pyi: the types of what ops/tensor_table.py installs.

python tools/tensor_methods.py          write the file
python tools/tensor_methods.py --check  exit 1 if it is not up to date
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from needle.ops.tensor_table import LATER, METHODS, PROPERTIES, methods_of

PATH = Path(__file__).parent.parent / "python" / "needle" / "tensor_methods.pyi"

HEADER = '''\
"""Tensor's operators and methods, for type checkers and editors.

Written by tools/tensor_methods.py from the table in ops/tensor_table.py; not there at run time.
"""

import builtins
from collections.abc import Iterator, Sequence
from typing import Any

from .autograd import Tensor, TensorTuple
from .backend import BackendDevice
from .ndarray.random import RandomSource

Scalar = bool | int | float
Axes = int | Sequence[int] | None

class TensorMethods:
'''


class _Dots:
    """How a stub writes a default."""

    def __repr__(self) -> str:
        return "..."


def method(name: str, function: object) -> str:
    """One line of the stub: the function's signature with its first argument as self."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    _, *rest = signature.parameters.values()
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for p in rest:
        default = p.default if p.default is inspect.Parameter.empty else _Dots()
        parameters.append(p.replace(default=default))
    shown = str(signature.replace(parameters=parameters, return_annotation=inspect._empty))
    reflected = name.startswith("__r") or name == "__getitem__"  # written for Any, give a Tensor
    returns = "Tensor" if reflected else str(signature.return_annotation)
    return f"    def {name}{shown.replace(chr(39), '')} -> {returns}: ..."


def stub() -> str:
    """The whole file."""
    methods = dict(METHODS)
    for file in LATER:
        methods |= methods_of(file)
    lines = [method(name, function) for name, function in methods.items()]
    for name in PROPERTIES:
        lines += ["    @property", f"    def {name}(self) -> Tensor: ..."]
    return HEADER + "\n".join(lines) + "\n"


def main() -> int:
    if "--check" in sys.argv:
        return int(PATH.read_text() != stub())
    PATH.write_text(stub())
    return 0


if __name__ == "__main__":
    sys.exit(main())
