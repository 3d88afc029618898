"""Recurrent networks: cells for one step, and stacks that run them over a sequence.

T = time, B = batch, I = input size, H = hidden size, L = layers. Sequences are (T, B, I).
"""

from __future__ import annotations

import math
from typing import Any

from .. import init
from ..autograd import Tensor
from ..ops import stack
from .module import Module, Parameter


class _Cell(Module):
    """Weights of one step: x W_ih + b_ih + h W_hh + b_hh, `gates` blocks of H side by side."""

    gates: int

    def __init__(self, input_size: int, hidden_size: int, bias: bool, device: Any, dtype: Any):
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

    def zero_state(self, x: Tensor) -> Tensor:
        """h = 0 for a batch of inputs (B, I)."""
        return init.zeros(x.shape[0], self.hidden_size, device=x.device, dtype=x.dtype)

    def preactivation(self, x: Tensor, h: Tensor) -> Tensor:
        """(B, I), (B, H) -> (B, gates * H)"""
        if x.shape[-1] != self.W_ih.shape[0]:
            raise ValueError(
                f"[{type(self).__name__}] expected inputs (batch, {self.W_ih.shape[0]}), got "
                f"{x.shape}; change input_size or the input's last dimension."
            )
        y = x @ self.W_ih + h @ self.W_hh
        if self.bias_ih is None or self.bias_hh is None:
            return y
        return y + self.bias_ih + self.bias_hh

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
        device: Any = None,
        dtype: Any = "float32",
    ):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"[RNNCell] nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}."
            )
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        y = self.preactivation(x, self.zero_state(x) if h is None else h)
        return y.tanh() if self.nonlinearity == "tanh" else y.relu()


class LSTMCell(_Cell):
    """Gates i, f, g, o:  c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c')."""

    gates = 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = "float32",
    ):
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def forward(self, x: Tensor, h: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        state, memory = (self.zero_state(x), self.zero_state(x)) if h is None else h
        size = self.hidden_size
        gates = self.preactivation(x, state)  # (B, 4H)
        i, f, g, o = (gates[:, k * size : (k + 1) * size] for k in range(4))
        memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
        return o.sigmoid() * memory.tanh(), memory


class RNN(Module):
    """Layers of RNNCells: (T, B, I), h0 (L, B, H) or None -> (T, B, H), h_n (L, B, H)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = "float32",
    ):
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        self.rnn_cells = [
            RNNCell(size, hidden_size, bias, nonlinearity, device, dtype) for size in sizes
        ]

    def forward(self, X: Tensor, h0: Tensor | None = None) -> tuple[Tensor, Tensor]:
        steps = [X[t] for t in range(X.shape[0])]
        last = []
        for layer, cell in enumerate(self.rnn_cells):
            h = None if h0 is None else h0[layer]
            outputs = []
            for x in steps:
                h = cell(x, h)
                outputs.append(h)
            steps = outputs
            last.append(outputs[-1])
        return stack(steps, 0), stack(last, 0)


class LSTM(Module):
    """Layers of LSTMCells: (T, B, I), (h0, c0) each (L, B, H) or None -> output, (h_n, c_n)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        device: Any = None,
        dtype: Any = "float32",
    ):
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        self.lstm_cells = [LSTMCell(size, hidden_size, bias, device, dtype) for size in sizes]

    def forward(
        self, X: Tensor, h: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        steps = [X[t] for t in range(X.shape[0])]
        last_h, last_c = [], []
        for layer, cell in enumerate(self.lstm_cells):
            state = None if h is None else (h[0][layer], h[1][layer])
            outputs = []
            for x in steps:
                state = cell(x, state)
                outputs.append(state[0])
            steps = outputs
            assert state is not None
            last_h.append(state[0])
            last_c.append(state[1])
        return stack(steps, 0), (stack(last_h, 0), stack(last_c, 0))
