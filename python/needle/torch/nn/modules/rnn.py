"""Recurrent networks: a layer is one operator over all steps, a packed batch one per length.

T = time, B = batch, I = input size, H = hidden size, L = layers, R = directions (1 or 2).
"""

from __future__ import annotations

import math
import numbers
import warnings
from itertools import groupby
from typing import TYPE_CHECKING, Any

from .... import torch
from ....ops.network.recurrent import recurrent_layer
from .. import functional as F, init
from ..base.module import Module
from ..parameter import Parameter
from ..utils.rnn import PackedSequence

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase",
]  # fmt: skip

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
RULES = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "tanh", "RNN_RELU": "relu"}
State = list[Any]  # h (B, H), and of an LSTM c


def run(rule: str, x: Tensor, weights: list[Tensor], state: State) -> tuple[Tensor, State]:
    """All steps of (T, B, I) from a state: (T, B, H) and the last state."""
    w_ih, w_hh, *more = weights
    if rule == "lstm" and len(more) in (1, 3):
        return _run_projected(x, w_ih, w_hh, more, state)
    biases = (more[0], more[1]) if more else None
    c = state[1] if len(state) > 1 else None
    found = recurrent_layer(rule, x, w_ih.t(), state[0], w_hh.t(), c, biases)
    return found[0], [found[0][-1], *found[1:]]  # type: ignore[return-value]


def _run_projected(
    x: Tensor, w_ih: Tensor, w_hh: Tensor, more: list[Tensor], state: State
) -> tuple[Tensor, State]:
    """An LSTM whose h is projected after each step."""
    *biases, w_hr = more
    h, c = state
    outputs = []
    v = F.linear(x, w_ih, biases[0] if biases else None)
    for step in v.unbind(0):
        gates = step + F.linear(h, w_hh, biases[1] if biases else None)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = F.linear(o.sigmoid() * c.tanh(), w_hr)
        outputs.append(h)
    return torch.stack(outputs), [h, c]


def run_packed(
    rule: str, data: Tensor, sizes: list[int], weights: list[Tensor], state: State, reverse: bool
) -> tuple[Tensor, State]:
    """The same for sequences side by side, longest first: step t has the first sizes[t] of them."""
    runs, start = [], 0
    for size, steps in groupby(sizes):
        count = len(list(steps))
        runs.append((start, count, size))
        start += count * size
    if reverse:
        runs.reverse()
    now = [s[: runs[0][2]] for s in state]
    outputs, finished = [], []
    for i, (start, count, size) in enumerate(runs):
        if reverse and i:
            new = [s[runs[i - 1][2] : size] for s in state]
            now = [torch.cat(pair) for pair in zip(now, new, strict=True)]
        elif i:
            finished.append([s[size:] for s in now])
            now = [s[:size] for s in now]
        x = data[start : start + count * size].reshape(count, size, -1)
        y, now = run(rule, x.flip(0) if reverse else x, weights, now)
        outputs.append((y.flip(0) if reverse else y).reshape(count * size, -1))
    if reverse:
        return torch.cat(outputs[::-1]), now
    ends = [now, *finished[::-1]]
    return torch.cat(outputs), [torch.cat(parts) for parts in zip(*ends, strict=True)]


class RNNBase(Module):
    """Layers of cells, one or (bidirectional) two in each."""

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
        "bidirectional", "proj_size",
    ]  # fmt: skip

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1,
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode = mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first = bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = dropout, bidirectional, proj_size
        self._check()
        self.dropout = float(dropout)
        self._all_weights: list[list[str]] = []
        directions = 2 if bidirectional else 1
        gates, out = GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else out * directions
            for suffix in ("", "_reverse")[:directions]:
                shapes: dict[str, tuple[int, ...]] = {}
                shapes |= {"weight_ih": (gates, width), "weight_hh": (gates, out)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    empty = torch.empty(shape, device=device, dtype=dtype)
                    setattr(self, f"{name}_l{layer}{suffix}", Parameter(empty))
                self._all_weights.append([f"{name}_l{layer}{suffix}" for name in shapes])
        self.reset_parameters()

    def _check(self) -> None:
        p = self.dropout
        if not isinstance(p, numbers.Number) or not 0 <= p <= 1 or isinstance(p, bool):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if p > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={p} and num_layers=1",
                stacklevel=4,
            )
        for name in ("bias", "batch_first"):
            if not isinstance(getattr(self, name), bool):
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"{name} should be of type bool, got: {kind}")
        for name in ("input_size", "hidden_size"):
            if not isinstance(getattr(self, name), int):
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"{name} should be of type int, got: {kind}")
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def reset_parameters(self) -> None:
        """Even numbers between ± 1/√H."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: the kernels take the weights as they lie."""

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters, layer by layer and direction by direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def _states(self, hx: Any, batch: int, like: Tensor) -> State:
        """h (and c) for all layers and directions: what was given, or zeros."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        sizes = [self.proj_size or self.hidden_size]
        sizes += [self.hidden_size] if self.mode == "LSTM" else []
        if hx is None:
            shapes = [(count, batch, size) for size in sizes]
            return [torch.zeros(s, dtype=like.dtype, device=like.device) for s in shapes]
        given = list(hx) if self.mode == "LSTM" else [hx]
        for name, state, size in zip(("[0]", "[1]"), given, sizes, strict=False):
            if tuple(state.shape) != (count, batch, size):
                which = f"hidden{name}" if self.mode == "LSTM" else "hidden"
                raise RuntimeError(
                    f"Expected {which} size {(count, batch, size)}, got {list(state.shape)}"
                )
        return given

    def _check_input(self, x: Tensor, ndims: tuple[int, ...]) -> None:
        if x.ndim not in ndims:
            raise ValueError(
                f"{type(self).__name__}: Expected input to be {ndims[0]}D or {ndims[-1]}D, got "
                f"{x.ndim}D instead"
            )
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {x.shape[-1]}"
            )
        weight = self._parameters[self._all_weights[0][0]]
        if weight is not None and x.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({x.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({x.dtype})"
            )

    def _layers(self, x: Tensor, sizes: list[int] | None, states: State) -> tuple[Tensor, State]:
        """All layers over (T, B, I), or over packed data with sizes."""
        directions = 2 if self.bidirectional else 1
        weights, rule, finals = self.all_weights, RULES[self.mode], []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                i = layer * directions + direction
                now = [s[i] for s in states]
                if sizes is not None:
                    y, now = run_packed(rule, x, sizes, weights[i], now, direction == 1)
                elif direction:
                    y, now = run(rule, x.flip(0), weights[i], now)
                    y = y.flip(0)
                else:
                    y, now = run(rule, x, weights[i], now)
                outputs.append(y)
                finals.append(now)
            x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
            if self.dropout and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        return x, [torch.stack(parts) for parts in zip(*finals, strict=True)]

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._check_input(input, (2, 3))
        alone = input.ndim == 2
        x = input
        if alone:
            x = x.unsqueeze(1)
            hx = None if hx is None else self._as(hx, lambda s: s.unsqueeze(1))
        elif self.batch_first:
            x = x.transpose(0, 1)
        y, last = self._layers(x, None, self._states(hx, x.shape[1], x))
        if alone:
            return y.squeeze(1), self._given([s.squeeze(1) for s in last])
        return (y.transpose(0, 1) if self.batch_first else y), self._given(last)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[Any, Any]:
        data, batch_sizes, order, back = input
        self._check_input(data, (2,))
        sizes = batch_sizes.tolist()
        if hx is not None and order is not None:
            hx = self._as(hx, lambda s: s.index_select(1, order))
        y, last = self._layers(data, sizes, self._states(hx, sizes[0], data))
        if back is not None:
            last = [s.index_select(1, back) for s in last]
        return PackedSequence(y, batch_sizes, order, back), self._given(last)

    def _as(self, hx: Any, change: Any) -> Any:
        return tuple(change(s) for s in hx) if self.mode == "LSTM" else change(hx)

    def _given(self, last: State) -> Any:
        return tuple(last) if self.mode == "LSTM" else last[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
            ("dropout", 0), ("bidirectional", False),
        ):  # fmt: skip
            if (value := getattr(self, name)) != usual:
                text += f", {name}={value}"
        return text


class RNN(RNNBase):
    """h' = f(W_ih x + b_ih + W_hh h + b_hh), f = tanh or relu"""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("proj_size"):
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        kwargs.pop("proj_size", None)
        if len(args) > 3:
            self_args, nonlinearity = (*args[:3], *args[4:]), args[3]
        else:
            self_args, nonlinearity = args, kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *self_args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Gates i, f, g, o:  c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c')"""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gates r, z, n:  n = tanh(x_n + σ(r) h_n),  h' = (1 - σ(z)) n + σ(z) h"""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a recurrent network."""

    __constants__ = ["input_size", "hidden_size", "bias"]
    rule = ""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates, place = num_chunks * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(torch.empty((gates, input_size), **place))
        self.weight_hh = Parameter(torch.empty((gates, hidden_size), **place))
        for name in ("bias_ih", "bias_hh"):
            new = Parameter(torch.empty(gates, **place)) if bias else None
            self.register_parameter(name, new)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Even numbers between ± 1/√H."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, input: Tensor, hx: Any, count: int) -> State:
        name = type(self).__name__
        if input.ndim not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        states = [None] * count if hx is None else list(hx) if count == 2 else [hx]
        alone = input.ndim == 1
        x = input.unsqueeze(0) if alone else input
        if x.shape[1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}"
            )
        for i, state in enumerate(states):
            if state is None:
                shape = (len(x), self.hidden_size)
                states[i] = torch.zeros(shape, dtype=x.dtype, device=x.device)
                continue
            if state.ndim not in (1, 2):
                raise ValueError(
                    f"{name}: Expected hidden to be 1D or 2D, got {state.ndim}D instead"
                )
            states[i] = state.unsqueeze(0) if alone else state
            if tuple(states[i].shape) != (len(x), self.hidden_size):  # type: ignore[union-attr]
                raise RuntimeError(
                    f"hidden{i} has inconsistent hidden_size: got {list(state.shape)}, expected "
                    f"{[len(x), self.hidden_size]}"
                )
        weights = [w for w in self._parameters.values() if w is not None]
        _, now = run(self.rule, x.unsqueeze(0), weights, states)  # type: ignore[arg-type]
        return [s.squeeze(0) for s in now] if alone else now

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")
        kind = getattr(self, "nonlinearity", "tanh")
        return text if kind == "tanh" else f"{text}, nonlinearity={kind}"


class RNNCell(RNNCellBase):
    """h' = f(W_ih x + b_ih + W_hh h + b_hh)"""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        self.rule = self.nonlinearity
        found: Tensor = self._step(input, hx, 1)[0]
        return found


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (h, c)."""

    rule = "lstm"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        h, c = self._step(input, hx, 2)
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    rule = "gru"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        found: Tensor = self._step(input, hx, 1)[0]
        return found
