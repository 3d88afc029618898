"""Pooling: the largest, the mean or the p-norm of windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .... import ops, torch

if TYPE_CHECKING:
    from ....autograd import Tensor

    Sizes = int | Sequence[int]

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool2d", "max_pool3d",
    "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def per_axis(sizes: Any, rank: int) -> tuple[int, ...]:
    """One size for each axis."""
    if isinstance(sizes, (tuple, list)):
        return tuple(sizes) * rank if len(sizes) == 1 else tuple(sizes)
    return (sizes,) * rank


def _pooled(name: str, rank: int, pool: Callable[..., Any], input: Tensor, *options: Any) -> Any:
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}{rank}d(): Expected {rank + 1}D or {rank + 2}D input tensor, but got "
            f"{list(input.shape)}"
        )
    x = input if input.ndim == rank + 2 else input.unsqueeze(0)
    try:
        y = pool(x, *options)
    except ValueError as error:
        raise RuntimeError(*error.args) from None
    if input.ndim == rank + 2:
        return y
    return tuple(part.squeeze(0) for part in y) if isinstance(y, tuple) else y.squeeze(0)


def _max_pool(rank: int) -> Callable[..., Any]:
    def max_pool(
        input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        kernel = per_axis(kernel_size, rank)
        step = kernel if stride is None or stride == [] else per_axis(stride, rank)
        options = (per_axis(padding, rank), per_axis(dilation, rank), ceil_mode, return_indices)
        return _pooled("max_pool", rank, ops.max_pool, input, kernel, step, *options)

    max_pool.__name__ = f"max_pool{rank}d"
    max_pool.__doc__ = "The largest of each window; with return_indices also where it lies."
    return max_pool


max_pool1d, max_pool2d, max_pool3d = map(_max_pool, (1, 2, 3))


def avg_pool1d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The average of each window of (N, C, L)."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The average of each window of (N, C, H, W); divisor_override replaces the window's size."""
    options = (ceil_mode, count_include_pad, divisor_override)
    return _avg_pool(2, input, kernel_size, stride, padding, *options)


def avg_pool3d(
    input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The average of each window of (N, C, D, H, W)."""
    options = (ceil_mode, count_include_pad, divisor_override)
    return _avg_pool(3, input, kernel_size, stride, padding, *options)


def _avg_pool(
    rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, *options: Any
) -> Tensor:
    kernel = per_axis(kernel_size, rank)
    step = kernel if stride is None or stride == [] else per_axis(stride, rank)
    if len(options) > 2 and options[2] == 0:
        raise RuntimeError("divisor must be not zero")
    found: Tensor = _pooled(
        "avg_pool", rank, ops.avg_pool, input, kernel, step, per_axis(padding, rank), *options
    )
    return found


# Windows that divide the input -------------------------------------------------------------------


def _sizes(input: Tensor, output_size: Any, rank: int) -> tuple[int, ...]:
    """One size for each axis; None keeps the input's."""
    given = per_axis(output_size, rank)
    return tuple(
        input.shape[i - rank] if size is None else int(size) for i, size in enumerate(given)
    )


def _divides(input: Tensor, sizes: tuple[int, ...]) -> bool:
    space = input.shape[-len(sizes) :]
    return all(size and n % size == 0 for n, size in zip(space, sizes, strict=True))


def _parts(n: int, size: int) -> list[slice]:
    return [slice(i * n // size, -((i + 1) * -n // size)) for i in range(size)]


def _by_parts(input: Tensor, sizes: tuple[int, ...], mean: bool) -> Tensor:
    """Windows of uneven sizes, axis by axis."""
    for i, size in enumerate(sizes):
        axis = i - len(sizes)
        n = input.shape[axis]
        if size == n:
            continue
        parts = [input.narrow(axis, s.start, s.stop - s.start) for s in _parts(n, size)]
        pooled = [p.mean(axis) if mean else p.amax(axis) for p in parts]
        input = torch.stack(pooled, axis)
    return input


def _adaptive_avg(rank: int) -> Callable[..., Tensor]:
    def adaptive_avg_pool(input: Tensor, output_size: Sizes) -> Tensor:
        if input.ndim not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"adaptive_avg_pool{rank}d(): Expected {rank + 1}D or {rank + 2}D tensor, but got "
                f"{list(input.shape)}"
            )
        sizes = _sizes(input, output_size, rank)
        if all(size == 1 for size in sizes):
            return input.mean(tuple(range(-rank, 0)), keepdim=True)
        if _divides(input, sizes):
            found: Tensor = _pooled("pool", rank, ops.adaptive_avg_pool, input, sizes)
            return found
        return _by_parts(input, sizes, mean=True)

    adaptive_avg_pool.__name__ = f"adaptive_avg_pool{rank}d"
    adaptive_avg_pool.__doc__ = "Averages of as many parts of each axis as output_size says."
    return adaptive_avg_pool


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_avg, (1, 2, 3))


def _adaptive_max(rank: int) -> Callable[..., Any]:
    def adaptive_max_pool(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
        sizes = _sizes(input, output_size, rank)
        if _divides(input, sizes):
            options = (sizes, return_indices)
            return _pooled("adaptive_max_pool", rank, ops.adaptive_max_pool, input, *options)
        if not return_indices:
            return _by_parts(input, sizes, mean=False)
        return _largest_of_parts(input, sizes)

    adaptive_max_pool.__name__ = f"adaptive_max_pool{rank}d"
    adaptive_max_pool.__doc__ = "The largest of as many parts of each axis as output_size says."
    return adaptive_max_pool


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(_adaptive_max, (1, 2, 3))


def _largest_of_parts(input: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The largest of each part, and where it lies in the flat space."""
    rank = len(sizes)
    space = tuple(input.shape[-rank:])
    front = tuple(input.shape[:-rank])
    places = torch.arange(math.prod(space)).reshape(space)
    found = []
    for number in range(math.prod(sizes)):
        index: list[slice] = []
        for n, size in zip(reversed(space), reversed(sizes), strict=True):
            number, i = divmod(number, size)
            index.insert(0, _parts(n, size)[i])
        part = input[(..., *index)].reshape((*front, -1))
        at = part.argmax(-1)
        found.append(places[tuple(index)].reshape(-1)[at])
    indices = torch.stack(found, -1)
    values = input.reshape((*front, -1)).gather(-1, indices)
    return values.reshape((*front, *sizes)), indices.reshape((*front, *sizes))


# Others -------------------------------------------------------------------------------------------


def _lp_pool(rank: int, average: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> Tensor:  # fmt: skip
        mean = average(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        count = math.prod(per_axis(kernel_size, rank))
        return (mean.sign() * mean.abs().relu() * count).pow(1.0 / norm_type)

    lp_pool.__name__ = f"lp_pool{rank}d"
    lp_pool.__doc__ = "The p-norm of each window."
    return lp_pool


lp_pool1d = _lp_pool(1, avg_pool1d)
lp_pool2d = _lp_pool(2, avg_pool2d)
lp_pool3d = _lp_pool(3, avg_pool3d)


def _max_unpool(rank: int) -> Callable[..., Tensor]:
    def max_unpool(
        input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None,
        padding: Sizes = 0, output_size: Sequence[int] | None = None,
    ) -> Tensor:  # fmt: skip
        kernel = per_axis(kernel_size, rank)
        step = kernel if stride is None else per_axis(stride, rank)
        border = per_axis(padding, rank)
        usual = [
            (n - 1) * s + k - 2 * p
            for n, s, k, p in zip(input.shape[-rank:], step, kernel, border, strict=True)
        ]
        space = list(usual if output_size is None else output_size[-rank:])
        for n, least, s in zip(space, usual, step, strict=True):
            if not least - s < n < least + s:
                raise ValueError(
                    f'invalid output_size "{output_size}" (dim 0 must be between {least - s} and '
                    f"{least + s})"
                )
        front = tuple(input.shape[:-rank])
        flat = torch.zeros((*front, math.prod(space)), dtype=input.dtype, device=input.device)
        places, values = indices.reshape((*front, -1)), input.reshape((*front, -1))
        return flat.scatter(-1, places, values).reshape((*front, *space))

    max_unpool.__name__ = f"max_unpool{rank}d"
    max_unpool.__doc__ = "The elements at the places where max_pool found them; zeros elsewhere."
    return max_unpool


max_unpool1d, max_unpool2d, max_unpool3d = map(_max_unpool, (1, 2, 3))
