"""Tensors put together, taken apart and repeated."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import numpy as np

from ...autograd import Tensor, TensorOp, TensorTuple, TensorTupleOp
from ...dtype import dtype_of
from ...ndarray import functions as F, layout
from ...ndarray.index.gather import getitem
from ..common import (
    axis_or_dim,
    check_tensor,
    check_tensors,
    either,
    flat_or_along,
    numpy_options,
    one_of,
    whole_number,
)
from ..elementwise import astype, in_dtype
from ..index.indexing import take
from .movement import broadcast_to, clone, reshape, sequence

if TYPE_CHECKING:
    from ...types import Arrays, Axes, DTypeLike, Gradients, NDArray, NumpyArray, Sizes

__all__ = [
    "Stack", "stack", "Split", "split", "Concatenate", "concatenate", "SplitAt", "array_split",
    "chunk", "tile", "repeat", "roll",
]  # fmt: skip


# Joining and splitting ----------------------------------------------------------------------------


class Stack(TensorOp):
    """y[..., i, ...] = x_i, with i on a new axis. Takes tensors, or one TensorTuple of them."""

    linear = True

    def __init__(self, axis: int = 0):
        self.axis = axis

    def compute(self, *arrays: NDArray) -> NDArray:
        if isinstance(arrays[0], tuple):
            (arrays,) = arrays
        shape = arrays[0].shape
        for other in arrays:
            if other.shape != shape:
                raise ValueError(
                    f"[stack] expected equal shapes, got {shape} and {other.shape}; "
                    "concatenate joins along an existing axis."
                )
        axis = layout.normalize_axis(self.axis, len(shape) + 1, "stack")
        rows = [F.reshape(a, (*shape[:axis], 1, *shape[axis:])) for a in arrays]
        return F.concatenate(rows, axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        parts = split(out_grad, self.axis)
        if isinstance(node.inputs[0], TensorTuple):
            return parts
        return _cast_each(parts.tuple(), node.inputs)


def _cast_each(gradients: Sequence[Tensor], sources: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(astype(g, x.dtype) for g, x in zip(gradients, sources, strict=True))


class Joined(TypedDict, total=False):
    """NumPy's keywords of functions that join, of which dtype is the type of the result."""

    dtype: DTypeLike | None
    out: None
    casting: Literal["same_kind"]


def _parts(op: str, args: object, numpy: Mapping[str, object]) -> list[Tensor]:
    tensors = check_tensors(op, args)
    dtype = numpy_options(op, numpy, "dtype").get("dtype") if numpy else None
    return (
        tensors
        if dtype is None
        else [check_tensor(op, in_dtype(op, x, dtype_of(dtype))) for x in tensors]
    )


def stack(
    args: Sequence[Tensor] | TensorTuple, axis: int = 0, *, dim: int | None = None,
    **numpy: Unpack[Joined],
) -> Tensor:  # fmt: skip
    """Tensors of one shape along a new axis; in a dtype, if one is given."""
    axis = axis_or_dim("stack", axis, dim, 0)
    if isinstance(args, TensorTuple) and not numpy:
        return Stack(axis)(args)
    parts = args.tuple() if isinstance(args, TensorTuple) else args
    return Stack(axis)(*_parts("stack", parts, numpy))


class Split(TensorTupleOp):
    """y_i = x[..., i, ...]: the reverse of Stack. The axis goes away."""

    linear = True

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, a: NDArray) -> Arrays:
        axis = layout.normalize_axis(self.axis, len(a.shape), "split")
        before = (slice(None),) * axis
        return tuple(getitem(a, (*before, i)) for i in range(a.shape[axis]))

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Tensor:
        x = node.inputs[0]
        return stack(out_grad.tuple(), layout.normalize_axis(self.axis, x.ndim, "split"))


def split(a: Tensor, axis: int | Sequence[int], dim: int | None = None) -> TensorTuple:
    """One tensor for each position on the axis, without that axis: the reverse of stack.

    With a `dim`, PyTorch's split: pieces of one size (the last may be smaller), or of the sizes
    that are given first."""
    x = check_tensor("split", a)
    if dim is None:
        if isinstance(axis, Sequence):
            raise TypeError(f"[split] expected an axis, got {axis}; give sizes with a dim.")
        if not -x.ndim <= (at := whole_number("split", "axis", axis)) < x.ndim:
            raise ValueError(
                f"[split] axis {at} is out of range for an array with {x.ndim} axes; for pieces of "
                f"size {at}, give a dim: split(x, {at}, dim=0)."
            )
        return Split(at)(x)
    along = layout.normalize_axis(dim, x.ndim, "split")
    n = x.shape[along]
    if isinstance(axis, (Sequence, np.ndarray)):
        sizes = [whole_number("split", "sizes", size) for size in axis]
    else:
        size = whole_number("split", "size", axis)
        if size < 1:
            raise ValueError(f"[split] expected pieces of at least 1, got {size}.")
        sizes = [min(size, n - start) for start in range(0, n, size)] or [0]
    bounds = tuple(itertools.accumulate(sizes, initial=0))
    if not sizes or min(sizes) < 0 or bounds[-1] != n:
        raise ValueError(
            f"[split] expected sizes that sum to {n} (axis {along} of {x.shape}), got {sizes}."
        )
    return SplitAt(bounds, along)(x)


class Concatenate(TensorOp):
    """y = x_0, x_1, ... one after the other along an axis"""

    linear = True

    def __init__(self, axis: int = 0):
        self.axis = axis

    def compute(self, *arrays: NDArray) -> NDArray:
        return F.concatenate(arrays, self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Gradients:
        sizes = [x.shape[self.axis] for x in node.inputs]
        parts = array_split(out_grad, list(itertools.accumulate(sizes[:-1])), self.axis)
        return _cast_each(parts, node.inputs)


def concatenate(
    args: Sequence[Tensor], axis: int | None = 0, *, dim: int | None = None,
    **numpy: Unpack[Joined],
) -> Tensor:  # fmt: skip
    """Tensors one after the other along an existing axis (None: flattened); in a dtype, if one is
    given."""
    axis = axis_or_dim("concatenate", axis, dim, 0)
    parts = _parts("concatenate", args, numpy)
    if axis is None:
        axis, parts = 0, [reshape(x, x.size) for x in parts]
    return Concatenate(axis)(*parts)


class SplitAt(TensorTupleOp):
    """y_i = x[bounds_i : bounds_{i+1}] along an axis: the reverse of Concatenate"""

    linear = True

    def __init__(self, bounds: tuple[int, ...], axis: int):
        self.bounds = bounds
        self.axis = axis

    def compute(self, a: NDArray) -> Arrays:
        before = (slice(None),) * self.axis
        pairs = itertools.pairwise(self.bounds)
        return tuple(getitem(a, (*before, slice(start, stop))) for start, stop in pairs)

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Tensor:
        return concatenate(out_grad.tuple(), self.axis)


def array_split(
    a: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0, *, dim: int | None = None
) -> tuple[Tensor, ...]:
    """NumPy's array_split: about equal sections, or cut at the given positions. Views."""
    shape = check_tensor("array_split", a).shape
    axis = layout.normalize_axis(
        axis_or_dim("array_split", axis, dim, 0), len(shape), "array_split"
    )
    size = shape[axis]
    if not isinstance(indices_or_sections, (Sequence, np.ndarray)):
        sections = whole_number("array_split", "sections", indices_or_sections)
        if sections < 1:
            raise ValueError(f"[array_split] expected at least one section, got {sections}.")
        small, larger = divmod(size, sections)
        sizes = [small + 1] * larger + [small] * (sections - larger)
        bounds = tuple(itertools.accumulate(sizes, initial=0))
        return SplitAt(bounds, axis)(a).tuple()
    cuts = [whole_number("array_split", "positions", i) for i in indices_or_sections]
    cuts = [slice(0, i).indices(size)[1] for i in cuts]
    bounds = (0, *cuts, size)
    if any(start > stop for start, stop in itertools.pairwise(bounds)):
        raise ValueError(
            f"[array_split] expected increasing positions, got {list(indices_or_sections)}."
        )
    return SplitAt(bounds, axis)(a).tuple()


def chunk(a: Tensor, chunks: int, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """PyTorch's chunk: sections of one size, the last one possibly shorter; as many as asked for if
    all are empty. Views."""
    if whole_number("chunk", "chunks", chunks) < 1:
        raise ValueError(f"[chunk] expected at least one chunk, got {chunks}.")
    axis = axis_or_dim("chunk", axis, dim, 0)
    shape = check_tensor("chunk", a).shape
    size = shape[layout.normalize_axis(axis, len(shape), "chunk")]
    if size == 0:
        return array_split(a, [0] * (chunks - 1), axis)
    length = -(-size // chunks)
    return array_split(a, range(length, size, length), axis)


# Repeating ----------------------------------------------------------------------------------------


def tile(a: Tensor, *counts: Sizes, reps: Sizes | None = None) -> Tensor:
    """The whole tensor repeated along each axis, as NumPy's tile: tile(a, (2, 3)), tile(a, 2, 3) or
    with reps."""
    counts = layout.normalize_shape(sequence("tile", counts, reps), "tile")
    layout.check_sizes(counts, "tile")
    ndim = max(len(counts), check_tensor("tile", a).ndim)
    shape = (1,) * (ndim - a.ndim) + a.shape
    counts = (1,) * (ndim - len(counts)) + counts
    # Each size n becomes (1, n), is stretched to (count, n), and merges to count * n.
    spread = [m for n in shape for m in (1, n)]
    stretched = [m for count, n in zip(counts, shape, strict=True) for m in (count, n)]
    merged = [count * n for count, n in zip(counts, shape, strict=True)]
    return reshape(clone(broadcast_to(reshape(a, spread), stretched)), merged)


def repeat(
    a: Tensor,
    repeats: int | Sequence[int] | Tensor,
    axis: int | None = None,
    *more: int,
    dim: int | None = None,
) -> Tensor:
    """Each element repeated along an axis (None: of the flattened tensor), as NumPy's repeat."""
    if more:
        given = ", ".join(map(str, (repeats, axis, *more)))
        raise TypeError(
            f"[repeat] expected a count and an axis, as in NumPy, got {given}; tile({given}) "
            "repeats the whole tensor along each axis."
        )
    a, axis = flat_or_along("repeat", a, axis_or_dim("repeat", axis, dim, None))
    before, n, after = a.shape[:axis], a.shape[axis], a.shape[axis + 1 :]
    if isinstance(repeats, (Sequence, np.ndarray, Tensor)):
        return take(a, _repeated(n, repeats), axis)
    count = whole_number("repeat", "repeats", repeats)
    if count < 0:
        raise ValueError(f"[repeat] expected a count >= 0, got {count}.")
    spread = broadcast_to(reshape(a, (*before, n, 1, *after)), (*before, n, count, *after))
    return reshape(clone(spread), (*before, n * count, *after))


def _repeated(n: int, repeats: object) -> NumpyArray:
    """The positions 0 .. n-1, each as often as its count says."""
    counts = repeats.numpy() if isinstance(repeats, Tensor) else np.asarray(repeats)
    is_whole = counts.dtype.kind in "iu" or counts.size == 0  # NumPy reads [] as floats
    if not is_whole or counts.ndim > 1 or counts.size not in (1, n) or (counts < 0).any():
        raise ValueError(
            f"[repeat] expected one whole number >= 0 or {n} of them, got {repeats!r:.60}."
        )
    return np.repeat(np.arange(n), counts.astype(np.int64))


class Roll(TensorOp):
    """y_i = x_(i - s mod n) along an axis; its adjoint rolls back"""

    linear = True

    def __init__(self, axis: int, shift: int):
        self.axis = axis
        self.shift = shift  # 0 < shift < n

    def compute(self, a: NDArray) -> NDArray:
        front, cut = (slice(None),) * self.axis, a.shape[self.axis] - self.shift
        parts = [getitem(a, (*front, part)) for part in (slice(cut, None), slice(None, cut))]
        return F.concatenate(parts, self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return Roll(self.axis, node.shape[self.axis] - self.shift)(out_grad)


def roll(
    a: Tensor,
    shifts: int | Sequence[int] | None = None,
    axes: Axes = None,
    *,
    axis: Axes = None,
    dim: Axes = None,
    shift: int | Sequence[int] | None = None,
) -> Tensor:
    """Shifted by shifts (or shift) along axes (None: flattened); what leaves at one end comes in at
    the other."""
    check_tensor("roll", a)
    shifts = either("roll", shifts=shifts, shift=shift)
    given = one_of("roll", axes, axis, dim)
    shape = check_tensor("roll", a).shape
    if given is None:
        flat = roll(reshape(a, a.size), shifts, 0)
        return reshape(flat, shape)
    rolled = tuple(given) if isinstance(given, Sequence) else (given,)
    steps = tuple(shifts) if isinstance(shifts, Sequence) else (shifts,) * len(rolled)
    if len(steps) != len(rolled):
        raise ValueError(f"[roll] expected one shift per axis, got {steps} for axes {rolled}.")
    moved = a
    for i, step in zip(rolled, steps, strict=True):
        i = layout.normalize_axis(i, len(shape), "roll")
        n = shape[i]
        by = whole_number("roll", "shifts", step) % n if n else 0
        moved = Roll(i, by)(moved) if by else moved
    return clone(a) if moved is a else moved
