"""`Op`: what every operator is. `tensor.py` has those that make tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import _native, config
from .unbroadcast import unbroadcast_all

if TYPE_CHECKING:
    from ..types import Gradients, Value

__all__ = ["Op"]


class Op:
    """An operator: `compute` on raw arrays, `gradient` on values. Parameters are attributes.

    An operator may also define `jvp(node, tangents)`, its rule for forward mode: the tangent of
    node, given those of node.inputs (None for zero). Without it the rule follows from `gradient`.
    """

    differentiable: ClassVar[bool] = True  # False: the result never requires a gradient
    linear: ClassVar[bool] = False  # jointly linear in all inputs: the tangent is op(*tangents)
    elementwise: ClassVar[bool] = False  # output i depends on input element i only

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if config.BACKEND == "np" and "compute" in cls.__dict__:
            cls.compute = _giving_arrays(cls.compute)  # type: ignore[method-assign]

    def __call__(self, *inputs: Any) -> Any:
        raise TypeError(f"[{type(self).__name__}] subclass TensorOp or TensorTupleOp.")

    def compute(self, *arrays: Any) -> Any:
        """The result's array, from the inputs' arrays."""
        raise TypeError(f"[{type(self).__name__}] has no compute.")

    def gradient(self, out_grad: Any, node: Any) -> Gradients:
        """The adjoints of node.inputs, given the adjoint of node; None where there is none. What
        was broadcast or promoted stays so: see unbroadcast.py."""
        raise TypeError(f"[{type(self).__name__}] has no gradient.")

    def gradient_as_tuple(self, out_grad: Value, node: Value) -> tuple[Any, ...]:
        """`gradient`, always as a tuple, each adjoint in the form of its input."""
        result = self.gradient(out_grad, node)
        found = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        return found if _native.have_forms(node, found) else unbroadcast_all(node, found)


def _giving_arrays(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A compute over NumPy arrays, whose reductions to one number give scalars: as 0-d arrays."""

    @functools.wraps(compute)
    def computed(self: Op, *arrays: Any) -> Any:
        result = compute(self, *arrays)
        if isinstance(result, (tuple, list)):
            return tuple(np.asarray(r) if isinstance(r, np.generic) else r for r in result)
        return np.asarray(result) if isinstance(result, np.generic) else result

    return computed
