"""Write python/needle/tensor_methods.pyi: the types of what ops/tensor_table.py installs.

python tools/tensor_methods.py          write the file
python tools/tensor_methods.py --check  exit 1 if it is not up to date
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_overloads

from needle.ops.tensor_table import LATER, METHODS, PROPERTIES, methods_of

PATH = Path(__file__).parent.parent / "python" / "needle" / "tensor_methods.pyi"

HEADER = '''\
"""Tensor's operators and methods, for type checkers and editors.

Written by tools/tensor_methods.py from the table in ops/tensor_table.py; not there at run time.
"""

import builtins
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Unpack, overload

from .autograd import Tensor, TensorTuple
from .backend import BackendDevice
from .ndarray.random import RandomSource
from .ops.common import Ufunc
from .ops.elementwise import Casting
from .ops.index.masked import Reduced, Spread
from .ops.shape.movement import InOrder
from .types import (
    Axes, Border, DeviceLike, DTypeLike, Index, NumpyArray, Padding, Scalar, ShapeLike, Sizes,
    TensorLike,
)

class TensorMethods:
'''


class _Text(str):
    """Text that is written as it is: annotations, and "..." for each default."""

    def __repr__(self) -> str:
        return str(self)


def method(name: str, function: Callable[..., object]) -> str:
    """The stub's lines of a method: all of its forms."""
    forms = get_overloads(inspect.unwrap(function))
    overloads = [f"    @overload\n{line_of(name, form)}" for form in forms]
    return "\n".join(overloads) or line_of(name, function)


def line_of(name: str, function: Callable[..., object]) -> str:
    """One line of the stub: the function's signature with its first argument as self."""
    signature = inspect.signature(function)
    _, *rest = signature.parameters.values()
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    is_operator = name.startswith("__")  # `a + b` has no keywords
    for p in rest:
        if is_operator and p.kind is p.VAR_KEYWORD:
            continue
        default = p.default if p.default is p.empty else _Text("...")
        annotation = p.annotation if p.annotation is p.empty else _Text(p.annotation)
        parameters.append(p.replace(default=default, annotation=annotation))
    shown = str(signature.replace(parameters=parameters, return_annotation=inspect._empty))
    is_objects = name in ("__eq__", "__ne__")  # which give a bool for other objects
    ignore = "  # type: ignore[override]" if is_objects else ""
    return f"    def {name}{shown} -> {signature.return_annotation}: ...{ignore}"


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
