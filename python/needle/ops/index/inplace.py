"""`x += y` and its kin.

Without a gradient to record, the result goes into x's memory and x stays the same object. With one,
Python rebinds the name to a new value of the graph, as in `x = x + y`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...autograd import Tensor, is_grad_enabled, write_in_place
from ...ndarray import functions as F
from ...ndarray.array import as_scalar
from .. import arithmetic, compare
from ..common import constant, is_scalar

if TYPE_CHECKING:
    from ...ops.elementwise import OfTwo
    from ...types import TensorLike

Update = Callable[[Tensor, "TensorLike"], Tensor]  # of x by y


def is_recorded(*operands: object) -> bool:
    """Is there a gradient to record of an operator on these?"""
    return is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in operands)


def _in_place(kernel: str, outside: OfTwo) -> Update:
    """The operator that writes `kernel(x, y)` into x, or else gives `outside(x, y)`."""

    def operator(x: Tensor, y: TensorLike) -> Tensor:
        other = y if is_scalar(y) else constant(y, x, kernel)
        if is_recorded(x, other):
            return outside(x, y)
        by = other.realize_cached_data() if isinstance(other, Tensor) else as_scalar(other, kernel)
        write_in_place(kernel, x, lambda data: F.update(kernel, data, by))
        return x

    return operator


# Python's operators of two operands, by the name inside of `__add__`, `__radd__` and `__iadd__`.
OPERATORS: dict[str, OfTwo] = {
    "add": arithmetic.add, "sub": arithmetic.subtract, "mul": arithmetic.multiply,
    "truediv": arithmetic.divide, "pow": arithmetic.power, "mod": arithmetic.remainder,
    "floordiv": arithmetic.floor_divide, "and": compare.bitwise_and, "or": compare.bitwise_or,
    "xor": compare.bitwise_xor, "lshift": compare.left_shift, "rshift": compare.right_shift,
}  # fmt: skip
IN_PLACE = {f"__i{name}__": _in_place(f.__name__, f) for name, f in OPERATORS.items()}
