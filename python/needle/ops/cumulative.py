"""Running sums and products along an axis."""

from __future__ import annotations

from typing import Any

from ..autograd import Tensor, TensorOp
from ..ndarray import functions as F, layout
from .common import Scalar, check_tensor, one_of, zeros_like
from .shape.movement import flip
from .shape.pad import Pad, piece

__all__ = ["CumSum", "cumsum", "CumProd", "cumprod"]


def shifted(x: Tensor, axis: int, by: int, fill: Scalar) -> Any:
    """x moved by |by| <= size places, to higher positions when by > 0; `fill` moves in."""
    n = x.shape[axis]
    kept = piece(x, axis, 0, n - by) if by > 0 else piece(x, axis, -by, n)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (by, 0) if by > 0 else (0, -by)
    return Pad(tuple(widths), fill)(kept)


class CumSum(TensorOp):
    """y_k = Σ_{i ≤ k} x_i,  dx_i = Σ_{k ≥ i} dy_k"""

    linear = True

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, a: Any) -> Any:
        return F.scan("cumsum", a, self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        backwards = cumsum(flip(out_grad, self.axis), self.axis)
        return flip(backwards, self.axis)


def _scanned(op: str, a: Tensor, *given: int | None) -> tuple[Any, int]:
    """The tensor and the axis to run along: the flattened tensor when none was named."""
    axis = one_of(op, *given)
    x: Any = check_tensor(op, a)
    if axis is None:
        return x.reshape(x.size), 0
    return x, layout.normalize_axis(axis, x.ndim, op)


def cumsum(
    a: Tensor, axis: int | None = None, *, axes: int | None = None, dim: int | None = None
) -> Tensor:
    """Running sums along an axis (None: of the flattened tensor)."""
    x, along = _scanned("cumsum", a, axes, axis, dim)
    return CumSum(along)(x)


class CumProd(TensorOp):
    """y_k = Π_{i ≤ k} x_i,  dx_i = y_{i-1} s_i  with  s_i = dy_i + x_{i+1} s_{i+1}

    No division, so zeros are ordinary. The recurrence is solved by doubling: after step d, s_i
    covers dy_i ... dy_{i+d-1}, and a_i = x_{i+1} ... x_{i+d} carries what lies beyond.
    """

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, a: Any) -> Any:
        return F.scan("cumprod", a, self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        x: Any = node.inputs[0]
        axis, n = self.axis, x.shape[self.axis]
        if x.size == 0:
            return zeros_like(x)
        s, a, step = out_grad, shifted(x, axis, -1, 0), 1
        while step < n:
            s = s + a * shifted(s, axis, -step, 0)
            a = a * shifted(a, axis, -step, 0)
            step *= 2
        return shifted(node, axis, 1, 1) * s


def cumprod(
    a: Tensor, axis: int | None = None, *, axes: int | None = None, dim: int | None = None
) -> Tensor:
    """Running products along an axis (None: of the flattened tensor)."""
    x, along = _scanned("cumprod", a, axes, axis, dim)
    return CumProd(along)(x)


METHODS = {f.__name__: f for f in (cumsum, cumprod)}
