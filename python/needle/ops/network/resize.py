"""Space in another resolution: x (N, C, S...) -> (N, C, T...), with PyTorch's rules and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ...autograd import Tensor
from ...dtype import dtype_of, widened
from ...ndarray.layout import Shape
from ..common import check_tensor
from ..elementwise import astype
from ..index.indexing import getitem, take
from ..index.sparse import SparseMatrix, sparse_matmul
from .conv import per_axis
from .pool import adaptive_avg_pool

if TYPE_CHECKING:
    from ...types import NumpyArray, Sizes

__all__ = ["interpolate"]

LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}  # and the number of spatial axes
MODES = ("nearest", "nearest-exact", *LINEAR, "area")


def interpolate(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:
    """x at another size (given, or as a factor): "nearest", "nearest-exact", "area" (averages),
    and "linear", "bilinear" or "trilinear" for 1, 2 or 3 spatial axes.

    Elements are the centres of cells; with align_corners (linear modes only) the first and the
    last ones keep their places instead."""
    spatial = _check(x, mode, align_corners)
    target, factors = _target(spatial, size, scale_factor)
    if recompute_scale_factor:
        if size is not None:
            raise ValueError("[interpolate] recompute_scale_factor is for scale_factor, not size.")
        factors = (None,) * len(spatial)
    if mode == "area":
        return adaptive_avg_pool(x, target)
    if mode in LINEAR:
        y = astype(x, widened(dtype_of(x.dtype)))
        axes = list(zip(range(2, x.ndim), target, factors, strict=True))
        if math.prod(target) > math.prod(spatial):
            axes.reverse()  # the last axis, which takes longest, while there is least of it
        for axis, m, factor in axes:
            y = _linear(y, axis, m, factor, bool(align_corners))
        return astype(y, x.dtype)
    for i, (m, factor) in enumerate(zip(target, factors, strict=True)):
        x = _nearest(x, 2 + i, m, factor, 0.5 if mode == "nearest-exact" else 0)
    return x


def _check(x: Tensor, mode: str, align_corners: bool | None) -> Shape:
    if check_tensor("interpolate", x).ndim < 3:
        raise ValueError(f"[interpolate] expected (batch, channels, space...), got {x.shape}.")
    if mode not in MODES:
        raise ValueError(f"[interpolate] mode must be one of {', '.join(MODES)}, got {mode!r}.")
    if mode in LINEAR and x.ndim - 2 != LINEAR[mode]:
        fitting = next((m for m, rank in LINEAR.items() if rank == x.ndim - 2), "none")
        raise ValueError(
            f"[interpolate] mode {mode!r} is for {LINEAR[mode]} spatial axes, got shape "
            f"{x.shape}; the linear mode for it: {fitting}."
        )
    if align_corners is not None and mode not in LINEAR:
        raise ValueError(f"[interpolate] align_corners is for linear modes, got mode {mode!r}.")
    if mode in LINEAR and not dtype_of(x.dtype).is_floating:
        raise TypeError(f"[interpolate] mode {mode!r} expects a floating dtype, got {x.dtype}.")
    return x.shape[2:]


def _target(
    spatial: Shape, size: Sizes | None, scale_factor: float | Sequence[float] | None
) -> tuple[Shape, tuple[float | None, ...]]:
    """The new sizes, and the factors that were given."""
    rank = len(spatial)
    if (size is None) == (scale_factor is None):
        raise ValueError(
            f"[interpolate] give one of size and scale_factor, got {size} and {scale_factor}."
        )
    if size is not None:
        return per_axis("interpolate", "size", size, rank), (None,) * rank
    several = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * rank
    factors = tuple(map(_factor, several))
    target = tuple(math.floor(n * f) for n, f in zip(spatial, factors, strict=False))
    if len(factors) != rank or any(m < 1 for m in target):
        raise ValueError(
            f"[interpolate] scale_factor must be a number or {rank} of them that leave at least "
            f"one element, got {scale_factor!r} for spatial shape {spatial}."
        )
    return target, factors


def _factor(value: float | str) -> float:
    """A factor; 0, which leaves nothing, for what is no number."""
    found = 0.0 if isinstance(value, str) else float(value)
    return found if math.isfinite(found) else 0.0


def _nearest(x: Tensor, axis: int, m: int, factor: float | None, shift: float) -> Tensor:
    """y_j = x_i with i = floor((j + shift) n / m)"""
    n = x.shape[axis]
    if shift == 0 and m in (n, 2 * n):
        factor = None  # PyTorch's rule: these sizes repeat evenly, whatever the factor was
    scale = np.float32(n / m if factor is None else 1 / factor)
    source = (np.arange(m, dtype=np.float32) + np.float32(shift)) * scale
    index = np.minimum(source.astype(np.int64), n - 1)
    step = int(index[1]) if m > 1 else 1
    if step > 0 and np.array_equal(index, np.arange(m) * step):
        return getitem(x, (*[slice(None)] * axis, slice(0, (m - 1) * step + 1, step)))
    times = m // n
    if np.array_equal(index, np.arange(m) // max(times, 1)):
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        spread = x.reshape((*before, n, 1, *after)).broadcast_to((*before, n, times, *after))
        return spread.reshape((*before, m, *after))
    return take(x, index, axis)


def _linear(x: Tensor, axis: int, m: int, factor: float | None, align_corners: bool) -> Tensor:
    n = x.shape[axis]
    return (
        x
        if m == n
        else sparse_matmul(x, _weights(n, m, factor, align_corners, x.dtype == "float64"), axis)
    )


@lru_cache(maxsize=256)
def _weights(
    n: int, m: int, factor: float | None, align_corners: bool, is_double: bool
) -> SparseMatrix:
    """y_j = (1 - t) x_i + t x_i+1, where i + t is the place of j between the elements of x"""
    real = np.float64 if is_double else np.float32
    places = _places(n, m, factor, align_corners, real)
    low = np.minimum(places.astype(np.int64), n - 1)
    t = np.clip(places - low.astype(real), 0, 1)
    pairs = np.stack([low, np.minimum(low + 1, n - 1)], 1)
    weights = np.stack([1 - t, t], 1).astype(real)
    return SparseMatrix(np.arange(m + 1) * 2, pairs.reshape(-1), weights.reshape(-1), n)


def _places(
    n: int, m: int, factor: float | None, align_corners: bool, real: type[np.floating]
) -> NumpyArray:
    """Where the m new elements lie among the n old ones."""
    j = np.arange(m).astype(real)
    if align_corners:
        return np.asarray(j * real((n - 1) / (m - 1) if m > 1 else 0))
    scale = real(n / m if factor is None else 1 / factor)
    return np.asarray(np.maximum(scale * (j + real(0.5)) - real(0.5), 0))
