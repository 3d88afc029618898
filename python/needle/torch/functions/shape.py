"""Other shapes and orders of the same elements: views, wherever strides can express them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...dtype import DType
from ...ndarray import layout
from ...ops.shape import concat as J, movement as M
from ...ops.shape.movement import Diagonal, Flip, OnDiagonal, Triangle
from ..core.dtypes import dtype_in_engine as kind, in_engine
from .common import axes_of, axis_of, cast, check, fail, sizes_of, takes_out


def inferred(op: str, sizes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Sizes with -1 replaced by what remains."""
    if sizes.count(-1) > 1:
        raise fail(op, "only one dimension can be inferred")
    rest = math.prod(n for n in sizes if n != -1)
    if -1 in sizes:
        if rest == 0 or count % rest:
            raise fail(op, f"shape '{list(sizes)}' is invalid for input of size {count}")
        return tuple(count // rest if n == -1 else n for n in sizes)
    if rest != count or any(n < 0 for n in sizes):
        raise fail(op, f"shape '{list(sizes)}' is invalid for input of size {count}")
    return sizes


def reshape(input: Any, *shape: Any, **named: Any) -> Any:
    """The same elements in another shape; a copy, if it must be."""
    x = check("reshape", input)
    given = sizes_of(shape or (named["shape"],))
    return M.Reshape(inferred("reshape", given, x.cached_data.size))(x)


def view(input: Any, *shape: Any) -> Any:
    """The same memory in another shape, or as another dtype."""
    x = check("view", input)
    if len(shape) == 1 and isinstance(shape[0], DType):
        return view_as_dtype(x, in_engine(shape[0]))
    given = inferred("view", sizes_of(shape), x.cached_data.size)
    result = M.Reshape(given)(x)
    data = x.cached_data
    if result.cached_data._handle is not data._handle and data.size:
        raise fail(
            "view",
            "view size is not compatible with input tensor's size and stride (at least "
            "one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
        )
    return result


def view_as_dtype(x: Any, dtype: DType) -> Any:
    """The bytes as elements of another type: a copy."""
    from ...ndarray.array import from_numpy
    from ..core.tensor import wrap

    if kind(x) is dtype:
        return x
    if "bfloat16" in (kind(x), dtype):
        raise NotImplementedError("view: bytes of bfloat16 are not to be seen as another dtype.")
    array = x.realize_cached_data().numpy().view(dtype.storage)
    return wrap(from_numpy(array, dtype, x.cached_data.device))


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The axes from start_dim to end_dim (both included) as one."""
    x = check("flatten", input)
    shape = x.shape
    if not shape:
        return reshape(x, 1)
    start, end = axis_of("flatten", start_dim, x.ndim), axis_of("flatten", end_dim, x.ndim)
    if start > end:
        raise fail("flatten", "flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end:
        return x
    return reshape(x, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def ravel(input: Any) -> Any:
    """All axes as one."""
    return reshape(input, -1) if input.cached_data.size else reshape(input, 0)


def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    """One axis as several."""
    x = check("unflatten", input)
    axis, shape = axis_of("unflatten", dim, x.ndim), x.shape
    parts = inferred("unflatten", sizes_of((sizes,)), shape[axis])
    return reshape(x, (*shape[:axis], *parts, *shape[axis + 1 :]))


def squeeze(input: Any, dim: Any = None) -> Any:
    """Without axes of size 1: all, or those that are named and have it."""
    x = check("squeeze", input)
    shape = x.shape
    axes = range(x.ndim) if dim is None else () if dim == () else axes_of("squeeze", dim, x.ndim)
    gone = {i for i in axes if shape[i] == 1}
    return M.Reshape(tuple(n for i, n in enumerate(shape) if i not in gone))(x)


def unsqueeze(input: Any, dim: int) -> Any:
    """With a new axis of size 1."""
    x = check("unsqueeze", input)
    shape = list(x.shape)
    shape.insert(axis_of("unsqueeze", dim, x.ndim + 1), 1)
    return M.Reshape(tuple(shape))(x)


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two axes exchanged."""
    x = check("transpose", input)
    axes = axis_of("transpose", dim0, x.ndim), axis_of("transpose", dim1, x.ndim)
    return M.Transpose(axes)(x) if x.ndim else M.Reshape(())(x)


swapaxes = swapdims = transpose


def permute(input: Any, *dims: Any, **named: Any) -> Any:
    """All axes in another order."""
    x = check("permute", input)
    given = sizes_of(dims or (named["dims"],))
    if len(given) != x.ndim:
        raise fail(
            "permute",
            "permute(sparse_coo): number of dimensions in the tensor input does not "
            f"match the length of the desired ordering of dimensions i.e. input.dim() = {x.ndim} "
            f"is not equal to len(dims) = {len(given)}",
        )
    order = tuple(axis_of("permute", d, x.ndim) for d in given)
    if len(set(order)) != len(order):
        raise fail("permute", "permute(): duplicate dims are not allowed.")
    return M.Permute(order)(x)


def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other positions."""
    x = check("movedim", input)
    pair = [s if isinstance(s, Sequence) else (s,) for s in (source, destination)]
    start, end = ([axis_of("movedim", i, x.ndim) for i in axes] for axes in pair)
    if len(start) != len(end) or len({*start}) < len(start) or len({*end}) < len(end):
        raise fail("movedim", f"repeated or missing dim in {source} or {destination}")
    order = [i for i in range(x.ndim) if i not in start]
    for where, axis in sorted(zip(end, start, strict=True)):
        order.insert(where, axis)
    return permute(x, tuple(order) if x.ndim else ())


moveaxis = movedim


def t(input: Any) -> Any:
    """The transpose of a matrix; vectors stay."""
    x = check("t", input)
    if x.ndim > 2:
        raise fail("t", f"t() expects a tensor with <= 2 dimensions, but self is {x.ndim}D")
    return transpose(x, 0, 1) if x.ndim == 2 else x


def adjoint(input: Any) -> Any:
    """The last two axes exchanged."""
    return transpose(input, -2, -1)


def reversed_axes(input: Any) -> Any:
    """All axes in reverse order."""
    return permute(input, tuple(reversed(range(input.ndim))))


def expand(input: Any, *size: Any, implicit: bool = False) -> Any:
    """Axes of size 1 stretched; -1 keeps a size."""
    x = check("expand", input)
    wanted = sizes_of(size)
    new = len(wanted) - x.ndim
    if new < 0:
        raise fail(
            "expand",
            f"expand({list(x.shape)}, size={list(wanted)}): the number of sizes provided "
            f"({len(wanted)}) must be greater or equal to the number of dimensions in the tensor "
            f"({x.ndim})",
        )
    shape = [x.shape[i - new] if n == -1 and i >= new else n for i, n in enumerate(wanted)]
    for n, m in zip(x.shape, shape[new:], strict=True):
        if n not in (1, m):
            raise fail(
                "expand",
                f"The expanded size of the tensor ({m}) must match the existing size "
                f"({n}). Target sizes: {list(wanted)}. Tensor sizes: {list(x.shape)}",
            )
    if any(n < 0 for n in shape):
        raise fail("expand", f"sizes must not be negative: {list(wanted)}")
    return M.BroadcastTo(tuple(shape))(x)


def broadcast_to(input: Any, size: Any) -> Any:
    """Stretched to a shape."""
    return expand(input, size)


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that all broadcast to."""
    from ..core.device import Size

    each = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    try:
        return Size(layout.broadcast_shapes("broadcast_shapes", *each))
    except ValueError as error:
        raise RuntimeError(str(error)) from None


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """All of them stretched to their common shape."""
    given = tensors[0] if len(tensors) == 1 and not hasattr(tensors[0], "cached_data") else tensors
    shape = broadcast_shapes(*(x.shape for x in given))
    return tuple([expand(x, shape) for x in given])


def repeat(input: Any, *repeats: Any) -> Any:
    """The whole tensor so many times along each axis."""
    x = check("repeat", input)
    counts = sizes_of(repeats)
    if len(counts) < x.ndim:
        raise fail(
            "repeat",
            "Number of dimensions of repeat dims can not be smaller than number of "
            "dimensions of tensor",
        )
    if any(n < 0 for n in counts):
        raise fail("repeat", f"Trying to create tensor with negative dimension: {counts}")
    return J.tile(x, counts) if counts else x.clone()


def tile(input: Any, *dims: Any) -> Any:
    """The whole tensor so many times along its last axes."""
    counts = sizes_of(dims)
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element so many times, along an axis."""
    from ..functions.creation import arange

    if repeats is None:
        return repeat_interleave(arange(input.shape[0]), input, 0)
    x = check("repeat_interleave", input)
    if dim is None:
        x, dim = ravel(x), 0
    if hasattr(repeats, "cached_data"):
        counts = repeats.realize_cached_data().numpy()
        if counts.ndim > 1 or counts.size not in (1, x.shape[dim]) or (counts < 0).any():
            raise fail("repeat_interleave", "repeats must have the same size as input along dim")
        repeats = int(counts.reshape(-1)[0]) if counts.size == 1 else counts
    elif repeats < 0:
        raise fail("repeat_interleave", "repeats has to be non-negative")
    return J.repeat(x, repeats, axis_of("repeat_interleave", dim, x.ndim))


def flip(input: Any, *dims: Any, **named: Any) -> Any:
    """Reversed along axes: a copy."""
    x = check("flip", input)
    dims = dims or (named["dims"],)
    axes = axes_of("flip", sizes_of(dims) or [], x.ndim) if dims and dims[0] != () else ()
    return Flip(axes)(x).clone() if axes else x.clone()


def fliplr(input: Any) -> Any:
    """Reversed along the second axis."""
    if input.ndim < 2:
        raise fail("fliplr", "Input must be >= 2-d.")
    return flip(input, 1)


def flipud(input: Any) -> Any:
    """Reversed along the first axis."""
    if input.ndim < 1:
        raise fail("flipud", "Input must be >= 1-d.")
    return flip(input, 0)


def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Shifted along axes; what leaves at one end comes in at the other."""
    x = check("roll", input)
    if dims in (None, ()) and x.ndim == 0:
        return x.clone()
    return J.roll(x, shifts, None if dims == () else dims)


def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Turned by k right angles from the first axis to the second."""
    a, b = dims
    turns = k % 4
    if turns == 2:
        return flip(input, (a, b))
    if turns == 0:
        return input.clone()
    turned = transpose(flip(input, b), a, b) if turns == 1 else flip(transpose(input, a, b), b)
    return turned


# Diagonals and triangles --------------------------------------------------------------------------


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A diagonal of two axes, as the last axis of a view."""
    x = check("diagonal", input)
    first, second = axis_of("diagonal", dim1, x.ndim), axis_of("diagonal", dim2, x.ndim)
    if first == second:
        raise fail("diagonal", f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return Diagonal(offset, first, second)(x)


@takes_out
def diag(input: Any, diagonal: int = 0) -> Any:
    """A matrix with this diagonal, or the diagonal of a matrix (a copy)."""
    x = check("diag", input)
    if x.ndim == 2:
        return Diagonal(diagonal, 0, 1)(x).clone()
    if x.ndim != 1:
        raise fail("diag", f"diag(): Supports 1D or 2D tensors. Got {x.ndim}D")
    n = x.cached_data.size + abs_of(diagonal)
    return OnDiagonal((n, n), diagonal, 0, 1)(x)


def abs_of(n: int) -> int:
    """|n|"""
    return n if n >= 0 else -n


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last axis as their diagonals."""
    x = check("diag_embed", input)
    ndim = x.ndim + 1
    first, second = axis_of("diag_embed", dim1, ndim), axis_of("diag_embed", dim2, ndim)
    if first == second:
        raise fail("diag_embed", f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = x.shape[-1] + abs_of(offset)
    shape = list(x.shape[:-1])
    for axis in sorted((first, second)):
        shape.insert(axis, n)
    return OnDiagonal(tuple(shape), offset, first, second)(x)


def diagflat(input: Any, offset: int = 0) -> Any:
    """A matrix with all elements on its diagonal."""
    return diag(ravel(input), offset)


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy with src on a diagonal."""
    result = input.clone()
    diagonal(result, offset, dim1, dim2).copy_(src)
    return result


def _triangle(name: str, input: Any, k: int, upper: bool) -> Any:
    x = check(name, input)
    if x.ndim < 2:
        raise fail(name, f"{name}: input tensor must have at least 2 dimensions")
    return Triangle(k, upper)(x)


@takes_out
def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangle, else 0."""
    return _triangle("tril", input, diagonal, False)


@takes_out
def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangle, else 0."""
    return _triangle("triu", input, diagonal, True)


# Strides ------------------------------------------------------------------------------------------


def as_strided(
    input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """A view of the memory with any strides."""
    from .strides import AsStrided

    x = check("as_strided", input)
    offset = x.cached_data.offset if storage_offset is None else storage_offset
    size, stride = sizes_of((size,)), sizes_of((stride,))
    if len(size) != len(stride):
        raise fail("as_strided", "mismatch in length of strides and shape")
    return AsStrided(size, stride, offset, x.cached_data)(x)


def contiguous(input: Any, memory_format: object = None) -> Any:
    """input in C order: itself, if it is."""
    return input if input.cached_data.is_row_major() else clone(input, C_ORDER)


C_ORDER = "contiguous"


def clone(input: Any, memory_format: object = None) -> Any:
    """A copy that stays in the graph."""
    x = check("clone", input)
    return M.Clone()(x)


def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """`length` positions of an axis, from `start` on."""
    x = check("narrow", input)
    axis = axis_of("narrow", dim, x.ndim)
    if x.ndim == 0:
        raise fail("narrow", "narrow() cannot be applied to a 0-dim tensor.")
    n, first = x.shape[axis], int(start)
    if not -n <= first <= n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n}], but got {first})"
        )
    first = first + n if first < 0 else first
    if length < 0 or first + length > n:
        raise fail("narrow", f"start ({first}) + length ({length}) exceeds dimension size ({n}).")
    return x[(*[slice(None)] * axis, slice(first, first + length))]


def select(input: Any, dim: int, index: Any) -> Any:
    """One position of an axis, which goes away."""
    x = check("select", input)
    if x.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    return x[(*[slice(None)] * axis_of("select", dim, x.ndim), int(index))]


def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """Windows along an axis, as a new last axis: a view."""
    x = check("unfold", input)
    axis = axis_of("unfold", dimension, x.ndim)
    n = x.shape[axis] if x.ndim else 1
    if size > n:
        raise fail(
            "unfold", f"maximum size for tensor at dimension {axis} is {n} but size is {size}"
        )
    windows = [narrow(x, axis, i, size) for i in range(0, n - size + 1, step)]
    from .joining import stack

    return movedim(stack(windows, axis), axis + 1, -1)


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """The coordinates of a grid."""
    given = tensors[0] if len(tensors) == 1 and not hasattr(tensors[0], "cached_data") else tensors
    vectors = [reshape(x, -1) for x in given]
    return tuple(M.meshgrid(*vectors, indexing=indexing or "ij"))


def atleast_1d(*tensors: Any) -> Any:
    """With at least one axis."""
    return _each(tensors, lambda x: reshape(x, 1) if x.ndim == 0 else x)


def atleast_2d(*tensors: Any) -> Any:
    """With at least two axes."""
    return _each(tensors, lambda x: reshape(x, 1, -1) if x.ndim < 2 else x)


def atleast_3d(*tensors: Any) -> Any:
    """With at least three axes."""
    return _each(
        tensors,
        lambda x: reshape(x, 1, -1, 1) if x.ndim < 2 else unsqueeze(x, -1) if x.ndim == 2 else x,
    )


def _each(tensors: tuple[Any, ...], function: Any) -> Any:
    given = tensors[0] if len(tensors) == 1 and not hasattr(tensors[0], "cached_data") else tensors
    made = tuple(function(check("atleast", x)) for x in given)
    return made[0] if len(tensors) == 1 and given is tensors else made


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The powers of x as columns."""
    from .creation import arange

    n = x.shape[-1] if N is None else N
    powers = arange(n) if increasing else flip(arange(n), 0)
    return unsqueeze(x, -1) ** cast(powers, kind(x))
