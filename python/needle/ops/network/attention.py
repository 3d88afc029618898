"""Attention without the matrix of scores.

q (..., T, D), k (..., S, D), v (..., S, E): out (..., T, E); the axes in front broadcast. The
devices' kernels visit the scores in tiles and keep none; `attention_by_definition` is what they
equal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...autograd import Tensor, TensorTuple, TensorTupleOp
from ...ndarray import functions as F
from ...ndarray.kernels import sequence
from ..common import check_tensor
from ..compare import not_equal, where
from ..composite import gradient_of_gradient
from .softmax import logsumexp, softmax

if TYPE_CHECKING:
    from ...ndarray.array import NDArray
    from ...types import Gradients


class Attention(TensorTupleOp):
    """(y, l) with y = p v,  p = softmax(s) over keys,  s = q kᵀ · scale + mask,  l = ln Σ e^s

    The mask is added, or (bool) says which keys are seen; a query that sees none gets 0. Equals
    `attention_by_definition`, without keeping s or p."""

    def __init__(self, scale: float, causal: bool):
        self.scale = scale
        self.causal = causal

    def compute(
        self, q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None
    ) -> tuple[NDArray, NDArray]:
        return sequence.attention(q, k, v, mask, self.scale, self.causal)

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Gradients:
        q, k, v, *mask = node.inputs
        op = AttentionGradient(self.scale, self.causal, bool(mask and mask[0].requires_grad))
        found = op(q, k, v, *node.tuple(), *out_grad.tuple(), *mask).tuple()
        return (*found, *[None] * (len(node.inputs) - len(found)))


class AttentionGradient(TensorTupleOp):
    """The adjoints of q, k, v (and the scores, which the mask adds to), given those of y and l

    dv = pᵀ g,  ds = p (g vᵀ - Σ g y + g_l),  dq = ds k · scale,  dk = dsᵀ q · scale

    before they are summed to the shapes of what was broadcast. y and l are functions of the others:
    the gradient of this gradient, by the composite, is in terms of q, k, v, the mask and the
    adjoints."""

    def __init__(self, scale: float, causal: bool, with_mask: bool):
        self.scale = scale
        self.causal = causal
        self.with_mask = with_mask

    def compute(
        self,
        q: NDArray,
        k: NDArray,
        v: NDArray,
        y: NDArray,
        lse: NDArray,
        g: NDArray,
        g_log: NDArray,
        mask: NDArray | None = None,
    ) -> tuple[NDArray, ...]:
        return sequence.attention_backward(
            (q, k, v, mask), (y, lse), (g, g_log), self.scale, self.causal, self.with_mask
        )

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Gradients:
        q, k, v, _, _, g, g_log, *mask = node.inputs
        front = node.inputs[3].shape[:-2]
        last = [x.shape[-2:] for x in (q, k, v)]
        last += [(q.shape[-2], k.shape[-2])] * len(mask)
        whole = [
            x.broadcast_to((*front, *shape))
            for x, shape in zip((q, k, v, *mask), last, strict=True)
        ]
        found, (dg, dg_log) = gradient_of_gradient(
            self._definition, whole, (g, g_log), [True] * 3 + [self.with_mask] * len(mask),
            out_grad.tuple(),
        )  # fmt: skip
        return (*found[:3], None, None, dg, dg_log, *found[3:])

    def _definition(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        y, lse, _ = attention_by_definition(*inputs, scale=self.scale, causal=self.causal)
        return y, lse


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, causal: bool
) -> Tensor:
    """softmax(q kᵀ scale + mask) v, without the matrix of scores."""
    inputs = [check_tensor("attention", x) for x in (q, k, v)]
    if mask is not None:
        inputs.append(mask if mask.dtype != "bool" else mask.detach())
    out: Tensor = Attention(scale, causal)(*inputs)[0]
    return out


def attention_by_definition(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float,
    causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The composite that `Attention` equals: the result, ln Σ e^s, and the probabilities."""
    s = q @ k.transpose() * scale
    never = -math.inf
    if mask is not None:
        s = where(mask, s, never) if mask.dtype == "bool" else s + mask
    if causal:
        ones = Tensor.make_const(F.full(s.shape[-2:], True, "bool", s.home))
        s = where(ones.tril(), s, never)
    if mask is None:
        p = softmax(s, -1)
        return p @ v, logsumexp(s, -1, keepdims=True), p
    sees = not_equal(s.detach(), never).any(-1, keepdims=True)
    s = where(sees, s, 0.0)  # a row of -inf has no softmax
    p = where(sees, softmax(s, -1), 0.0)
    return p @ v, where(sees, logsumexp(s, -1, keepdims=True), never), p
