"""Tensors put together, taken apart, repeated and spaced out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd import Tensor, TensorOp, TensorTuple, TensorTupleOp
from ...dtype import dtype_of
from ...ndarray import functions as F, layout
from ...ndarray.index.gather import getitem
from ..common import Scalar, axis_or_dim, check_tensor, check_tensors, one_of, whole_number
from ..elementwise import astype
from ..index.indexing import take
from .movement import broadcast_to, clone, flip, reshape

__all__ = [
    "Pad", "Crop", "crop", "pad", "Stack", "stack", "Split", "split", "Concatenate",
    "concatenate", "SplitAt", "array_split", "chunk", "tile", "repeat", "roll", "Dilate",
    "UnDilate", "dilate", "undilate",
]  # fmt: skip

Axes = int | Sequence[int] | None
Widths = tuple[tuple[int, int], ...]  # (before, after) for each axis


# Borders ------------------------------------------------------------------------------------------


class Pad(TensorOp):
    """y = x with a constant around it"""

    def __init__(self, widths: Widths, value: Scalar = 0):
        self.widths = widths
        self.value = value

    def compute(self, a: Any) -> Any:
        return F.pad(a, self.widths, self.value)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return Crop(self.widths)(out_grad)


class Crop(TensorOp):
    """y = x without its border, as a view: the reverse of Pad"""

    linear = True

    def __init__(self, widths: Widths):
        self.widths = widths

    def compute(self, a: Any) -> Any:
        inner = zip(a.shape, self.widths, strict=True)
        return getitem(a, tuple(slice(before, n - after) for n, (before, after) in inner))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return Pad(self.widths)(out_grad)


def crop(a: Tensor, widths: Any) -> Tensor:
    """Without a border: what `pad` with the same widths would put around."""
    pairs = _widths("crop", widths, check_tensor("crop", a).ndim)
    for i, (n, pair) in enumerate(zip(a.shape, pairs, strict=True)):
        if sum(pair) > n:
            raise ValueError(f"[crop] cannot take {pair} away from axis {i} of size {n}.")
    return Crop(pairs)(a)


def pad(a: Tensor, widths: Any, mode: str = "constant", value: Scalar = 0) -> Tensor:
    """A border around a tensor.

    widths: a number for all sides, one (before, after) for all axes, or a pair per axis. mode:
    "constant" (`value`), "reflect" (mirrored at the edge element), "replicate" (the edge element)
    or "circular" (from the other end).
    """
    pairs = _widths("pad", widths, check_tensor("pad", a).ndim)
    if mode == "constant":
        if isinstance(value, float) and not dtype_of(a.dtype).is_floating:
            raise TypeError(f"[pad] expected a whole number for {a.dtype}, got {value}.")
        F.check_fits("pad", dtype_of(a.dtype), value)
        return Pad(pairs, value)(a)
    if mode not in _BORDERS:
        known = ", ".join(("constant", *_BORDERS))
        raise ValueError(f"[pad] mode must be one of {known}, got {mode!r}.")
    padded = a
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            padded = concatenate(_BORDERS[mode](padded, axis, before, after), axis)
    return clone(a) if padded is a else padded


def _widths(op: str, widths: Any, ndim: int) -> Widths:
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


_BORDERS = {"reflect": _reflected, "replicate": _replicated, "circular": _wrapped}


# Joining and splitting ----------------------------------------------------------------------------


class Stack(TensorOp):
    """y[..., i, ...] = x_i, with i on a new axis. Takes tensors, or one TensorTuple of them."""

    linear = True

    def __init__(self, axis: int = 0):
        self.axis = axis

    def compute(self, *arrays: Any) -> Any:
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

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        parts = split(out_grad, self.axis)
        if isinstance(node.inputs[0], TensorTuple):
            return parts
        return _cast_each(parts.tuple(), node.inputs)


def _cast_each(gradients: Sequence[Tensor], sources: Sequence[Any]) -> Any:
    return tuple(astype(g, x.dtype) for g, x in zip(gradients, sources, strict=True))


def stack(args: Sequence[Tensor] | TensorTuple, axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Tensors of one shape along a new axis."""
    axis = axis_or_dim("stack", axis, dim, 0)
    if isinstance(args, TensorTuple):
        return Stack(axis)(args)
    return Stack(axis)(*check_tensors("stack", args))


class Split(TensorTupleOp):
    """y_i = x[..., i, ...]: the reverse of Stack. The axis goes away."""

    linear = True

    def __init__(self, axis: int):
        self.axis = axis

    def compute(self, a: Any) -> Any:
        axis = layout.normalize_axis(self.axis, len(a.shape), "split")
        before = (slice(None),) * axis
        return tuple(getitem(a, (*before, i)) for i in range(a.shape[axis]))

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Any:
        x: Any = node.inputs[0]
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

    def compute(self, *arrays: Any) -> Any:
        return F.concatenate(arrays, self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        inputs: Any = node.inputs
        sizes = [x.shape[self.axis] for x in inputs]
        parts = array_split(out_grad, list(itertools.accumulate(sizes[:-1])), self.axis)
        return _cast_each(parts, node.inputs)


def concatenate(args: Sequence[Tensor], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Tensors one after the other along an existing axis."""
    axis = axis_or_dim("concatenate", axis, dim, 0)
    return Concatenate(axis)(*check_tensors("concatenate", args))


class SplitAt(TensorTupleOp):
    """y_i = x[bounds_i : bounds_{i+1}] along an axis: the reverse of Concatenate"""

    linear = True

    def __init__(self, bounds: tuple[int, ...], axis: int):
        self.bounds = bounds
        self.axis = axis

    def compute(self, a: Any) -> Any:
        before = (slice(None),) * self.axis
        pairs = itertools.pairwise(self.bounds)
        return tuple(getitem(a, (*before, slice(start, stop))) for start, stop in pairs)

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Any:
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


def tile(a: Tensor, *reps: Any) -> Tensor:
    """The whole tensor repeated along each axis, as NumPy's tile."""
    counts = layout.normalize_shape(reps[0] if len(reps) == 1 else reps, "tile")
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
    axis = axis_or_dim("repeat", axis, dim, None)
    check_tensor("repeat", a)
    if axis is None:
        a, axis = reshape(a, a.size), 0
    axis = layout.normalize_axis(axis, a.ndim, "repeat")
    before, n, after = a.shape[:axis], a.shape[axis], a.shape[axis + 1 :]
    if isinstance(repeats, (Sequence, np.ndarray, Tensor)):
        return take(a, _repeated(n, repeats), axis)
    count = whole_number("repeat", "repeats", repeats)
    if count < 0:
        raise ValueError(f"[repeat] expected a count >= 0, got {count}.")
    spread = broadcast_to(reshape(a, (*before, n, 1, *after)), (*before, n, count, *after))
    return reshape(clone(spread), (*before, n * count, *after))


def _repeated(n: int, repeats: Any) -> np.ndarray[Any, Any]:
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

    def compute(self, a: Any) -> Any:
        front, cut = (slice(None),) * self.axis, a.shape[self.axis] - self.shift
        parts = [getitem(a, (*front, part)) for part in (slice(cut, None), slice(None, cut))]
        return F.concatenate(parts, self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return Roll(self.axis, node.shape[self.axis] - self.shift)(out_grad)


def roll(
    a: Tensor,
    shifts: int | Sequence[int],
    axes: Axes = None,
    *,
    axis: Axes = None,
    dim: Axes = None,
) -> Tensor:
    """Shifted along axes (None: flattened); what leaves at one end comes in at the other."""
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
        shift = whole_number("roll", "shifts", step) % n if n else 0
        moved = Roll(i, shift)(moved) if shift else moved
    return clone(a) if moved is a else moved


# Spacing ------------------------------------------------------------------------------------------


class Dilate(TensorOp):
    """y[(d + 1) i] = x[i], zeros between: size n becomes (d + 1) n on each of the axes"""

    linear = True

    def __init__(self, axes: int | Sequence[int], dilation: int):
        self.axes = axes
        self.dilation = dilation

    def compute(self, a: Any) -> Any:
        step = self.dilation + 1
        axes = _existing(self.axes, len(a.shape))
        shape = tuple(n * step if i in axes else n for i, n in enumerate(a.shape))
        out = F.full_like(a, 0, shape=shape)
        F.assign(_every(step, axes, out), a)
        return out

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return undilate(out_grad, self.axes, self.dilation)


class UnDilate(TensorOp):
    """y[i] = x[(d + 1) i]: the reverse of Dilate"""

    linear = True

    def __init__(self, axes: int | Sequence[int], dilation: int):
        self.axes = axes
        self.dilation = dilation

    def compute(self, a: Any) -> Any:
        return _every(self.dilation + 1, _existing(self.axes, len(a.shape)), a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        spaced = dilate(out_grad, self.axes, self.dilation)
        x: Any = node.inputs[0]
        if spaced.shape == x.shape:
            return spaced
        # n was no multiple of d + 1: the zeros after the last element are too many.
        return crop(spaced, [(0, m - n) for n, m in zip(x.shape, spaced.shape, strict=True)])


def _existing(axes: int | Sequence[int], ndim: int) -> set[int]:
    """The axes that are in range, from 0: others are ignored, as in the course."""
    listed = axes if isinstance(axes, Sequence) else (axes,)
    return {i % ndim for i in listed if -ndim <= i < ndim}


def _every(step: int, axes: set[int], a: Any) -> Any:
    """Every step-th element along axes, as a view."""
    steps = (slice(None, None, step if i in axes else 1) for i in range(len(a.shape)))
    return getitem(a, tuple(steps))


def _check_dilation(op: str, dilation: int) -> int:
    if whole_number(op, "dilation", dilation) < 0:
        raise ValueError(f"[{op}] expected a dilation >= 0, got {dilation}.")
    return dilation


def dilate(a: Tensor, axes: int | Sequence[int], dilation: int) -> Tensor:
    """`dilation` zeros after each element along the axes."""
    return Dilate(one_of("dilate", axes), _check_dilation("dilate", dilation))(
        check_tensor("dilate", a)
    )


def undilate(a: Tensor, axes: int | Sequence[int], dilation: int) -> Tensor:
    """Every (dilation + 1)-th element along the axes: the reverse of dilate."""
    return UnDilate(one_of("undilate", axes), _check_dilation("undilate", dilation))(
        check_tensor("undilate", a)
    )
