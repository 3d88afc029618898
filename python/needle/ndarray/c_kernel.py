"""Kernels that the user writes in C: the body of a loop, around which everything else is put."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backend.c_function import C_TYPES, PARAMETERS, CFunction
from ..dtype import DType, dtype_of, float64, int64
from .array import NDArray, empty, full
from .functions import array_function, same_device
from .layout import Shape


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
        for each in (name, *inputs, *outputs):
            if not (each.isidentifier() and each.isascii()):
                raise ValueError(f"[CKernel] expected names that C allows, got {each!r}.")
        if len({*inputs, *outputs}) < len(inputs) + len(outputs) or not outputs:
            raise ValueError(
                f"[CKernel] {name}: expected different names for inputs and at least one output, "
                f"got {list(inputs)} and {list(outputs)}."
            )
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
        *inputs: Any,
        shapes: Sequence[Shape] | None = None,
        dtypes: Sequence[Any] | None = None,
        count: int | None = None,
    ) -> Any:
        """The outputs: one array, or a tuple of several.

        `shapes` and `dtypes` are theirs, by default those of the first input; `count` is the
        number of iterations, by default the elements of the first output."""
        return _call(self, inputs, shapes, dtypes, count)

    def function(self, dtypes: tuple[Any, ...]) -> CFunction:
        """The C function for operands of these types, outputs first; a number has none here, but
        its Python type."""
        found = self._functions.get(dtypes)
        if found is None:
            found = self._functions[dtypes] = CFunction(self.name, self._text(dtypes))
        return found

    def _text(self, dtypes: tuple[Any, ...]) -> str:
        lines = [f"{self.header}\nvoid {self.name}({PARAMETERS}) {{", "  (void)shapes;"]
        for k, (name, dtype) in enumerate(zip((*self.outputs, *self.inputs), dtypes, strict=True)):
            if dtype in NUMBERS:
                kind = C_TYPES[NUMBERS[dtype]]
                lines.append(f"  const {kind} {name} = *(const {kind} *)at[{k}];")
                continue
            kind = C_TYPES[dtype] if k < len(self.outputs) else f"const {C_TYPES[dtype]}"
            lines.append(f"  {kind} *restrict {name} = at[{k}];")
            if f"{name}_shape" in self.source:
                lines.append(f"  const int64_t *{name}_shape = shapes[{k}];")
        return "\n".join([*lines, f'#line 1 "{self.name}"', self.source, "}\n"])


NUMBERS: dict[Any, DType] = {float: float64, int: int64, bool: int64}


@array_function
def _call(
    kernel: CKernel,
    inputs: tuple[Any, ...],
    shapes: Sequence[Shape] | None,
    dtypes: Sequence[Any] | None,
    count: int | None,
) -> Any:
    arrays = [a for a in inputs if isinstance(a, NDArray)]
    if len(inputs) != len(kernel.inputs) or not arrays:
        raise TypeError(
            f"[{kernel.name}] expected {len(kernel.inputs)} inputs ({', '.join(kernel.inputs)}), "
            f"arrays or numbers, one of them an array, got {len(inputs)}: "
            f"{[type(a).__name__ for a in inputs]}."
        )
    same_device(kernel.name, *arrays)
    first = arrays[0]
    number = len(kernel.outputs)
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


def _entered(kernel: CKernel, value: Any, first: NDArray) -> NDArray:
    """An input as a compact array."""
    if isinstance(value, NDArray):
        return value.compact()
    if type(value) not in NUMBERS:
        raise TypeError(
            f"[{kernel.name}] expected arrays and Python numbers, got {type(value).__name__}; in "
            "an operator's compute, inputs are arrays."
        )
    return full((), value, NUMBERS[type(value)], first.device)
