"""`x += y` and its kin.

Without a gradient to record, the result goes into x's memory and x stays the same object. With one,
Python rebinds the name to a new value of the graph, as in `x = x + y`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import Tensor, after_write, before_write, is_grad_enabled
from ...ndarray import functions as F
from ...ndarray.array import as_scalar
from .. import arithmetic, compare
from ..common import constant, is_scalar
from .indexing import writable

Update = Callable[[Tensor, Any], Tensor]  # of x by y


def _in_place(kernel: str, outside: Callable[[Any, Any], Tensor]) -> Update:
    """The operator that writes `kernel(x, y)` into x, or else gives `outside(x, y)`."""

    def operator(x: Tensor, y: Any) -> Tensor:
        other = y if is_scalar(y) else constant(y, x, kernel)
        needed = x.requires_grad or (isinstance(other, Tensor) and other.requires_grad)
        if needed and is_grad_enabled():
            return outside(x, y)
        before_write()
        data = writable(kernel, x)
        if isinstance(other, Tensor):
            F.update(kernel, data, other.realize_cached_data())
        else:
            F.update(kernel, data, as_scalar(other, kernel))
        after_write(x)
        return x

    return operator


# Python's operators of two operands, by the name inside of `__add__`, `__radd__` and `__iadd__`.
OPERATORS: dict[str, Callable[[Any, Any], Tensor]] = {
    "add": arithmetic.add, "sub": arithmetic.subtract, "mul": arithmetic.multiply,
    "truediv": arithmetic.divide, "pow": arithmetic.power, "mod": arithmetic.remainder,
    "floordiv": arithmetic.floor_divide, "and": compare.bitwise_and, "or": compare.bitwise_or,
    "xor": compare.bitwise_xor, "lshift": compare.left_shift, "rshift": compare.right_shift,
}  # fmt: skip
IN_PLACE = {f"__i{name}__": _in_place(f.__name__, f) for name, f in OPERATORS.items()}
