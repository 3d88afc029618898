"""Recurrent networks: cells for one step, and stacks that run them over a sequence.

T = time, B = batch, I = input size, H = hidden size, L = layers, R = directions (1 or 2). Sequences
are (T, B, I), or (B, T, I) with batch_first, or (T, I) without a batch. A layer is one operator. A
cell's weights are used as they are at each call: plain tensors may replace them between calls.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from ... import init
from ...autograd import Tensor
from ...ops import concatenate, stack
from ...ops.common import whole_number
from ...ops.network.recurrent import recurrent_layer
from .. import functional as F
from ..module import IN_OUT, Module, Parameter, layouts

if TYPE_CHECKING:
    from ...types import DeviceLike, DTypeLike

__all__ = ["RNNCell", "LSTMCell", "GRUCell", "RNN", "LSTM", "GRU"]

State = tuple[Tensor, ...]  # h, or h and c: each (B, H)


def _check_kinds(name: str, states: object, count: int) -> None:
    """One tensor, in a tuple, or those of an LSTM."""
    parts = list(states) if isinstance(states, (tuple, list)) else None
    if parts is not None and len(parts) == count and all(isinstance(s, Tensor) for s in parts):
        return
    kinds = [type(s).__name__ for s in parts or ()]
    if count == 1:
        raise ValueError(f"[{name}] expected one tensor as state, got {kinds[0]}.")
    got = type(states).__name__ if parts is None else f"({', '.join(kinds)})"
    raise ValueError(f"[{name}] expected the pair (h, c) as state, got {got}.")


def _check_shapes(name: str, states: State, axes: str, wanted: tuple[int, ...]) -> None:
    for state in states:
        if state.shape != wanted:
            raise ValueError(f"[{name}] expected states ({axes}) = {wanted}, got {state.shape}.")


class _Cell(Module):
    """x W_ih + b_ih and h W_hh + b_hh, `gates` blocks of H side by side, and what comes of them."""

    _layouts = layouts(W_ih=IN_OUT, W_hh=IN_OUT)
    gates: ClassVar[int]
    states: ClassVar[int] = 1
    rule: str  # the step, a name of ops.recurrent.STEPS

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if whole_number(type(self).__name__, name, size) < 1:
                raise ValueError(f"[{type(self).__name__}] expected {name} >= 1, got {size}.")
        self.input_size = input_size
        self.hidden_size = hidden_size
        bound = 1 / math.sqrt(hidden_size)
        width = self.gates * hidden_size

        def draw(*shape: int) -> Parameter:
            return Parameter(init.rand(*shape, low=-bound, high=bound, device=device, dtype=dtype))

        self.W_ih = draw(input_size, width)
        self.W_hh = draw(hidden_size, width)
        self.bias_ih = draw(width) if bias else None
        self.bias_hh = draw(width) if bias else None

    def zero_state(self, x: Tensor) -> State:
        """Zeros for a batch of inputs (B, I)."""
        size = (x.shape[-2], self.hidden_size)
        zeros = init.zeros(*size, device=x.device, dtype=x.dtype)
        return (zeros,) * self.states

    def biases(self) -> tuple[Tensor, Tensor] | None:
        """Those of inputs and state; zeros for one that was taken away."""
        of_x, of_h = self.bias_ih, self.bias_hh
        if of_x is None:
            return None if of_h is None else (init.zeros_like(of_h), of_h)
        return of_x, init.zeros_like(of_x) if of_h is None else of_h

    def run(self, x: Tensor, state: State, reverse: bool = False) -> tuple[Tensor, State]:
        """All steps of (T, B, I), or from the last to the first: (T, B, H) and the last state."""
        if x.shape[-1] != self.W_ih.shape[0]:
            raise ValueError(
                f"[{type(self).__name__}] expected inputs (batch, {self.W_ih.shape[0]}), got "
                f"{x.shape}; change input_size or the input's last dimension."
            )
        h0, c0 = state if self.states == 2 else (state[0], None)
        ordered = x.flip(0) if reverse else x
        outputs, *c = recurrent_layer(
            self.rule, ordered, self.W_ih, h0, self.W_hh, c0, self.biases()
        )
        return outputs.flip(0) if reverse else outputs, (outputs[-1], *c)

    def next_state(self, x: Tensor, state: State | None) -> State:
        """One step of (B, I)."""
        if x.ndim != 2:
            raise ValueError(
                f"[{type(self).__name__}] expected inputs (batch, {self.input_size}), got "
                f"{x.shape}; run a sequence with the layer, not with its cell."
            )
        if state is not None:
            _check_kinds(type(self).__name__, state, self.states)
            wanted = (x.shape[0], self.hidden_size)
            _check_shapes(type(self).__name__, state, "batch, hidden", wanted)
        return self.run(x.expand_dims(0), self.zero_state(x) if state is None else state)[1]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, bias={self.bias_ih is not None}"


class RNNCell(_Cell):
    """h' = f(x W_ih + b_ih + h W_hh + b_hh), f = tanh or relu."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
    ):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"[RNNCell] nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}."
            )
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = self.rule = nonlinearity

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        return self.next_state(x, None if h is None else (h,))[0]


class LSTMCell(_Cell):
    """Gates i, f, g, o:  c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c')."""

    gates = 4
    states = 2
    rule = "lstm"

    def forward(self, x: Tensor, h: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        h_next, c_next = self.next_state(x, h)
        return h_next, c_next


class GRUCell(_Cell):
    """Gates r, z, n:  n = tanh(x_n + r h_n),  h' = (1 - z) n + z h, where r and z went through σ

    and x_n, h_n are the last blocks of x W_ih + b_ih and of h W_hh + b_hh."""

    gates = 3
    rule = "gru"

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        return self.next_state(x, None if h is None else (h,))[0]


class _Recurrent(Module):
    """Layers of cells, one or (bidirectional) two in each."""

    cell: ClassVar[type[_Cell]]
    cells_name: ClassVar[str]  # the attribute that lists the cells: layer by layer, then direction

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
        *,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ):
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        if num_layers < 1:
            raise ValueError(f"[{type(self).__name__}] expected num_layers >= 1, got {num_layers}.")
        if not 0 <= dropout <= 1:
            raise ValueError(f"[{type(self).__name__}] expected dropout in 0 to 1, got {dropout}.")
        for choice in (bias, batch_first, bidirectional):
            if not isinstance(choice, bool):  # "False" is true
                raise TypeError(
                    f"[{type(self).__name__}] expected True or False as bias, batch_first and "
                    f"bidirectional, got {choice!r:.60}."
                )
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.directions = 2 if bidirectional else 1
        wide = hidden_size * self.directions
        cells = [
            self.make_cell(input_size if layer == 0 else wide, hidden_size, bias, device, dtype)
            for layer in range(num_layers)
            for _ in range(self.directions)
        ]
        setattr(self, self.cells_name, cells)

    def make_cell(
        self, inputs: int, size: int, bias: bool, device: DeviceLike | None, dtype: DTypeLike
    ) -> _Cell:
        """A cell of this network."""
        return self.cell(inputs, size, bias, device, dtype)

    def run(self, x: Tensor, states: tuple[Tensor, ...] | None) -> tuple[Tensor, State]:
        """(T, B, I), states (L R, B, H) or None -> (T, B, R H) and the last states (L R, B, H)."""
        cells: list[_Cell] = getattr(self, self.cells_name)
        if states is not None:
            _check_kinds(type(self).__name__, states, cells[0].states)
        unbatched = x.ndim == 2
        if unbatched:
            x = x.expand_dims(1)
            states = None if states is None else tuple(s.expand_dims(1) for s in states)
        elif self.batch_first:
            x = x.transpose((0, 1))
        self._check(x, states)
        finals = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self.directions):
                i = layer * self.directions + direction
                state = cells[i].zero_state(x) if states is None else tuple(s[i] for s in states)
                output, final = cells[i].run(x, state, reverse=direction == 1)
                outputs.append(output)
                finals.append(final)
            x = outputs[0] if len(outputs) == 1 else concatenate(outputs, -1)
            if self.dropout and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        last = tuple(stack(list(s), 0) for s in zip(*finals, strict=True))
        if unbatched:
            return x.squeeze(1), tuple(s.squeeze(1) for s in last)
        return (x.transpose((0, 1)) if self.batch_first else x), last

    def _check(self, x: Tensor, states: tuple[Tensor, ...] | None) -> None:
        name = type(self).__name__
        if x.ndim != 3 or x.shape[0] == 0:
            order = "(batch, time, {0})" if self.batch_first else "(time, batch, {0})"
            raise ValueError(
                f"[{name}] expected {order.format(self.input_size)} with at least one time step, "
                f"got {x.shape}."
            )
        wanted = (self.num_layers * self.directions, x.shape[1], self.hidden_size)
        _check_shapes(name, states or (), "layers * directions, batch, hidden", wanted)

    def extra_repr(self) -> str:
        changed = [
            f"{name}={value}"
            for name in ("batch_first", "dropout", "bidirectional")
            if (value := getattr(self, name))
        ]
        sizes = f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"
        return ", ".join([sizes, *changed])


class RNN(_Recurrent):
    """Layers of RNNCells: (T, B, I), h0 (L R, B, H) or None -> (T, B, R H), h_n (L R, B, H).

    L is num_layers, R is 2 if bidirectional, else 1; with batch_first, B comes before T.
    """

    cells_name = "rnn_cells"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike | None = None,
        dtype: DTypeLike = "float32",
        *,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ):
        self.nonlinearity = nonlinearity
        super().__init__(
            input_size, hidden_size, num_layers, bias, device, dtype,
            batch_first=batch_first, dropout=dropout, bidirectional=bidirectional,
        )  # fmt: skip

    def make_cell(
        self, inputs: int, size: int, bias: bool, device: DeviceLike | None, dtype: DTypeLike
    ) -> _Cell:
        return RNNCell(inputs, size, bias, self.nonlinearity, device, dtype)

    def forward(self, X: Tensor, h0: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, (h,) = self.run(X, None if h0 is None else (h0,))
        return output, h


class LSTM(_Recurrent):
    """Layers of LSTMCells: (T, B, I), (h0, c0) each (L R, B, H) or None -> output, (h_n, c_n).

    L is num_layers, R is 2 if bidirectional, else 1; with batch_first, B comes before T.
    """

    cell = LSTMCell
    cells_name = "lstm_cells"

    def forward(
        self, X: Tensor, h: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output, (h_n, c_n) = self.run(X, h)
        return output, (h_n, c_n)


class GRU(_Recurrent):
    """Layers of GRUCells: (T, B, I), h0 (L R, B, H) or None -> (T, B, R H), h_n (L R, B, H).

    L is num_layers, R is 2 if bidirectional, else 1; with batch_first, B comes before T.
    """

    cell = GRUCell
    cells_name = "gru_cells"

    def forward(self, X: Tensor, h0: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, (h,) = self.run(X, None if h0 is None else (h0,))
        return output, h
