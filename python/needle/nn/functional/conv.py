"""Convolution, pooling, resizing and padding; channels come first, weights are (O, C/groups, K...).

Inputs of convolutions and pooling may lack the batch axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ... import ops
from ...autograd import Tensor
from ...ops.network.conv import conv_channels_last, conv_transpose_channels_last
from ...ops.network.pool import channels_first, channels_last

if TYPE_CHECKING:
    from ...types import Padding, Sizes

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "unfold", "fold", "interpolate", "pixel_shuffle", "pad",
]  # fmt: skip

T = TypeVar("T")
AXES = {1: "length", 2: "height, width", 3: "depth, height, width"}


def _batched(op: str, x: Tensor, rank: int) -> Tensor:
    """x with a batch axis, which may be missing."""
    if not isinstance(x, Tensor):
        raise TypeError(f"[{op}] expected a Tensor, got {type(x).__name__}.")
    if x.ndim == rank + 1:
        return x.expand_dims(0)
    if x.ndim != rank + 2:
        raise ValueError(
            f"[{op}] expected an input (batch, channels, {AXES[rank]}), or one without batch, "
            f"got {x.shape}."
        )
    return x


def _like_input(y: Tensor, x: Tensor) -> Tensor:
    """y without a batch axis if x has none."""
    return y if x.ndim == y.ndim else y.squeeze(0)


def _check_conv(
    op: str, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int, transposed: bool = False
) -> None:
    """The input has the weight's channels, and the bias one number per output channel."""
    if weight.ndim != x.ndim:
        raise ValueError(
            f"[{op}] expected a weight with {x.ndim} axes (channels first, then the kernel's "
            f"size), got {weight.shape}."
        )
    grouped = weight.shape[1] * groups
    channels, outputs = (weight.shape[0], grouped) if transposed else (grouped, weight.shape[0])
    if x.shape[1] != channels:
        last = x.shape[-1] == channels
        fix = (
            "are the channels last? permute them"
            if last
            else "change in_channels, or what is before"
        )
        raise ValueError(
            f"[{op}] expected an input with {channels} channels on axis 1 for weight "
            f"{weight.shape}, got {x.shape}; {fix}."
        )
    if bias is not None and bias.shape != (outputs,):
        raise ValueError(f"[{op}] expected a bias of shape ({outputs},), got {bias.shape}.")


# Convolution --------------------------------------------------------------------------------------


def _conv(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes,
    padding: Padding, dilation: Sizes, groups: int,
) -> Tensor:  # fmt: skip
    op = f"conv{rank}d"
    x = _batched(op, input, rank)
    _check_conv(op, x, weight, bias, groups)
    w = weight.permute((*range(2, 2 + rank), 1, 0))  # (K..., C/G, O)
    y = conv_channels_last(channels_last(x), w, stride, padding, dilation, groups, op)
    return _like_input(channels_first(y if bias is None else y + bias), input)


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Padding = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """(N, C, L) with weight (O, C/groups, K) -> (N, O, L'); padding: a number, "same", "valid"."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Padding = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """(N, C, H, W) with weight (O, C/groups, K, K) -> (N, O, H', W'); padding as in conv1d."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Padding = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """(N, C, D, H, W) with weight (O, C/groups, K, K, K); padding as in conv1d."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes,
    padding: Sizes, output_padding: Sizes, groups: int, dilation: Sizes,
) -> Tensor:  # fmt: skip
    op = f"conv_transpose{rank}d"
    x = _batched(op, input, rank)
    if isinstance(padding, str):
        raise ValueError(f"[{op}] padding must be numbers, got {padding!r}.")
    _check_conv(op, x, weight, bias, groups, transposed=True)
    w = weight.permute((*range(2, 2 + rank), 1, 0))  # (K..., O/G, C)
    y = conv_transpose_channels_last(
        channels_last(x), w, stride, padding, output_padding, dilation, groups, op
    )
    return _like_input(channels_first(y if bias is None else y + bias), input)


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The adjoint of conv1d: (N, C, L) with weight (C, O/groups, K) -> (N, O, L')."""
    options = (stride, padding, output_padding, groups, dilation)
    return _conv_transpose(1, input, weight, bias, *options)


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The adjoint of conv2d: (N, C, H, W) with weight (C, O/groups, K, K) -> (N, O, H', W')."""
    options = (stride, padding, output_padding, groups, dilation)
    return _conv_transpose(2, input, weight, bias, *options)


def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The adjoint of conv3d: (N, C, D, H, W) with weight (C, O/groups, K, K, K)."""
    options = (stride, padding, output_padding, groups, dilation)
    return _conv_transpose(3, input, weight, bias, *options)


# Pooling ------------------------------------------------------------------------------------------


def _pool(name: str, rank: int, pool: Callable[..., T], input: Tensor, *options: object) -> T:
    y: Any = pool(_batched(f"{name}{rank}d", input, rank), *options)
    has_indices = isinstance(y, tuple)
    y = tuple(_like_input(part, input) for part in y) if has_indices else _like_input(y, input)
    return cast("T", y)


def max_pool1d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest of each window of (N, C, L); with return_indices also where it lies."""
    options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _pool("max_pool", 1, ops.max_pool, input, *options)


def max_pool2d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest of each window of (N, C, H, W); with return_indices also where, as h W + w."""
    options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _pool("max_pool", 2, ops.max_pool, input, *options)


def max_pool3d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest of each window of (N, C, D, H, W); with return_indices also where."""
    options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _pool("max_pool", 3, ops.max_pool, input, *options)


def avg_pool1d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The average of each window of (N, C, L)."""
    options = (kernel_size, stride, padding, ceil_mode, count_include_pad)
    return _pool("avg_pool", 1, ops.avg_pool, input, *options)


def avg_pool2d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The average of each window of (N, C, H, W); divisor_override replaces the window's size."""
    options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _pool("avg_pool", 2, ops.avg_pool, input, *options)


def avg_pool3d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The average of each window of (N, C, D, H, W)."""
    options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _pool("avg_pool", 3, ops.avg_pool, input, *options)


def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """(N, C, L) -> (N, C, output_size): averages of equal parts."""
    return _pool("adaptive_avg_pool", 1, ops.adaptive_avg_pool, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Sizes) -> Tensor:
    """(N, C, H, W) -> (N, C, *output_size): averages of equal parts."""
    return _pool("adaptive_avg_pool", 2, ops.adaptive_avg_pool, input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """(N, C, L) -> (N, C, output_size): the largest of equal parts."""
    options = (output_size, return_indices)
    return _pool("adaptive_max_pool", 1, ops.adaptive_max_pool, input, *options)


def adaptive_max_pool2d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """(N, C, H, W) -> (N, C, *output_size): the largest of equal parts."""
    options = (output_size, return_indices)
    return _pool("adaptive_max_pool", 2, ops.adaptive_max_pool, input, *options)


# Windows, sizes, borders --------------------------------------------------------------------------


def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Every window as a column: (N, C, H, W) -> (N, C K K, windows)."""
    y = ops.unfold(_batched("unfold", input, 2), kernel_size, dilation, padding, stride)
    return y if input.ndim == 4 else y.squeeze(0)


def fold(
    input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1,
    padding: Sizes = 0, stride: Sizes = 1,
) -> Tensor:  # fmt: skip
    """Columns added up at their places: (N, C K K, windows) -> (N, C, H, W)."""
    if input.ndim not in (2, 3):
        raise ValueError(f"[fold] expected (batch, columns, windows), got {input.shape}.")
    x = input if input.ndim == 3 else input.expand_dims(0)
    size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    y = ops.fold(x, size, kernel_size, dilation, padding, stride)
    return y if input.ndim == 3 else y.squeeze(0)


def interpolate(
    input: Tensor, size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
) -> Tensor:  # fmt: skip
    """Space at another size; modes nearest, nearest-exact, area, linear, bilinear, trilinear."""
    options = (size, scale_factor, mode, align_corners, recompute_scale_factor)
    return ops.interpolate(input, *options)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels as pixels: (..., C r r, H, W) -> (..., C, H r, W r), with r = upscale_factor."""
    *batch, channels, height, width = input.shape
    r = upscale_factor
    if r < 1 or channels % (r * r):
        raise ValueError(
            f"[pixel_shuffle] expected (..., C r r, H, W) with r = {r}, got {input.shape}."
        )
    x = input.reshape((-1, channels // (r * r), r, r, height, width))
    y = x.permute((0, 1, 4, 2, 5, 3))  # (batch, C, H, r, W, r)
    return y.reshape((*batch, channels // (r * r), height * r, width * r))


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """A border: pad = (before, after) of the last axis, then of the one before it, and so on.

    mode: "constant" (`value`; negative widths take elements away), "reflect", "replicate" or
    "circular"."""
    widths = tuple(pad)
    if len(widths) % 2 or len(widths) > 2 * input.ndim:
        raise ValueError(
            f"[pad] expected (before, after) pairs for at most {input.ndim} axes, last axis "
            f"first, got {widths}."
        )
    if value is not None and mode != "constant":
        raise ValueError(f"[pad] a value is for mode 'constant', got {value} with {mode!r}.")
    pairs = [(widths[i], widths[i + 1]) for i in range(0, len(widths), 2)]
    pairs += [(0, 0)] * (input.ndim - len(pairs))
    pairs.reverse()
    if mode == "constant" and min(widths, default=0) < 0:
        input = input.crop(tuple((max(-a, 0), max(-b, 0)) for a, b in pairs))
        pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    return ops.pad(input, tuple(pairs), mode, value)
