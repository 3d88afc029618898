"""softmax and log_softmax."""

from __future__ import annotations

from typing import Any

from ...ops.network import softmax as S
from ..functions.common import axis_of, cast, check, is_floating
from .dtypes import dtype_in_engine, in_engine


def _prepared(op: str, x: Any, dtype: Any) -> Any:
    found = check(op, x) if dtype is None else cast(x, in_engine(dtype))
    if not is_floating(found):
        raise NotImplementedError(
            f'"{op}_lastdim_kernel_impl" not implemented for {dtype_in_engine(found)}'
        )
    return found


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """e^x over its sum along an axis"""
    x = _prepared("softmax", input, dtype)
    axis = axis_of("softmax", dim, x.ndim)
    return S.Softmax(axis)(x) if x.ndim else softmax(x.reshape(1), 0).reshape(())


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """ln softmax"""
    x = _prepared("log_softmax", input, dtype)
    axis = axis_of("log_softmax", dim, x.ndim)
    return S.LogSoftmax(axis)(x) if x.ndim else log_softmax(x.reshape(1), 0).reshape(())
