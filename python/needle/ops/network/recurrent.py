"""Recurrent layers: a cell over whole sequences.

x (T, B, I) are the inputs, h (B, H) is the state; wx (I, G H) and w (H, G H) are their weights for
the G gates, bx and b (G H,) their biases. The devices' kernels run all steps in one call;
`layer_by_definition` is what a layer equals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ...autograd import Tensor, TensorTuple, TensorTupleOp
from ...ndarray import functions as F
from ...ndarray.kernels import sequence
from ..common import check_tensor
from ..composite import gradient_of_gradient
from ..shape.concat import chunk, split, stack

if TYPE_CHECKING:
    from ...types import Arrays, Gradients, NDArray, TensorLike


class RecurrentLayer(TensorTupleOp):
    """(h, before, kept), or for an LSTM (h, c, before, kept): the states of all steps, the last c,
    the states before each step, and what else the gradient needs of it. v = x wx + bx and
    s = h w + b are what a step's input and the state before it add to the gates:

    - tanh, relu:  h' = f(v + s)
    - lstm:  i, f, g, o = σ, σ, tanh, σ of v + s,  c' = f c + i g,  h' = o tanh(c')
    - gru:  r, z = σ(v + s),  n = tanh(v_n + r s_n),  h' = (1 - z) n + z h

    Inputs are x, wx, h0, w, and where there are any c0 (of an LSTM), bx and b. Equals
    `layer_by_definition`. `before` and `kept` are not for others: their adjoints are ignored."""

    def __init__(self, cell: str):
        self.cell = cell

    def compute(self, x: NDArray, wx: NDArray, h0: NDArray, w: NDArray, *more: NDArray) -> Arrays:
        c0, bx, b = _named(self.cell, more)
        v = F.reshape(F.matmul(_in_rows(x), wx), (*x.shape[:2], wx.shape[1]))
        if bx is not None and sequence.CELLS[self.cell].splits:
            v = F.binary("add", v, bx)
        elif bx is not None and b is not None:
            b = F.binary("add", bx, b)
        return sequence.recurrence(self.cell, v, h0, w, c0, b)

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Gradients:
        wanted = tuple([x.requires_grad for x in node.inputs])
        op = RecurrentLayerGradient(self.cell, wanted)
        found = iter(op(*node.inputs, node, *out_grad[:-2]).tuple())
        return tuple([next(found) if x.requires_grad else None for x in node.inputs])


def _named(cell: str, more: tuple[V, ...]) -> tuple[V | None, V | None, V | None]:
    """c0, bx and b, of the inputs that follow the weights; None for those that are not there."""
    c0, *biases = more if sequence.CELLS[cell].has_c else (None, *more)
    bx, b = biases or (None, None)
    return c0, bx, b


def _in_rows(a: NDArray) -> NDArray:
    """(T, B, N) as (T B, N)"""
    return F.reshape(a, (a.shape[0] * a.shape[1], a.shape[2]))


def _transposed(a: NDArray) -> NDArray:
    return F.exchange(a, 0, 1)


class RecurrentLayerGradient(TensorTupleOp):
    """The adjoints of those inputs of RecurrentLayer that are wanted, given its inputs, its results
    and the adjoints of h and of an LSTM's last c.

    Backward through the steps for dv, ds and the first state; then one product each for
    dx = dv wxᵀ, dwx = Σ xᵀ dv and dw = Σ hᵀ ds over steps, h before each. The results are functions
    of the inputs: the gradient of this gradient is the composite's."""

    def __init__(self, cell: str, wanted: tuple[bool, ...]):
        self.cell = cell
        self.wanted = wanted

    def compute(self, *arrays: Any) -> Any:
        of_x, of_wx, _, of_w, *_ = self.wanted
        x, wx, h0, w, *more = arrays[: len(self.wanted)]
        (h, *_, before, kept), g_h, *g_c = arrays[len(self.wanted) :]
        c0, _, b = _named(self.cell, tuple(more))
        dv, ds, dh0, dc0 = sequence.recurrence_backward(
            self.cell, (h0, w, c0), (h, kept), (g_h, g_c[0] if g_c else None)
        )
        found = [
            F.reshape(F.matmul(_in_rows(dv), _transposed(wx)), x.shape) if of_x else None,
            F.matmul(_transposed(_in_rows(x)), _in_rows(dv)) if of_wx else None,
            dh0,
            F.matmul(_transposed(_in_rows(before)), _in_rows(ds)) if of_w else None,
        ]
        if c0 is not None:
            found.append(dc0)
        if b is not None:
            of_bx, of_b = self.wanted[-2:]
            db = F.reduce("sum", ds, (0, 1)) if of_b or (of_bx and ds is dv) else None
            found += [F.reduce("sum", dv, (0, 1)) if of_bx and ds is not dv else db, db]
        return tuple([d for d, is_wanted in zip(found, self.wanted, strict=True) if is_wanted])

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Gradients:
        count = len(self.wanted)
        found, of_given = gradient_of_gradient(
            lambda *x: layer_by_definition(self.cell, *x),
            node.inputs[:count],
            node.inputs[count + 1 :],
            self.wanted,
            out_grad.tuple(),
        )
        return (*found, None, *of_given)


def recurrent_layer(
    cell: str,
    x: Tensor,
    wx: Tensor,
    h0: Tensor,
    w: Tensor,
    c0: Tensor | None = None,
    biases: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """The states (T, B, H) of a recurrent cell, from h0 (B, H) on; of an LSTM also the last c.

    x (T, B, I) are the inputs, wx (I, G H) and w (H, G H) the weights of inputs and state; biases
    (G H,) are in the same order."""
    more = (*(biases or ()),) if c0 is None else (c0, *(biases or ()))
    x = check_tensor("recurrent_layer", x)
    states: tuple[Tensor, ...] = RecurrentLayer(cell)(x, wx, h0, w, *more)[:-2]
    return states


# The composite ----------------------------------------------------------------------------------

V = TypeVar("V")
States = tuple[Tensor, Any]  # h; c, or None


def _lstm_step(v: Tensor, s: Tensor, h: Tensor, c: TensorLike) -> States:
    i, f, g, o = chunk(v + s, 4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_step(v: Tensor, s: Tensor, h: Tensor, c: TensorLike) -> States:
    (v_r, v_z, v_n), (s_r, s_z, s_n) = chunk(v, 3, -1), chunk(s, 3, -1)
    z = (v_z + s_z).sigmoid()
    n = (v_n + (v_r + s_r).sigmoid() * s_n).tanh()
    return n + z * (h - n), c


STEPS: dict[str, Callable[[Tensor, Tensor, Tensor, Any], States]] = {
    "tanh": lambda v, s, h, c: ((v + s).tanh(), c),
    "relu": lambda v, s, h, c: ((v + s).relu(), c),
    "lstm": _lstm_step,
    "gru": _gru_step,
}


def layer_by_definition(
    cell: str, x: Tensor, wx: Tensor, h0: Tensor, w: Tensor, *more: Tensor
) -> tuple[Tensor, ...]:
    """The composite that `RecurrentLayer` equals: h, and for an LSTM the last c."""
    c, bx, b = _named(cell, more)
    v = x @ wx if bx is None else x @ wx + bx
    h, states = h0, []
    for part in split(v, 0).tuple():
        s = h @ w if b is None else h @ w + b
        h, c = STEPS[cell](part, s, h, c)
        states.append(h)
    outputs = stack(states, 0)
    return (outputs,) if c is None else (outputs, c)
