"""Running sums and products along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..autograd import Tensor, TensorOp
from ..ndarray import functions as F
from .common import Scalar, flat_or_along, no_out, one_of, shaped, zeros_like
from .elementwise import astype
from .shape.movement import flip
from .shape.pad import Pad, piece

if TYPE_CHECKING:
    from ..types import Axes, DTypeLike, NDArray

__all__ = ["CumSum", "cumsum", "CumProd", "cumprod"]


def padded(x: Tensor, axis: int, widths: tuple[int, int], fill: Scalar) -> Tensor:
    """x with so many places before and behind, along an axis."""
    around = [(0, 0)] * x.ndim
    around[axis] = widths
    return Pad(tuple(around), fill)(x)


def shifted(x: Tensor, axis: int, fill: Scalar) -> Tensor:
    """x moved by a place, to higher positions; `fill` moves in."""
    return padded(piece(x, axis, 0, x.shape[axis] - 1), axis, (1, 0), fill)


class CumSum(TensorOp):
    """y_k = Σ_{i ≤ k} x_i,  dx_i = Σ_{k ≥ i} dy_k"""

    linear = True

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, a: NDArray) -> NDArray:
        return F.scan("cumsum", a, self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        backwards = cumsum(flip(out_grad, self.axis), self.axis)
        return flip(backwards, self.axis)


def _scan(
    op: type[CumSum | CumProd], name: str, a: Tensor, axis: Axes, dtype: DTypeLike | None
) -> Tensor:
    x, along = flat_or_along(name, a, axis)
    if dtype is None:
        return shaped(op(along)(x), a, axis)
    return astype(shaped(op(along)(astype(x, dtype)), a, axis), dtype)


def cumsum(
    a: Tensor, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None, *,
    axes: int | None = None, dim: int | None = None,
) -> Tensor:  # fmt: skip
    """Running sums along an axis (None: of the flattened tensor), computed in a dtype."""
    no_out("cumsum", out)
    return _scan(CumSum, "cumsum", a, one_of("cumsum", axes, axis, dim), dtype)


class CumProd(TensorOp):
    """y_k = Π_{i ≤ k} x_i,  dx_i = y_{i-1} s_i  with  s_i = dy_i + x_{i+1} s_{i+1}

    No division, so zeros are ordinary. The recurrence is solved by doubling: after step d, s_i
    covers dy_i ... dy_{i+d-1}, and a_i = x_{i+1} ... x_{i+d} carries what lies beyond.
    """

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, a: NDArray) -> NDArray:
        return F.scan("cumprod", a, self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        x: Any = node.inputs[0]
        axis, n = self.axis, x.shape[self.axis]
        if x.size == 0:
            return zeros_like(x)
        s, a, step = out_grad, piece(x, axis, 1, n), 1
        while step < n:
            s = s + padded(a * piece(s, axis, step, n), axis, (0, step), 0)
            if 2 * step < n:
                a = piece(a, axis, 0, n - 2 * step) * piece(a, axis, step, n - step)
            step *= 2
        return shifted(node, axis, 1) * s


def cumprod(
    a: Tensor, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None, *,
    axes: int | None = None, dim: int | None = None,
) -> Tensor:  # fmt: skip
    """Running products along an axis (None: of the flattened tensor), computed in a dtype."""
    no_out("cumprod", out)
    return _scan(CumProd, "cumprod", a, one_of("cumprod", axes, axis, dim), dtype)


METHODS = {f.__name__: f for f in (cumsum, cumprod)}
