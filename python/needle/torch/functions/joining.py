"""Tensors put together and taken apart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ...ops.shape import concat as J
from ..core.dtypes import dtype_in_engine as kind, in_engine, promoted
from . import shape as S
from .common import axis_of, cast, check, fail, takes_out


def _one_type(op: str, tensors: Any) -> list[Any]:
    """The tensors in the dtype of their result."""
    given = list(tensors)
    if not given:
        raise fail(op, f"{op}(): expected a non-empty list of Tensors")
    dtype = kind(check(op, given[0]))
    for x in given[1:]:
        dtype = promoted(dtype, kind(check(op, x)))
    return [cast(x, dtype) for x in given]


@takes_out
def cat(tensors: Sequence[Any], dim: int = 0, **named: Any) -> Any:
    """Tensors one after the other along an axis."""
    dim = named.pop("axis", dim)
    parts = _one_type("cat", tensors)
    if any(x.ndim == 0 for x in parts):
        raise fail("cat", "zero-dimensional tensor (at position 0) cannot be concatenated")
    used = [x for x in parts if tuple(x.shape) != (0,)]  # which joins with anything
    if not used:
        return parts[0].clone()
    axis = axis_of("cat", dim, used[0].ndim)
    shapes = {tuple(n for i, n in enumerate(x.shape) if i != axis) for x in used}
    if len({x.ndim for x in used}) > 1 or len(shapes) > 1:
        raise fail(
            "cat",
            "Sizes of tensors must match except in dimension "
            f"{axis}: {[list(x.shape) for x in used]}",
        )
    return J.Concatenate(axis)(*used)


concat = concatenate = cat


@takes_out
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors of one shape along a new axis."""
    parts = _one_type("stack", tensors)
    if len({tuple(x.shape) for x in parts}) > 1:
        raise fail(
            "stack",
            f"stack expects each tensor to be equal size, but got {[list(x.shape) for x in parts]}",
        )
    return J.Stack(axis_of("stack", dim, parts[0].ndim + 1))(*parts)


def _flat_dim(x: Any) -> int:
    return 0 if x.ndim == 1 else 1


@takes_out
def hstack(tensors: Sequence[Any]) -> Any:
    """Side by side."""
    parts = S.atleast_1d(list(tensors))
    return cat(parts, _flat_dim(parts[0]))


@takes_out
def vstack(tensors: Sequence[Any]) -> Any:
    """Below each other."""
    return cat(S.atleast_2d(list(tensors)), 0)


row_stack = vstack


@takes_out
def dstack(tensors: Sequence[Any]) -> Any:
    """Behind each other."""
    return cat(S.atleast_3d(list(tensors)), 2)


@takes_out
def column_stack(tensors: Sequence[Any]) -> Any:
    """Vectors as columns beside matrices."""
    return cat([S.reshape(x, -1, 1) if x.ndim < 2 else x for x in tensors], 1)


def block_diag(*tensors: Any) -> Any:
    """Matrices along a diagonal."""
    parts = S.atleast_2d(_one_type("block_diag", tensors)) if tensors else ()
    width = sum(x.shape[1] for x in parts)
    rows, at = [], 0
    for x in parts:
        left = x.new_zeros((x.shape[0], at))
        at += x.shape[1]
        rows.append(cat([left, x, x.new_zeros((x.shape[0], width - at))], 1))
    return cat(rows, 0)


def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of elements, one in each row."""
    if len(tensors) == 1:
        return tensors[0]
    return stack([S.ravel(x) for x in S.meshgrid(*tensors)], 1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All choices of r elements, one in each row."""
    from .creation import tensor

    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    found = list(choose(range(input.shape[0]), r))
    places = tensor(found, dtype=in_engine("int64")).reshape(len(found), r)  # type: ignore[arg-type]
    return input[places]


# Taking apart -------------------------------------------------------------------------------------


def split(
    tensor: Any, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> tuple[Any, ...]:
    """Pieces of one size (the last may be smaller), or of the given sizes: views."""
    x = check("split", tensor)
    sizes = split_size if split_size_or_sections is None else split_size_or_sections
    axis = axis_of("split", dim, x.ndim)
    if x.ndim == 0:
        raise fail("split", "split expects at least a 1-dimensional tensor")
    n = x.shape[axis]
    if isinstance(sizes, Sequence):
        if sum(sizes) != n:
            raise fail(
                "split",
                "split_with_sizes expects split_sizes to sum exactly to "
                f"{n} (input tensor's size at dimension {dim}), but got split_sizes={list(sizes)}",
            )
        return split_with_sizes(x, sizes, axis)
    size = int(sizes)
    if size < 0 or (size == 0 and n):
        raise fail("split", f"split expects split_size be non-negative, but got split_size={size}")
    starts = range(0, n, size) if n else [0]
    return tuple([S.narrow(x, axis, i, min(size, n - i)) for i in starts])


def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Pieces of the given sizes."""
    found, at = [], 0
    for size in split_sizes:
        found.append(S.narrow(input, dim, at, size))
        at += size
    return tuple(found)


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most so many pieces of one size, the last possibly smaller: views."""
    if chunks < 1:
        raise fail("chunk", f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = check("chunk", input).shape[axis_of("chunk", dim, input.ndim)]
    if n == 0:
        return tuple([S.narrow(input, dim, 0, 0)] * chunks)
    return split(input, -(-n // chunks), dim)


def tensor_split(
    input: Any, indices_or_sections: Any, dim: int = 0, **named: Any
) -> tuple[Any, ...]:
    """About equal sections, or cut at the given positions: views."""
    given = named.get("indices", named.get("sections", indices_or_sections))
    if hasattr(given, "tolist"):
        given = given.tolist()
    axis = axis_of("tensor_split", dim, check("tensor_split", input).ndim)
    n = input.shape[axis]
    if isinstance(given, Sequence):
        cuts = [slice(0, i).indices(n)[1] for i in given]
    else:
        small, larger = divmod(n, given)
        cuts = [small * i + min(i, larger) for i in range(1, given)]
    bounds = [0, *cuts, n]
    return tuple(
        input[(*[slice(None)] * axis, slice(a, max(a, b)))] for a, b in itertools.pairwise(bounds)
    )


def hsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Cut along the second axis, or the only one."""
    return tensor_split(input, indices_or_sections, _flat_dim(input))


def vsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Cut along the first axis."""
    return tensor_split(input, indices_or_sections, 0)


def dsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Cut along the third axis."""
    return tensor_split(input, indices_or_sections, 2)


def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """One tensor for each position of an axis, which goes away: views."""
    axis = axis_of("unbind", dim, check("unbind", input).ndim)
    return tuple([S.select(input, axis, i) for i in range(input.shape[axis])])
