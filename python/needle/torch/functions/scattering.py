"""`scatter_reduce`: elements combined at positions along an axis."""

from __future__ import annotations

from typing import Any

from ...dtype import int64
from ...ops import compare as C
from ...ops.index.along_axis import Gather
from ..core.dtypes import dtype_in_engine as kind
from .common import axis_of, cast, fail, is_floating


def reduced(x: Any, dim: int, index: Any, src: Any, way: str, include_self: bool) -> Any:
    """x combined with src at positions: sum, prod, mean, amax or amin."""
    from .indexing import scatter, scatter_add

    if way not in ("sum", "prod", "mean", "amax", "amin"):
        raise fail(
            "scatter_reduce", f"reduce argument must be sum, prod, mean, amax or amin, got {way}"
        )
    if index.cached_data.size == 0:
        return x.clone()
    axis = axis_of("scatter_reduce", dim, x.ndim)
    src = _first(src, index)
    if way in ("sum", "mean"):
        start = x if include_self else scatter(x, axis, index, value=0)
        total = scatter_add(start, axis, index, src)
        if way == "sum":
            return total
        ones = scatter_add(
            _counts(x, axis, index, include_self),
            axis,
            index,
            src.new_ones(tuple(src.shape), dtype=_int()),
        )
        count = C.where(C.equal(ones, 0), 1, ones)
        return total / cast(count, kind(x)) if is_floating(x) else total // cast(count, kind(x))
    return _by_rounds(x, axis, index, src, way, include_self)


def _int() -> Any:
    from ..core.dtypes import face_dtype

    return face_dtype("int64")


def _counts(x: Any, axis: int, index: Any, include_self: bool) -> Any:
    from .indexing import scatter

    ones = x.new_ones(tuple(x.shape), dtype=_int())
    return ones if include_self else scatter(ones, axis, index, value=0)


def _first(src: Any, index: Any) -> Any:
    """The elements of src that the index has places for."""
    return src if src.shape == index.shape else src[tuple(slice(n) for n in index.shape)]


def _by_rounds(x: Any, axis: int, index: Any, src: Any, way: str, include_self: bool) -> Any:
    """Position by position along the axis: in each round, every place is met once at most."""
    from .indexing import scatter

    if x.ndim == 0:
        found = _by_rounds(x.reshape(1), 0, index.reshape(-1), src.reshape(-1), way, include_self)
        return found.reshape(())
    fill = {"prod": 1.0, "amax": -float("inf"), "amin": float("inf")}[way]
    if not is_floating(x):
        from ...ndarray.functions import limits_of

        low, high = limits_of(kind(x)) if kind(x) != "bool" else (0, 1)
        fill = {"prod": 1, "amax": low, "amin": high}[way]
    result = x if include_self else scatter(x, axis, index, value=fill)
    for i in range(index.shape[axis]):
        at, value = index.narrow(axis, i, 1), src.narrow(axis, i, 1)
        rows = result[tuple(slice(n) if k != axis else slice(None) for k, n in enumerate(at.shape))]
        old = Gather(axis)(rows, cast(at, int64))
        new = (
            old * value
            if way == "prod"
            else (C.maximum if way == "amax" else C.minimum)(old, value)
        )
        result = scatter(result, axis, at, new)
    return result
