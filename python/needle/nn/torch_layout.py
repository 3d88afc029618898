"""PyTorch's names and layouts of a model's tensors, to load its weights and to give it ours.

Most modules have PyTorch's names and layouts already. The others:

    Linear               weight (in, out), bias (1, out)       weight (out, in), bias (out,)
    Conv (the course's)  weight (k, k, in, out)                weight (out, in, k, k)
    cells                W_ih (in, gates x hidden)             weight_ih (gates x hidden, in)
    RNN, LSTM, GRU       lstm_cells.3.W_ih                     weight_ih_l1_reverse
    MultiheadAttention   in_proj_weight (in, out)              in_proj_weight (out, in)
                         bias_k (1, out)                       bias_k (1, 1, out)
"""

from __future__ import annotations

from collections.abc import Iterator

from ..autograd import Tensor
from .module import DEEP_ROW, IN_OUT, KERNEL_IN_OUT, ROW, Module
from .norm import _ChannelNorm
from .sequence.recurrent import _Cell, _Recurrent
from .state import Move, StateEntry, unchanged


def _transposed(x: Tensor) -> Tensor:
    return x.transpose()


def _flat(x: Tensor) -> Tensor:
    return x.reshape((x.size,))


def _row(x: Tensor) -> Tensor:
    return x.reshape((1, x.size))


def _channels_first(x: Tensor) -> Tensor:
    return x.permute((3, 2, 0, 1))


def _channels_last(x: Tensor) -> Tensor:
    return x.permute((2, 3, 1, 0))


def _deep_row(x: Tensor) -> Tensor:
    return x.reshape((1, 1, x.size))


_MOVES: dict[str | None, tuple[Move, Move]] = {  # to PyTorch's layout, and back
    IN_OUT: (_transposed, _transposed),
    ROW: (_flat, _row),
    DEEP_ROW: (_deep_row, _row),
    KERNEL_IN_OUT: (_channels_first, _channels_last),
}


def entries(module: Module, prefix: str = "") -> Iterator[StateEntry]:
    """Every tensor of a model, under each of its names in PyTorch."""
    cells = getattr(module, module.cells_name) if isinstance(module, _Recurrent) else []
    for i, cell in enumerate(cells):
        layer, backwards = divmod(i, module.directions)  # type: ignore[attr-defined]
        yield from _cell_entries(cell, prefix, f"_l{layer}" + "_reverse" * backwards)
    if isinstance(module, _Cell):
        yield from _cell_entries(module, prefix, "")
        return
    for name, value in module._named_items():
        if isinstance(value, Tensor):
            there, back = _MOVES.get(type(module)._layouts.get(name), (unchanged, unchanged))
            optional = isinstance(module, _ChannelNorm) and name == "num_batches_tracked"
            yield StateEntry(prefix + name, value, there, back, optional)
        elif value not in cells:
            yield from entries(value, f"{prefix}{name}.")


def _cell_entries(cell: _Cell, prefix: str, suffix: str) -> Iterator[StateEntry]:
    for side in ("ih", "hh"):
        weight: Tensor = getattr(cell, f"W_{side}")
        yield StateEntry(f"{prefix}weight_{side}{suffix}", weight, _transposed, _transposed)
    for side in ("ih", "hh"):
        bias: Tensor | None = getattr(cell, f"bias_{side}")
        if bias is not None:
            yield StateEntry(f"{prefix}bias_{side}{suffix}", bias, unchanged, unchanged)
