"""`x += y` and its kin.

Without a gradient to record, the result goes into x's memory and x stays the same object. With one,
Python rebinds the name to a new value of the graph, as in `x = x + y`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd import Tensor, after_write, before_write, is_grad_enabled
from ..ndarray import functions as F
from ..ndarray.array import as_scalar
from . import arithmetic, compare
from .common import constant, is_scalar
from .indexing import writable


def _in_place(kernel: str, outside: Callable[[Any, Any], Tensor]) -> Callable[[Tensor, Any], Any]:
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


IN_PLACE: dict[str, Callable[[Tensor, Any], Any]] = {
    "__iadd__": _in_place("add", arithmetic.add),
    "__isub__": _in_place("subtract", arithmetic.subtract),
    "__imul__": _in_place("multiply", arithmetic.multiply),
    "__itruediv__": _in_place("divide", arithmetic.divide),
    "__ipow__": _in_place("power", arithmetic.power),
    "__ifloordiv__": _in_place("floor_divide", arithmetic.floor_divide),
    "__imod__": _in_place("remainder", arithmetic.remainder),
    "__iand__": _in_place("bitwise_and", compare.bitwise_and),
    "__ior__": _in_place("bitwise_or", compare.bitwise_or),
    "__ixor__": _in_place("bitwise_xor", compare.bitwise_xor),
    "__ilshift__": _in_place("left_shift", compare.left_shift),
    "__irshift__": _in_place("right_shift", compare.right_shift),
}
