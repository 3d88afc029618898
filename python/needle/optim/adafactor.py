"""Adafactor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..autograd import Tensor
from ..dtype import bfloat16, dtype_of
from ..ops.common import zeros_like
from ..ops.reduce import accumulator
from .group import ParamGroup
from .optimizer import Optimizer, State

if TYPE_CHECKING:
    from ..types import DTypeLike

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Second moments as an outer product of row and column means (Shazeer and Stern, 2018):

        β = 1 - t^beta2_decay,   ρ = min(lr, 1/√t),   α = max(eps2, rms(p)) ρ
        p <- (1 - lr λ) p
        r <- β r + (1 - β) mean of g² over columns        (..., n, 1)
        c <- β c + (1 - β) mean of g² over rows           (..., 1, m)
        v = r c / max(mean(r), eps1)                      vectors keep v itself
        u = g / max(√v, eps1)
        p <- p - α u / max(1, rms(u) / d)

    eps is (eps1, eps2); eps1=None takes the dtype's machine epsilon. The memory is that of one row
    and one column. PyTorch's form and defaults: lr bounds the relative step. Halves are computed
    and averaged in float32, since squares soon leave their range.
    """

    def __init__(
        self,
        params: Iterable[Tensor | Mapping[str, object]],
        lr: float = 0.01,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
    ):
        if beta2_decay > 0 or d < 1:
            raise ValueError(
                f"[Adafactor] expected beta2_decay <= 0 and d >= 1, got {beta2_decay} and {d}."
            )
        super().__init__(
            params, lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay
        )

    def init_state(self, p: Tensor, group: ParamGroup) -> State:
        squares: Any = zeros_like(p).astype(accumulator(p.dtype))
        if p.ndim < 2:
            return {"variance": squares}
        return {
            "row_var": _mean(squares, -1),  # (..., n, 1)
            "col_var": _mean(squares, -2),  # (..., 1, m)
        }

    def rates(self, group: ParamGroup, t: Tensor) -> Sequence[Tensor]:
        lr, decay = group.tensor("lr"), group.tensor("weight_decay")
        rest = t ** group["beta2_decay"]
        return 1 - rest, rest, lr.minimum(1 / t.sqrt()), 1 - lr * decay

    def update(
        self, p: Tensor, g: Tensor, state: State, group: ParamGroup, rates: Sequence[Tensor]
    ) -> Tensor:
        beta, rest, rho, decay = rates
        dtype, d = p.dtype, cast(float, group["d"])
        eps1, eps2 = cast("tuple[float | None, float]", group["eps"])
        eps1 = machine_epsilon(dtype) if eps1 is None else eps1
        p, g = (x.astype(accumulator(dtype)) for x in (p, g))
        alpha = _rms(p).maximum(eps2) * rho
        if group.uses("weight_decay"):
            p = p * decay
        squares = g.square()
        if p.ndim < 2:
            variance = state["variance"]
            variance.data = beta * variance + rest * squares
            v = variance
        else:
            rows, columns = state["row_var"], state["col_var"]
            rows.data = beta * rows + rest * _mean(squares, -1)
            columns.data = beta * columns + rest * _mean(squares, -2)
            v = rows * columns / _mean(rows, -2).maximum(eps1)
        u = g / v.maximum(eps1 * eps1).sqrt()
        return (p - (alpha / (_rms(u) / d).maximum(1.0)) * u).astype(dtype)


def machine_epsilon(dtype: DTypeLike) -> float:
    """The distance from 1 to the next number."""
    kind = dtype_of(dtype)
    return 2.0**-7 if kind is bfloat16 else float(np.finfo(kind.storage).eps)


def _mean(x: Tensor, axis: int) -> Tensor:
    """The mean over one axis, which is kept."""
    axis += x.ndim
    kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return (x.sum(axis) / max(x.shape[axis], 1)).reshape(kept)


def _rms(x: Tensor) -> Tensor:
    """√(mean x²)"""
    return (x.square().sum() / max(x.size, 1)).sqrt()
