"""Recurrent cells over whole sequences.

x (T, B, G H) is what the inputs add to the G gates, h (B, H) the state, w (H, G H) its weights. The
devices' kernels run all steps in one call; `recurrence_by_definition` is what they equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd import Tensor, TensorTuple, TensorTupleOp
from ..ndarray import functions as F, sequence
from .common import check_tensor, fit
from .composite import gradient_of_gradient
from .joining import chunk, split, stack


class Recurrence(TensorTupleOp):
    """(h, before, kept), or for an LSTM (h, c, before, kept): the states of all steps, the last c,
    the states before each step, and what else the gradient needs of it. s = h w + bias is what the
    state before a step adds to the gates:

    - tanh, relu:  h' = f(x + s)
    - lstm:  i, f, g, o = σ, σ, tanh, σ of x + s,  c' = f c + i g,  h' = o tanh(c')
    - gru:  r, z = σ(x + s),  n = tanh(x_n + r s_n),  h' = (1 - z) n + z h

    Inputs are x, h0, w, and where there are any c0 (of an LSTM) and the bias. Equals
    `recurrence_by_definition`. `before` and `kept` are not for others: their adjoints are
    ignored."""

    def __init__(self, cell: str):
        self.cell = cell

    def compute(self, x: Any, h0: Any, w: Any, *more: Any) -> Any:
        c0, bias = _named(self.cell, more)
        return sequence.recurrence(self.cell, x, h0, w, c0, bias)

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Any:
        h, *_, before, kept = node.tuple()
        *given, _, _ = out_grad.tuple()
        op = RecurrenceGradient(self.cell, len(node.inputs))
        found = op(*node.inputs, h, before, kept, *given).tuple()
        return tuple(fit(d, x) for d, x in zip(found, node.inputs, strict=True))


def _named(cell: str, more: tuple[Any, ...]) -> tuple[Any, Any]:
    """c0 and the bias, of the inputs that follow the weights."""
    c0, *rest = more if sequence.CELLS[cell].has_c else (None, *more)
    return c0, rest[0] if rest else None


class RecurrenceGradient(TensorTupleOp):
    """The adjoints of Recurrence's inputs, given those of h and of an LSTM's last c.

    Backward through the steps for x and the first state; then one product for the weights,
    dw = Σ hᵀ ds over steps, h before each. h, before and kept are functions of the others: the
    gradient of this gradient is the composite's."""

    def __init__(self, cell: str, count: int):
        self.cell = cell
        self.count = count  # of Recurrence's inputs

    def compute(self, *arrays: Any) -> Any:
        _, h0, w, *more = arrays[: self.count]
        h, before, kept, g_h, *g_c = arrays[self.count :]
        c0, bias = _named(self.cell, tuple(more))
        dx, ds, dh0, dc0 = sequence.recurrence_backward(
            self.cell, (h0, w, c0), (h, kept), (g_h, g_c[0] if g_c else None)
        )
        states, sums = (F.reshape(a, (-1, a.shape[-1])) for a in (before, ds))
        found = [dx, dh0, F.matmul(F.permute(states, (1, 0)), sums)]
        if dc0 is not None:
            found.append(dc0)
        if bias is not None:
            found.append(F.reduce("sum", ds, (0, 1)))
        return tuple(found)

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Any:
        inputs = node.inputs[: self.count]
        given = node.inputs[self.count + 3 :]
        found, of_given = gradient_of_gradient(
            lambda *x: recurrence_by_definition(self.cell, *x),
            inputs,
            given,
            [True] * self.count,
            out_grad.tuple(),
        )
        return (*found, None, None, None, *of_given)


def recurrence(
    cell: str,
    x: Tensor,
    h0: Tensor,
    w: Tensor,
    c0: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """The states (T, B, H) of a recurrent cell, from h0 (B, H) on; of an LSTM also the last c.

    x (T, B, G H) is what the inputs add to the gates, w (H, G H) and bias (G H,) are the state's
    weights."""
    more = [check_tensor("recurrence", a) for a in (c0, bias) if a is not None]
    return Recurrence(cell)(check_tensor("recurrence", x), h0, w, *more).tuple()[:-2]


# The composite ----------------------------------------------------------------------------------

States = tuple[Tensor, Any]  # h; c, or None


def _lstm_step(x: Tensor, s: Tensor, h: Tensor, c: Any) -> States:
    i, f, g, o = chunk(x + s, 4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_step(x: Tensor, s: Tensor, h: Tensor, c: Any) -> States:
    (x_r, x_z, x_n), (s_r, s_z, s_n) = chunk(x, 3, -1), chunk(s, 3, -1)
    z = (x_z + s_z).sigmoid()
    n = (x_n + (x_r + s_r).sigmoid() * s_n).tanh()
    return n + z * (h - n), c


STEPS: dict[str, Callable[[Tensor, Tensor, Tensor, Any], States]] = {
    "tanh": lambda x, s, h, c: ((x + s).tanh(), c),
    "relu": lambda x, s, h, c: ((x + s).relu(), c),
    "lstm": _lstm_step,
    "gru": _gru_step,
}


def recurrence_by_definition(
    cell: str, x: Tensor, h0: Tensor, w: Tensor, *more: Tensor
) -> tuple[Tensor, ...]:
    """The composite that `Recurrence` equals: h, and for an LSTM the last c."""
    c, bias = _named(cell, more)
    h, states = h0, []
    for part in split(x, 0).tuple():
        s = h @ w if bias is None else h @ w + bias
        h, c = STEPS[cell](part, s, h, c)
        states.append(h)
    outputs = stack(states, 0)
    return (outputs,) if c is None else (outputs, c)
