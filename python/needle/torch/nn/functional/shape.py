"""Borders, pixels and channels, and space at other sizes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .... import ops, torch
from ....nn.functional import conv as needle_functions

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = [
    "channel_shuffle", "interpolate", "native_channel_shuffle", "pad", "pixel_shuffle",
    "pixel_unshuffle", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

LINEAR = ("linear", "bilinear", "trilinear", "bicubic")
MODES = {3: ("linear",), 4: ("bilinear", "bicubic"), 5: ("trilinear",)}


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """A border: pad = (before, after) of the last axis, then of the one before it, and so on."""
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {input.ndim}"
        )
    if mode != "constant":
        if value is not None and value != 0:
            raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
        if len(pad) // 2 not in (input.ndim - 1, input.ndim - 2):
            raise NotImplementedError(
                "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now"
            )
    try:
        if mode == "constant":
            value = 0.0 if value is None else value
            return needle_functions.pad(input, pad, mode, value)  # type: ignore[return-value]
        return needle_functions.pad(input, pad, mode)  # type: ignore[return-value]
    except ValueError as error:
        raise RuntimeError(*error.args) from None


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels as pixels: (..., C r r, H, W) -> (..., C, H r, W r)"""
    *front, channels, height, width = input.shape
    r = upscale_factor
    if r < 1 or channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the "
            "square of "
            f"upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    x = input.reshape(-1, channels // (r * r), r, r, height, width)
    y = x.permute(0, 1, 4, 2, 5, 3)  # (batch, C, H, r, W, r)
    return y.reshape(*front, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Pixels as channels: (..., C, H r, W r) -> (..., C r r, H, W)"""
    *front, channels, height, width = input.shape
    r = downscale_factor
    if r < 1 or height % r or width % r:
        raise RuntimeError(
            "pixel_unshuffle expects height to be divisible by downscale_factor, but "
            f"input.size(-2)={height} is not divisible by {r}"
        )
    x = input.reshape(-1, channels, height // r, r, width // r, r)
    y = x.permute(0, 1, 3, 5, 2, 4)  # (batch, C, r, r, H, W)
    return y.reshape(*front, channels * r * r, height // r, width // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of all groups in turn."""
    if groups < 1 or input.shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {input.shape[1]} channels and "
            f"{groups} groups."
        )
    n, c, *space = input.shape
    return input.reshape(n, groups, c // groups, *space).transpose(1, 2).reshape(input.shape)


native_channel_shuffle = channel_shuffle


# Other sizes --------------------------------------------------------------------------------------


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Space at another size; modes nearest, nearest-exact, area, (bi-, tri-)linear, bicubic."""
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | "
                "bilinear | bicubic | trilinear"
            )
    elif mode not in LINEAR or mode not in MODES.get(input.ndim, ()):
        raise NotImplementedError(
            f"Input Error: got {input.ndim}D input with mode {mode!r}; expected 3D with linear, 4D "
            "with bilinear or bicubic, 5D with trilinear, or nearest, area, nearest-exact."
        )
    if antialias:
        raise NotImplementedError(
            "[interpolate] antialias=True is missing; blur first, or use mode='area'."
        )
    rank = input.ndim - 2
    for given, name in ((size, "size"), (scale_factor, "scale_factor")):
        if isinstance(given, (tuple, list)) and len(given) != rank:
            raise ValueError(
                f"Input and output must have the same number of spatial dimensions, but got "
                f"input with spatial dimensions of {list(input.shape[2:])} and {name} of {given}."
            )
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined")
    if mode == "bicubic":
        factor = None if recompute_scale_factor else scale_factor
        return _bicubic(input, _target(input, size, scale_factor), factor, bool(align_corners))
    if mode == "area":
        target = _target(input, size, scale_factor)
        pools = [f"adaptive_avg_pool{i}d" for i in (1, 2, 3)]
        found: Tensor = getattr(torch.nn.functional, pools[rank - 1])(input, target)
        return found
    options = (size, scale_factor, mode, align_corners, recompute_scale_factor)
    try:
        return ops.interpolate(input, *options)  # type: ignore[return-value]
    except ValueError as error:
        raise RuntimeError(*error.args) from None


def _target(input: Tensor, size: Any, factor: Any) -> tuple[int, ...]:
    space = input.shape[2:]
    if size is not None:
        return (size,) * len(space) if isinstance(size, int) else tuple(size)
    factors = factor if isinstance(factor, (tuple, list)) else (factor,) * len(space)
    return tuple(math.floor(n * f) for n, f in zip(space, factors, strict=True))


def _bicubic(x: Tensor, target: tuple[int, ...], factor: Any, align: bool) -> Tensor:
    """Each axis by cubic convolution, a = -0.75."""
    factors = factor if isinstance(factor, (tuple, list)) else (factor,) * len(target)
    for axis, (m, f) in enumerate(zip(target, factors, strict=True), start=2):
        n = x.shape[axis]
        matrix = _cubic_matrix(n, m, f, align).to(x.dtype)
        x = (x.transpose(axis, -1) @ matrix.t()).transpose(axis, -1)
    return x


def _cubic_matrix(n: int, m: int, factor: float | None, align: bool) -> Tensor:
    """(m, n): what each of m elements takes of each of n."""
    rows = torch.zeros((m, n), dtype=torch.float64)
    step = 1 / factor if factor else n / m
    for i in range(m):
        at = i * (n - 1) / (m - 1) if align and m > 1 else 0.0 if align else (i + 0.5) * step - 0.5
        first = math.floor(at)
        for tap in range(-1, 3):
            place = min(max(first + tap, 0), n - 1)
            rows[i, place] += cubic_weight(abs(at - first - tap))
    return rows


def cubic_weight(d: float) -> float:
    """Keys' kernel with a = -0.75 at a distance d."""
    a = -0.75
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """`interpolate`, as it was called."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` to the nearest."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate`, bilinear with aligned corners."""
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)
