"""Kernels that the user writes in C: the body of a loop, around which everything else is put."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...backend.c_function import C_TYPES, C_WORDS, PARAMETERS, CFunction
from ...dtype import DType, dtype_of, float64, int64
from ..array import NDArray, empty, full
from ..functions import array_function, same_device
from ..layout import Shape

if TYPE_CHECKING:
    from ...types import DTypeLike, Scalar


class CKernel:
    """A function of arrays whose body is C, for use in an operator's `compute`.

    `source` is the body of a loop over [begin, end), a piece of [0, count): pieces run on several
    threads, so each iteration writes elements of its own. In it,

    - every name of `inputs` and `outputs` points to elements in C order: float for float32, double,
      int8_t ... int64_t, uint8_t, bool, and uint16_t for the bits of float16 and bfloat16;
    - `x_shape` is the shape of x, as int64_t;
    - an input that was a Python number is a number (double or int64_t).

    `header` comes before the function: includes, other functions. math.h, stdint.h, stdbool.h and
    string.h are there.

    >>> scale = CKernel("scale", ["x", "factor"], ["y"],
    ...     "for (int64_t i = begin; i < end; i++) y[i] = x[i] * factor;")

    The C compiler of the machine builds it when it is first called with arrays of such types.
    Nothing checks that the source stays inside its arrays.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        source: str,
        header: str = "",
    ):
        _check_names(name, inputs, outputs)
        self.name = name
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.source = source
        self.header = header
        self._functions: dict[tuple[Any, ...], CFunction] = {}  # by types of operands

    def __repr__(self) -> str:
        return f"CKernel({self.name}: {', '.join(self.inputs)} -> {', '.join(self.outputs)})"

    def __call__(
        self,
        *inputs: NDArray | Scalar | np.generic,
        shapes: Sequence[Shape] | None = None,
        dtypes: Sequence[DTypeLike] | None = None,
        count: int | None = None,
    ) -> NDArray | tuple[NDArray, ...]:
        """The outputs: one array, or a tuple of several.

        `shapes` and `dtypes` are theirs, by default those of the first input; `count` is the
        number of iterations, by default the elements of the first output."""
        return _call(self, inputs, shapes, dtypes, count)

    def function(self, dtypes: tuple[object, ...]) -> CFunction:
        """The C function for operands of these types, outputs first; a number has none here, but
        its Python type."""
        found = self._functions.get(dtypes)
        if found is None:
            types = (str(NUMBERS.get(dtype, dtype)) for dtype in dtypes)
            symbol = "_".join(["user", self.name, *types])
            source = self._text(symbol, dtypes)
            found = self._functions[dtypes] = CFunction(self.name, symbol, source, self.header)
        return found

    def _text(self, symbol: str, dtypes: tuple[Any, ...]) -> str:
        lines = [f"void {symbol}({PARAMETERS}) {{"]
        for k, (name, dtype) in enumerate(zip((*self.outputs, *self.inputs), dtypes, strict=True)):
            if dtype in NUMBERS:
                kind = C_TYPES[NUMBERS[dtype]]
                lines.append(f"  const {kind} {name} = *(const {kind} *)at[{k}];")
                lines.append(f"  (void){name};")
                continue
            kind = C_TYPES[dtype] if k < len(self.outputs) else f"const {C_TYPES[dtype]}"
            lines.append(f"  {kind} *restrict {name} = at[{k}];")
            lines.append(f"  const int64_t *{name}_shape = shapes[{k}];")
            lines.append(f"  (void){name}, (void){name}_shape;")
        return "\n".join([*lines, f'#line 1 "{self.name}"', self.source, "}\n"])


NUMBERS: dict[Any, DType] = {float: float64, int: int64, bool: int64}

PARAMETER_NAMES = ("at", "shapes", "begin", "end")


def _check_names(name: str, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Names that can stand in the C function, each for one thing."""
    if isinstance(inputs, str) or isinstance(outputs, str):
        raise TypeError(
            f"[CKernel] {name}: expected lists of names, got {inputs!r} and {outputs!r}."
        )
    names = (*inputs, *outputs)
    for each in (name, *names):
        if not (isinstance(each, str) and each.isidentifier() and each.isascii()):
            raise ValueError(f"[CKernel] expected names that C allows, got {each!r}.")
    taken = C_WORDS.union(PARAMETER_NAMES, (f"{each}_shape" for each in names))
    if taken.intersection(names):
        raise ValueError(
            f"[CKernel] {name}: {sorted(taken.intersection(names))} mean something else in the C "
            "function (a word of C, a shape, or one of at, shapes, begin, end); choose other names."
        )
    if len(set(names)) < len(names) or not outputs:
        raise ValueError(
            f"[CKernel] {name}: expected different names for inputs and at least one output, "
            f"got {list(inputs)} and {list(outputs)}."
        )


@array_function
def _call(
    kernel: CKernel,
    inputs: tuple[NDArray | Scalar | np.generic, ...],
    shapes: Sequence[Shape] | None,
    dtypes: Sequence[DTypeLike] | None,
    count: int | None,
) -> NDArray | tuple[NDArray, ...]:
    inputs = tuple(a.item() if isinstance(a, np.generic) else a for a in inputs)
    arrays = [a for a in inputs if isinstance(a, NDArray)]
    if len(inputs) != len(kernel.inputs) or not arrays:
        raise TypeError(
            f"[{kernel.name}] expected {len(kernel.inputs)} inputs ({', '.join(kernel.inputs)}), "
            f"arrays or numbers, one of them an array, got {len(inputs)}: "
            f"{[type(a).__name__ for a in inputs]}; call it in an operator's compute."
        )
    same_device(kernel.name, *arrays)
    first = arrays[0]
    number = len(kernel.outputs)
    if any(isinstance(s, int) for s in shapes or ()):
        raise TypeError(
            f"[{kernel.name}] expected a list of shapes, one for each of {number} outputs, got "
            f"{shapes}; for one output, shapes=[(2, 3)]."
        )
    shapes = [first.shape] * number if shapes is None else [tuple(s) for s in shapes]
    types = [first.dtype] * number if dtypes is None else [dtype_of(d) for d in dtypes]
    if not len(shapes) == len(types) == number:
        raise ValueError(
            f"[{kernel.name}] expected shapes and dtypes of {number} outputs "
            f"({', '.join(kernel.outputs)}), got {len(shapes)} and {len(types)}."
        )
    outs = tuple(empty(s, d, first.device) for s, d in zip(shapes, types, strict=True))
    ins = tuple(_entered(kernel, a, first) for a in inputs)
    kinds = tuple(a.dtype if isinstance(a, NDArray) else type(a) for a in inputs)
    function = kernel.function((*types, *kinds))
    first.device.mod.run_c(function, outs, ins, outs[0].size if count is None else count)
    return outs[0] if number == 1 else outs


def _entered(kernel: CKernel, value: object, first: NDArray) -> NDArray:
    """An input as a compact array."""
    if isinstance(value, NDArray):
        return value.compact()
    if type(value) not in NUMBERS:
        raise TypeError(
            f"[{kernel.name}] expected arrays and Python numbers, got {type(value).__name__}; in "
            "an operator's compute, inputs are arrays."
        )
    return full((), cast("Scalar", value), NUMBERS[type(value)], first.device)
