"""Reading images at places of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .... import torch

if TYPE_CHECKING:
    from ....autograd import Tensor

__all__ = ["affine_grid", "grid_sample"]


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Places (N, H, W, 2) or (N, D, H, W, 3) that maps theta, (N, 2, 3) or (N, 3, 4), give."""
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    rank = len(size) - 2
    if rank not in (2, 3) or tuple(theta.shape[1:]) != (rank, rank + 1):
        raise ValueError(
            f"Expected a batch of affine matrices of shape Nx2x3 or Nx3x4 for size {list(size)}. "
            f"Got {theta.shape}."
        )
    axes = []
    for n in reversed(size[2:]):
        line = torch.linspace(-1, 1, n, dtype=theta.dtype) if n > 1 else torch.zeros(1)
        axes.append(line if align_corners else line * ((n - 1) / n))
    mesh = torch.meshgrid(*reversed(axes), indexing="ij")
    ones = torch.ones(tuple(size[2:]), dtype=theta.dtype)
    base = torch.stack([*reversed(mesh), ones], -1).reshape(-1, rank + 1)
    return (base @ theta.transpose(1, 2)).reshape(size[0], *size[2:], rank)


def _unnormalize(x: Tensor, n: int, align: bool) -> Tensor:
    """From -1 to 1 to places of n elements."""
    return (x + 1) / 2 * (n - 1) if align else ((x + 1) * n - 1) / 2


def _inside(x: Tensor, n: int, padding_mode: str, align: bool) -> Tensor:
    """Places outside moved to the border, or reflected."""
    if padding_mode == "border":
        return x.clamp(0, n - 1)
    if padding_mode == "reflection":
        low, span = (0.0, n - 1.0) if align else (-0.5, float(n))
        if span == 0:
            return x * 0
        distance = (x - low).abs()
        times = (distance / span).floor()
        rest = distance - times * span
        even = (times.detach() % 2) == 0
        x = torch.where(even, rest + low, span - rest + low).clamp(0, n - 1)
    return x


def _take(input: Tensor, places: list[Tensor]) -> Tensor:
    """input (N, C, space...) at whole places (N, out...), zeros outside: (N, C, out...)"""
    n, c, *space = input.shape
    valid = places[0] >= 0
    flat = torch.zeros_like(places[0])
    for place, size in zip(places, space, strict=True):
        valid = valid & (place >= 0) & (place <= size - 1)
        flat = flat * size + place.clamp(0, size - 1)
    out = tuple(flat.shape[1:])
    index = flat.to(torch.int64).reshape(n, 1, -1).expand(n, c, -1)
    found = input.reshape(n, c, -1).gather(2, index).reshape((n, c, *out))
    return found * valid.unsqueeze(1).to(input.dtype)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """input (N, C, H, W) at places grid (N, H', W', 2), from -1 to 1, x first; or in 3-d."""
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    rank, align = input.ndim - 2, bool(align_corners)
    if grid.ndim != input.ndim or grid.shape[-1] != rank or grid.shape[0] != input.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {rank} in last dimension and the input's "
            f"batch, but got input {list(input.shape)} and grid {list(grid.shape)}"
        )
    space = input.shape[2:]
    at = [_unnormalize(grid[..., rank - 1 - i], n, align) for i, n in enumerate(space)]
    if mode == "bicubic":
        return _bicubic(input, at, padding_mode, align)
    at = [_inside(x, n, padding_mode, align) for x, n in zip(at, space, strict=True)]
    if mode == "nearest":
        return _take(input, [x.detach().round() for x in at])
    low = [x.detach().floor() for x in at]
    total = torch.zeros_like(_take(input, low))
    for corner in range(2**rank):
        ups = [corner >> i & 1 for i in range(rank)]
        share = torch.ones_like(at[0])
        for x, first, up in zip(at, low, ups, strict=True):
            share = share * (x - first if up else first + 1 - x)
        places = [first + up for first, up in zip(low, ups, strict=True)]
        total = total + _take(input, places) * share.unsqueeze(1)
    return total


def _cubic(t: Tensor) -> list[Tensor]:
    """Keys' weights of the four neighbours, a = -0.75; t is the place after the second."""
    a = -0.75

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _bicubic(input: Tensor, at: list[Tensor], padding_mode: str, align: bool) -> Tensor:
    (y, x), (height, width) = at, input.shape[2:]
    y0, x0 = y.detach().floor(), x.detach().floor()
    total = torch.zeros_like(_take(input, [y0, x0]))
    for i, by_y in enumerate(_cubic(y - y0)):
        for j, by_x in enumerate(_cubic(x - x0)):
            place_y = _inside(y0 + (i - 1), height, padding_mode, align)
            place_x = _inside(x0 + (j - 1), width, padding_mode, align)
            total = total + _take(input, [place_y, place_x]) * (by_y * by_x).unsqueeze(1)
    return total
