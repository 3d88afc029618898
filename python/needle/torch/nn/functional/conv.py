"""Convolutions, and windows as columns. They run channels-last inside: views, not copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .... import ops
from ....ops.network.conv import conv_channels_last, conv_transpose_channels_last
from ....ops.network.pool import channels_first, channels_last

if TYPE_CHECKING:
    from ....autograd import Tensor

    Sizes = int | Sequence[int]

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "fold", "unfold",
]  # fmt: skip


def _batched(op: str, x: Tensor, weight: Tensor, rank: int) -> Tensor:
    """x with a batch axis, which may be missing."""
    if x.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {op}, but got "
            f"input of size: {list(x.shape)}"
        )
    if x.dtype != weight.dtype:
        raise RuntimeError(
            f"Input type ({x.dtype}) and bias type ({weight.dtype}) should be the same"
        )
    return x if x.ndim == rank + 2 else x.unsqueeze(0)


def _check(x: Tensor, weight: Tensor, bias: Tensor | None, channels: int, outputs: int) -> None:
    if weight.ndim != x.ndim or x.shape[1] != channels:
        raise RuntimeError(
            f"Given weight of size {list(weight.shape)}, expected input{list(x.shape)} to have "
            f"{channels} channels, but got {x.shape[1]} channels instead"
        )
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise RuntimeError(
            f"Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with "
            f"{outputs} elements, but got bias of size {list(bias.shape)} instead"
        )


def _conv(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    dilation: Any, groups: int,
) -> Tensor:  # fmt: skip
    op = f"conv{rank}d"
    x = _batched(op, input, weight, rank)
    _check(x, weight, bias, weight.shape[1] * groups, weight.shape[0])
    stride, padding, dilation = _one(stride), _one(padding), _one(dilation)
    w = weight.permute((*range(2, 2 + rank), 1, 0))  # (K..., C/G, O)
    try:
        y = conv_channels_last(channels_last(x), w, stride, padding, dilation, groups, op)
    except ValueError as error:
        raise RuntimeError(*error.args) from None
    y = channels_first(y if bias is None else y + bias)
    return y if input.ndim == rank + 2 else y.squeeze(0)  # type: ignore[return-value]


def _one(sizes: Any) -> Any:
    """A size for every axis may be given as a list of one."""
    return sizes[0] if isinstance(sizes, (tuple, list)) and len(sizes) == 1 else sizes


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """(N, C, L) with weight (O, C/groups, K) -> (N, O, L')"""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """(N, C, H, W) with weight (O, C/groups, K, K) -> (N, O, H', W')"""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """(N, C, D, H, W) with weight (O, C/groups, K, K, K)"""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d of (T, B, C) with weight (K, C, O)"""
    y = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return y.permute(2, 0, 1)


def _conv_transpose(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    output_padding: Any, groups: int, dilation: Any,
) -> Tensor:  # fmt: skip
    op = f"conv_transpose{rank}d"
    x = _batched(op, input, weight, rank)
    _check(x, weight, bias, weight.shape[0], weight.shape[1] * groups)
    sizes = [_one(s) for s in (stride, padding, output_padding, dilation)]
    w = weight.permute((*range(2, 2 + rank), 1, 0))  # (K..., O/G, C)
    try:
        y = conv_transpose_channels_last(
            channels_last(x), w, sizes[0], sizes[1], sizes[2], sizes[3], groups, op
        )
    except ValueError as error:
        raise RuntimeError(*error.args) from None
    y = channels_first(y if bias is None else y + bias)
    return y if input.ndim == rank + 2 else y.squeeze(0)  # type: ignore[return-value]


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The adjoint of conv1d: (N, C, L) with weight (C, O/groups, K) -> (N, O, L')"""
    options = (stride, padding, output_padding, groups, dilation)
    return _conv_transpose(1, input, weight, bias, *options)


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The adjoint of conv2d: (N, C, H, W) with weight (C, O/groups, K, K)"""
    options = (stride, padding, output_padding, groups, dilation)
    return _conv_transpose(2, input, weight, bias, *options)


def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The adjoint of conv3d: (N, C, D, H, W) with weight (C, O/groups, K, K, K)"""
    options = (stride, padding, output_padding, groups, dilation)
    return _conv_transpose(3, input, weight, bias, *options)


def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Every window as a column: (N, C, H, W) -> (N, C K K, windows)"""
    x = input if input.ndim == 4 else input.unsqueeze(0)
    try:
        y = ops.unfold(x, kernel_size, dilation, padding, stride)
    except ValueError as error:
        raise RuntimeError(*error.args) from None
    return y if input.ndim == 4 else y.squeeze(0)  # type: ignore[return-value]


def fold(
    input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1,
    padding: Sizes = 0, stride: Sizes = 1,
) -> Tensor:  # fmt: skip
    """Columns added up at their places: (N, C K K, windows) -> (N, C, H, W)"""
    x = input if input.ndim == 3 else input.unsqueeze(0)
    size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    try:
        y = ops.fold(x, size, kernel_size, dilation, padding, stride)
    except ValueError as error:
        raise RuntimeError(*error.args) from None
    return y if input.ndim == 3 else y.squeeze(0)  # type: ignore[return-value]
