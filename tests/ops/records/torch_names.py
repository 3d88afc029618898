"""Records of the operators that only PyTorch names."""

from __future__ import annotations

import numpy as np

import needle as ndl

from ..record import FLOATS, Call, OpRecord, Plain, Raises
from .joining import joins
from .movement import out_of_range, record, zeros


def expand(x, *sizes):
    sizes = sizes[0] if isinstance(sizes[0], tuple) else sizes
    new = len(sizes) - x.ndim
    return np.broadcast_to(x, [x.shape[i - new] if n == -1 else n for i, n in enumerate(sizes)])


def at(x, dim, index):
    return x[(*[slice(None)] * (dim % x.ndim), index)]


def unflatten(x, dim, sizes):
    dim %= x.ndim
    return x.reshape((*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


def isclose(a, b, *args):
    return np.isclose(a.astype(np.float64), np.asarray(b, np.float64), *args)


NEAR = np.array([[1.0, 2.0, np.inf], [np.nan, -3.0, 0.0]])

RECORDS = (
    record(
        "expand", expand,
        (Call((3, 1), 3, 4), Call((3, 1), -1, 4), Call((1, 3), Plain((2, -1, 3))), Call((), 2)),
        Raises(lambda f: f(zeros(2, 3), 3), ValueError,
               r"\[expand\] expected a size for each axis of \(2, 3\)"),
        Raises(lambda f: f(zeros(2, 3), -1, 2, 3), ValueError, r"\[expand\] expected a size"),
    ),
    record(
        "movedim", np.moveaxis,
        (Call((2, 3, 4), 0, 2), Call((2, 3, 4), -1, 0), Call((2, 3, 4), Plain((0, 1)),
         Plain((2, 0))), Call((2, 3, 4), 1, 1)),
        out_of_range("movedim", lambda f: f(zeros(2, 3), 5, 0)),
        Raises(lambda f: f(zeros(2, 3), (0, 1), 0), ValueError,
               r"\[movedim\] expected as many different axes as destinations, got \(0, 1\) and 0"),
        Raises(lambda f: f(zeros(2, 3), (0, 0), (0, 1)), ValueError, r"\[movedim\] expected as"),
    ),
    record(
        "t", np.transpose, (Call((2, 3)), Call((3,)), Call(())),
        Raises(lambda f: f(zeros(2, 3, 4)), ValueError,
               r"\[t\] expected at most 2 axes, got \(2, 3, 4\)"),
    ),
    record(
        "unflatten", unflatten,
        (Call((2, 6), 1, Plain((2, 3))), Call((6, 2), 0, Plain((-1, 2))),
         Call((2, 6), -1, Plain((3, -1)))),
        out_of_range("unflatten", lambda f: f(zeros(2, 3), 5, (1,))),
        Raises(lambda f: f(zeros(2, 6), 1, (4, -1)), ValueError,
               r"\[unflatten\] expected sizes of 6 elements, got \(4, -1\)"),
    ),
    record(
        "narrow", lambda x, dim, start, n: at(x, dim, slice(start % x.shape[dim], None))[
            (*[slice(None)] * (dim % x.ndim), slice(n))],
        (Call((5, 2), 0, 1, 3), Call((2, 5), -1, -2, 2), Call((3,), 0, 2, 0)),
        out_of_range("narrow", lambda f: f(zeros(2, 3), 5, 0, 1)),
        Raises(lambda f: f(zeros(2, 3), 1, 2, 2), ValueError,
               r"\[narrow\] expected positions of axis 1 of \(2, 3\), got 2 from 2"),
    ),
    record(
        "select", at, (Call((2, 3), 0, 1), Call((2, 3, 4), 1, -1), Call((4,), 0, 2)),
        out_of_range("select", lambda f: f(zeros(2, 3), 5, 0)),
        Raises(lambda f: f(zeros(2, 3), 0, 1.5), TypeError,
               r"\[select\] index must be a whole number, got 1\.5"),
    ),
    record(
        "unbind", lambda x, dim=0: tuple(np.moveaxis(x, dim, 0)),
        (Call((3, 2)), Call((2, 3), 1), Call((2, 3, 4), -1)), returns_tuple=True,
    ),
    record(
        "index_select", lambda x, dim, index: np.take(x, index, dim),
        (Call((4, 2), 0, np.array([3, 0, 0])), Call((2, 4), -1, np.array([1, 3])),
         Call((4, 2), 0, np.array([], np.int64))),
        *(Raises(lambda f, i=i: f(zeros(2, 3), 1, ndl.tensor([0, i])), IndexError,
                 rf"\[index_select\] index {i} is out of bounds for axis 1 with size 3; use 0 to 2")
          for i in (3, -1, -4)),
        Raises(lambda f: f(zeros(2, 3), 0, np.array([[0]])), ValueError,
               r"\[index_select\] expected a vector of positions, got shape \(1, 1\)"),
        Raises(lambda f: f(zeros(2, 3), 0, np.array([True, False])), TypeError,
               r"\[index_select\] expected integer indices, got bool"),
    ),
    record(
        "diag", np.diag,
        (Call((3,)), Call((3,), 1), Call((2,), -2), Call((3, 4)), Call((3, 4), 1),
         Call((3, 4), -1)),
        Raises(lambda f: f(zeros(2, 2, 2)), ValueError,
               r"\[diag\] expected a vector or a matrix, got \(2, 2, 2\)"),
    ),
    record(
        "trace", lambda x: np.sum(np.diagonal(x)), (Call((3, 3)), Call((2, 4))),
        Raises(lambda f: f(zeros(3)), ValueError, r"\[trace\] expected a matrix, got \(3,\)"),
        dtypes=FLOATS, exact=False,
    ),
    OpRecord(
        "masked_select", lambda x, mask: np.broadcast_to(x, np.broadcast_shapes(x.shape,
                                                         mask.shape))[mask],
        (Call((3,), np.array([True, False, True])), Call((1, 2), np.array([[True, False]]))),
        exact=True, data_dependent=True,
        errors=(Raises(lambda f: f([1.0], ndl.tensor([True])), TypeError,
                       r"\[masked_select\] expected a Tensor, got list"),
                Raises(lambda f: f(zeros(2), zeros(2)), TypeError,
                       r"\[masked_select\] expected a mask of bools, got float")),
    ),
    OpRecord(
        "hstack", np.hstack,
        (Call([(2, 3), (2, 1)]), Call([(2,), (3,)]), Call([(), ()])), exact=True,
        errors=joins("hstack"),
    ),
    OpRecord(
        "vstack", np.vstack,
        (Call([(2, 3), (1, 3)]), Call([(3,), (2, 3)]), Call([(2, 1, 2), (1, 1, 2)])), exact=True,
        errors=joins("vstack"),
    ),
    OpRecord(
        "isclose", isclose,
        (Call((2, 3), (2, 3)), Call(NEAR, NEAR + 1e-6), Call(NEAR, NEAR, 0.0, 0.0, True),
         Call(np.array([1.0, 2.0]), 1.0)),
        dtypes=FLOATS, order=0, exact=True, result_dtype=lambda _: "bool",
        errors=(Raises(lambda f: f([1.0], 1.0), TypeError,
                       r"\[isclose\] expected a Tensor, got list"),),
    ),
)  # fmt: skip
