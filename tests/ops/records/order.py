"""Records of operators that put elements in order."""

from __future__ import annotations

import numpy as np

from needle.dtype import DTYPES

from ..record import FLOATS, Call, OpRecord, Raises
from .movement import out_of_range, record, zeros

ALONG = (Call((3, 4)), Call((3, 4), 0), Call((3, 4), None), Call((2, 3, 4), 1), Call((0, 3), 0))
BOTH = (*ALONG, Call((3, 4), -1, True), Call((2, 5), 1, descending=True))


def argsort(x, axis=-1, descending=False):
    """Stable in both directions."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def sort(x, axis=-1, descending=False):
    if axis is None:
        x, axis = x.reshape(-1), 0
    return np.take_along_axis(x, argsort(x, axis, descending), axis)


def topk(x, k, axis=-1, largest=True):
    first = np.take(argsort(x, axis, largest), np.arange(k), axis)
    return np.take_along_axis(x, first, axis), first


def unique(x, return_inverse=False, return_counts=False):
    found = np.unique(x, return_inverse=return_inverse, return_counts=return_counts)
    if return_inverse:
        found = (found[0], found[1].reshape(x.shape), *found[2:])
    return found


TIES = np.array([3.0, 1.0, 2.0, 1.0, 3.0])

RECORDS = (
    record("argsort", argsort, (*BOTH, Call(TIES), Call(TIES, 0, True)),
           out_of_range("argsort", lambda f: f(zeros(2, 3), 5)),
           order=0, result_dtype=lambda d: "int64"),
    record("sort", sort, BOTH, out_of_range("sort", lambda f: f(zeros(2, 3), 5))),
    record(
        "topk", topk,
        (Call((3, 4), 2), Call((3, 4), 2, 0), Call((3, 4), 3, -1, False), Call((5,), 0),
         Call((5,), 5)),
        Raises(lambda f: f(zeros(2, 3), 4), ValueError,
               r"\[topk\] expected k from 0 to 3 \(axis 1\), got 4"),
        out_of_range("topk", lambda f: f(zeros(2, 3), 1, 5)),
        returns_tuple=True, result_dtype=lambda d: None,
    ),
    record(
        "median", lambda x, axis=None, keepdims=False: np.median(x, axis, keepdims=keepdims),
        (Call((3, 4)), Call((3, 4), 0), Call((2, 5), 1, True), Call((4,), axis=-1),
         Call((2, 3, 4), axis=(0, 2))),
        out_of_range("median", lambda f: f(zeros(2, 3), 5)),
        exact=False, dtypes=FLOATS,
    ),
    OpRecord(
        "searchsorted", lambda s, v,
        right=False: np.searchsorted(s, v, "right" if right else "left"),
        (Call(np.array([-1.0, 0.0, 0.0, 1.0]), (3, 4)),
         Call(np.array([0.0, 1.0]), (5,), right=True),
         Call(np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 2.0]), True)),
        order=0, dtypes=tuple(d for d in DTYPES if d.is_floating or d.kind == "i"),
        result_dtype=lambda d: "int64",
        errors=(
            Raises(lambda f: f([1.0], [2.0]), TypeError, r"\[searchsorted\] expected a Tensor"),
            Raises(lambda f: f(zeros(2, 2), zeros(2)), ValueError,
                   r"\[searchsorted\] expected a sorted 1-D array, got shape \(2, 2\)"),
        ),
    ),
    record(
        "unique", unique,
        (Call(TIES), Call((3, 4)), Call(TIES, return_inverse=True),
         Call(np.array([[1.0, 2.0], [2.0, 1.0]]), True, True), Call(TIES, return_counts=True),
         Call((0,))),
        order=0, data_dependent=True, returns_tuple=True, result_dtype=lambda d: None,
    ),
)  # fmt: skip
