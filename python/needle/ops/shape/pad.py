"""Borders around tensors, and space between their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...autograd import Tensor, TensorOp
from ...dtype import dtype_of
from ...ndarray import functions as F
from ...ndarray.array import as_scalar
from ...ndarray.index.gather import getitem
from ..common import Scalar, check_tensor, either, one_of, whole_number
from .concat import concatenate
from .movement import broadcast_to, clone, flip

if TYPE_CHECKING:
    from ...ndarray.array import NDArray
    from ...types import Border

__all__ = ["Pad", "Crop", "crop", "pad", "Dilate", "UnDilate", "dilate", "undilate"]

Widths = tuple[tuple[int, int], ...]  # (before, after) for each axis


# Borders ------------------------------------------------------------------------------------------


class Pad(TensorOp):
    """y = x with a constant around it"""

    def __init__(self, widths: Widths, value: Scalar = 0):
        self.widths = widths
        self.value = value

    def compute(self, a: NDArray) -> NDArray:
        return F.pad(a, self.widths, self.value)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return Crop(self.widths)(out_grad)


class Crop(TensorOp):
    """y = x without its border, as a view: the reverse of Pad"""

    linear = True

    def __init__(self, widths: Widths):
        self.widths = widths

    def compute(self, a: NDArray) -> NDArray:
        inner = zip(a.shape, self.widths, strict=True)
        return getitem(a, tuple(slice(before, n - after) for n, (before, after) in inner))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return Pad(self.widths)(out_grad)


def crop(a: Tensor, widths: Border) -> Tensor:
    """Without a border: what `pad` with the same widths would put around."""
    pairs = _widths("crop", widths, check_tensor("crop", a).ndim)
    for i, (n, pair) in enumerate(zip(a.shape, pairs, strict=True)):
        if sum(pair) > n:
            raise ValueError(f"[crop] cannot take {pair} away from axis {i} of size {n}.")
    return Crop(pairs)(a)


def pad(
    a: Tensor, widths: Border | None = None, mode: str = "constant", value: Scalar | None = None, *,
    pad_width: Border | None = None, constant_values: Scalar | None = None,
    reflect_type: Literal["even"] = "even",
) -> Tensor:  # fmt: skip
    """A border around a tensor.

    widths (or pad_width): a number for all sides, one (before, after) for all axes, or a pair per
    axis. mode: "constant" (`value` or constant_values, one number), "reflect" (mirrored at the edge
    element), "symmetric" (mirrored at the edge), "replicate" or "edge" (the edge element),
    "circular" or "wrap" (from the other end).
    """
    check_tensor("pad", a)
    widths = either("pad", widths=widths, pad_width=pad_width)
    value = either("pad", None, value=value, constant_values=constant_values)
    pairs = _widths("pad", widths, a.ndim)
    if reflect_type != "even":
        raise TypeError(f"[pad] reflect_type={reflect_type!r:.60} is not supported, only 'even'.")
    if mode == "constant":
        value = as_scalar(0 if value is None else value, "pad")
        if isinstance(value, float) and not dtype_of(a.dtype).is_floating:
            raise TypeError(f"[pad] expected a whole number for {a.dtype}, got {value}.")
        F.check_fits("pad", dtype_of(a.dtype), value)
        return Pad(pairs, value)(a)
    if mode not in _BORDERS:
        known = ", ".join(("constant", *_BORDERS))
        raise ValueError(f"[pad] mode must be one of {known}, got {mode!r}.")
    if value is not None:
        raise TypeError(f"[pad] expected no value for mode {mode!r}, got {value!r:.60}.")
    padded = a
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            padded = concatenate(_BORDERS[mode](padded, axis, before, after), axis)
    return clone(a) if padded is a else padded


def _widths(op: str, widths: object, ndim: int) -> Widths:
    """One (before, after) pair per axis."""
    try:
        array = np.asarray(widths)
        pairs = np.broadcast_to(array, (ndim, 2)) if array.ndim < 2 or len(array) == ndim else None
    except ValueError:
        pairs = None
    if pairs is None or pairs.dtype.kind not in "iu" or (pairs < 0).any():
        raise ValueError(
            f"[{op}] expected a width >= 0, a (before, after) pair or {ndim} such pairs, "
            f"got {widths!r}."
        )
    return tuple((before, after) for before, after in pairs.tolist())


def piece(a: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """a[start:stop] along an axis, 0 <= start <= stop <= size."""
    shape = a.shape
    border = [(0, 0)] * len(shape)
    border[axis] = (start, shape[axis] - stop)
    return Crop(tuple(border))(a)


def _reflected(a: Tensor, axis: int, before: int, after: int) -> list[Tensor]:
    n = a.shape[axis]
    _check_border("reflect", max(before, after), n - 1, axis, n)
    left = flip(piece(a, axis, 1, before + 1), axis)
    return [left, a, flip(piece(a, axis, n - 1 - after, n - 1), axis)]


def _mirrored(a: Tensor, axis: int, before: int, after: int) -> list[Tensor]:
    n = a.shape[axis]
    _check_border("symmetric", max(before, after), n, axis, n)
    return [flip(piece(a, axis, 0, before), axis), a, flip(piece(a, axis, n - after, n), axis)]


def _replicated(a: Tensor, axis: int, before: int, after: int) -> list[Tensor]:
    n = a.shape[axis]
    _check_border("replicate", 1, n, axis, n)
    edges = (piece(a, axis, 0, 1), before), (piece(a, axis, n - 1, n), after)
    left, right = (
        broadcast_to(edge, (*a.shape[:axis], width, *a.shape[axis + 1 :])) for edge, width in edges
    )
    return [left, a, right]


def _wrapped(a: Tensor, axis: int, before: int, after: int) -> list[Tensor]:
    n = a.shape[axis]
    _check_border("circular", max(before, after), n, axis, n)
    return [piece(a, axis, n - before, n), a, piece(a, axis, 0, after)]


def _check_border(mode: str, needed: int, available: int, axis: int, size: int) -> None:
    if needed > available:
        raise ValueError(
            f"[pad] mode {mode!r} takes {needed} elements from axis {axis} of size {size}, which "
            f"gives at most {max(available, 0)}."
        )


_BORDERS = {
    "reflect": _reflected, "symmetric": _mirrored, "replicate": _replicated, "edge": _replicated,
    "circular": _wrapped, "wrap": _wrapped,
}  # fmt: skip


# Spacing ------------------------------------------------------------------------------------------


class Dilate(TensorOp):
    """y[(d + 1) i] = x[i], zeros between: size n becomes (d + 1) n on each of the axes"""

    linear = True

    def __init__(self, axes: int | Sequence[int], dilation: int):
        self.axes = axes
        self.dilation = dilation

    def compute(self, a: NDArray) -> NDArray:
        step = self.dilation + 1
        axes = _existing(self.axes, len(a.shape))
        shape = tuple(n * step if i in axes else n for i, n in enumerate(a.shape))
        out = F.full_like(a, 0, shape=shape)
        F.assign(_every(step, axes, out), a)
        return out

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return undilate(out_grad, self.axes, self.dilation)


class UnDilate(TensorOp):
    """y[i] = x[(d + 1) i]: the reverse of Dilate"""

    linear = True

    def __init__(self, axes: int | Sequence[int], dilation: int):
        self.axes = axes
        self.dilation = dilation

    def compute(self, a: NDArray) -> NDArray:
        return _every(self.dilation + 1, _existing(self.axes, len(a.shape)), a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        spaced = dilate(out_grad, self.axes, self.dilation)
        x = node.inputs[0]
        if spaced.shape == x.shape:
            return spaced
        # n was no multiple of d + 1: the zeros after the last element are too many.
        return crop(spaced, [(0, m - n) for n, m in zip(x.shape, spaced.shape, strict=True)])


def _existing(axes: int | Sequence[int], ndim: int) -> set[int]:
    """The axes that are in range, from 0: others are ignored, as in the course."""
    listed = axes if isinstance(axes, Sequence) else (axes,)
    return {i % ndim for i in listed if -ndim <= i < ndim}


def _every(step: int, axes: set[int], a: NDArray) -> NDArray:
    """Every step-th element along axes, as a view."""
    steps = (slice(None, None, step if i in axes else 1) for i in range(len(a.shape)))
    return getitem(a, tuple(steps))


def _check_dilation(op: str, dilation: int) -> int:
    if whole_number(op, "dilation", dilation) < 0:
        raise ValueError(f"[{op}] expected a dilation >= 0, got {dilation}.")
    return dilation


def dilate(a: Tensor, axes: int | Sequence[int], dilation: int) -> Tensor:
    """`dilation` zeros after each element along the axes."""
    listed: Any = one_of("dilate", axes)
    return Dilate(listed, _check_dilation("dilate", dilation))(check_tensor("dilate", a))


def undilate(a: Tensor, axes: int | Sequence[int], dilation: int) -> Tensor:
    """Every (dilation + 1)-th element along the axes: the reverse of dilate."""
    listed: Any = one_of("undilate", axes)
    return UnDilate(listed, _check_dilation("undilate", dilation))(check_tensor("undilate", a))
