"""Arrays in other shapes and places: the part of the array interface that computes nothing.

Views wherever strides can show the result, copies otherwise. Operators call these by way of
`functions.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import _native
from ..backend import BackendDevice
from ..dtype import promote
from . import layout
from .array import NDArray, Scalar, empty_in_order, make_view
from .interop.numpy_mode import array_function

if TYPE_CHECKING:
    from ..types import Axes, Sizes


def same_device(op: str, *arrays: NDArray) -> BackendDevice:
    """The one device of the arrays."""
    device = arrays[0].device
    for other in arrays[1:]:
        if other.device is not device and other.device != device:
            raise ValueError(
                f"[{op}] expected arrays on one device, got {device} and {other.device}; "
                "move one with .to(device)."
            )
    return device


@array_function
def reshape(a: NDArray, shape: Sizes) -> NDArray:
    """Another shape: a view where the strides allow it, else a copy."""
    if (view := _native.view_reshaped(a, shape)) is not None:
        return view
    new_shape = layout.infer_reshape(a.shape, layout.normalize_shape(shape, "reshape"))
    strides = layout.reshape_strides(a.shape, a.strides, new_shape)
    if strides is None:
        a, strides = a.copy(), layout.compact_strides(new_shape)
    return make_view(new_shape, strides, a.offset, a.dtype, a.device, a._handle)


@array_function
def permute(a: NDArray, axes: Sequence[int]) -> NDArray:
    """The axes in another order, as a view."""
    return a.permute(axes)


@array_function
def exchange(a: NDArray, axis: int, other: int) -> NDArray:
    """Two axes in each other's place, as a view."""
    if layout.names_element(axis, a.ndim) and layout.names_element(other, a.ndim):
        return a.permute(())
    shape, strides = list(a.shape), list(a.strides)
    i = layout.normalize_axis(axis, len(shape), "transpose")
    j = layout.normalize_axis(other, len(shape), "transpose")
    shape[i], shape[j] = shape[j], shape[i]
    strides[i], strides[j] = strides[j], strides[i]
    return make_view(tuple(shape), tuple(strides), a.offset, a.dtype, a.device, a._handle)


@array_function
def broadcast_to(a: NDArray, shape: Sequence[int]) -> NDArray:
    """Stretched to a shape, as a view."""
    if (view := _native.view_stretched(a, shape)) is not None:
        return view
    strides = layout.broadcast_strides(a.shape, a.strides, tuple(shape), "broadcast_to")
    return make_view(tuple(shape), strides, a.offset, a.dtype, a.device, a._handle)


@array_function
def squeeze(a: NDArray, axes: Sequence[int]) -> NDArray:
    """Without the given axes of size 1, as a view."""
    kept = [i for i in range(a.ndim) if i not in axes]
    shape, strides = (layout.permuted(v, kept) for v in (a.shape, a.strides))
    return make_view(shape, strides, a.offset, a.dtype, a.device, a._handle)


@array_function
def flip(a: NDArray, axes: Axes) -> NDArray:
    """Reversed along axes, as a view."""
    flipped = layout.normalize_axes(axes, a.ndim, "flip")
    strides = tuple(-s if i in flipped else s for i, s in enumerate(a.strides))
    last = sum((a.shape[i] - 1) * a.strides[i] for i in flipped if a.shape[i])
    return make_view(a.shape, strides, a.offset + last, a.dtype, a.device, a._handle)


@array_function
def diagonal(a: NDArray, k: int, axis1: int, axis2: int) -> NDArray:
    """The k-th diagonal of two axes as a last axis, as a view."""
    (rows, columns), (down, right) = ((v[axis1], v[axis2]) for v in (a.shape, a.strides))
    length = max(0, min(rows + min(k, 0), columns - max(k, 0)))
    start = (-k * down if k < 0 else k * right) if length else 0
    kept = [i for i in range(a.ndim) if i not in (axis1, axis2)]
    shape = (*layout.permuted(a.shape, kept), length)
    strides = (*layout.permuted(a.strides, kept), down + right)
    return make_view(shape, strides, a.offset + start, a.dtype, a.device, a._handle)


# Joining ----------------------------------------------------------------------------------------


@array_function
def concatenate(arrays: Sequence[NDArray], axis: int) -> NDArray:
    """Arrays one after the other along an existing axis, in the memory order of the first."""
    first = arrays[0]
    axis = layout.normalize_axis(axis, first.ndim, "concatenate")
    device = same_device("concatenate", *arrays)
    dtype, total = first.dtype, first.shape[axis]
    before, after = first.shape[:axis], first.shape[axis + 1 :]
    for other in arrays[1:]:
        shape = other.shape
        if len(shape) != first.ndim or shape[:axis] != before or shape[axis + 1 :] != after:
            raise ValueError(
                f"[concatenate] expected shapes that differ on axis {axis} only, got {first.shape} "
                f"and {shape}."
            )
        dtype = dtype if dtype is other.dtype else promote(dtype, other.dtype)
        total += shape[axis]
    out = empty_in_order((*before, total, *after), dtype, first)
    start = out.offset
    for a in arrays:
        part = make_view(a.shape, out.strides, start, dtype, device, out._handle)
        device.mod.copy(part, a)
        start += a.shape[axis] * out.strides[axis]
    return out


@array_function
def pad(a: NDArray, widths: Sequence[tuple[int, int]], value: Scalar = 0) -> NDArray:
    """A constant around: one (before, after) pair per axis. In the memory order of the array."""
    shape = tuple(n + before + after for n, (before, after) in zip(a.shape, widths, strict=True))
    out = empty_in_order(shape, a.dtype, a)
    a.device.mod.fill(out, value)
    start = sum(s * before for s, (before, _) in zip(out.strides, widths, strict=True))
    inner = make_view(a.shape, out.strides, start, a.dtype, a.device, out._handle)
    a.device.mod.copy(inner, a)
    return out
