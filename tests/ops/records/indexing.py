"""Records of operators that read and write parts of a tensor."""

from __future__ import annotations

import numpy as np

import needle as ndl
from needle.dtype import DTYPES

from ..record import NUMBERS, Call, Raises
from .movement import out_of_range, record, zeros

ROWS = np.array([2, 0, 2, -1])
PLACES = np.array([2, 0, 2, 1])  # PyTorch's do not count from the end
ALONG = np.array([[0, 2, 1, 1], [2, 2, 0, 1]])  # into (3, 4) along axis 0
FLAGS = np.array(
    [[True, False, True, False], [False, False, True, True], [True, True, False, True]]
)


def gather(x, dim, index):
    grid = list(np.indices(index.shape, sparse=True))
    grid[dim] = index
    return x[tuple(grid)]


def scatter_add(x, dim, index, src):
    grid = list(np.indices(index.shape, sparse=True))
    grid[dim] = index
    out = x.copy()
    np.add.at(out, tuple(grid), src[tuple(slice(n) for n in index.shape)] if src.ndim else src)
    return out


def index_add(x, dim, index, src):
    out = x.copy()
    np.add.at(out, (*[slice(None)] * dim, index), src)
    return out


def outside(name, call, size):
    text = rf"\[{name}\] index 9 is out of bounds for axis 0 with size {size}; use -{size} to"
    return Raises(call, IndexError, text)


def outside_from_zero(name, call):
    """For 9 and for -1, on an axis of 3."""
    text = rf"\[{name}\] index {{}} is out of bounds for axis 0 with size 3; use 0 to 2"
    return [
        Raises(lambda f, i=i: call(f, np.array([i])), IndexError, text.format(i)) for i in (9, -1)
    ]


def whole(name, call):
    return Raises(call, TypeError, rf"\[{name}\] expected integer indices, got float(32|64)")


def scatter(x, dim, index, src=None, value=None):
    out = x.copy()
    for at in np.ndindex(index.shape):
        to = list(at)
        to[dim] = index[at]
        out[tuple(to)] = value if src is None else src[at] if np.ndim(src) else src
    return out


RECORDS = (
    record(
        "take", lambda x, i, axis=None: np.take(x, i, axis),
        (Call((3, 4), ROWS), Call((3, 4), ROWS, 0), Call((3, 4), ROWS, axis=-1), Call((3, 4), 1, 0),
         Call((3, 4), ALONG, 1), Call((5,), np.array([], np.int64), 0)),
        outside("take", lambda f: f(zeros(3, 4), np.array([9]), 0), 3),
        out_of_range("take", lambda f: f(zeros(2, 3), 0, 5)),
        Raises(lambda f: f(zeros(3), np.array([0.5]), 0), IndexError,
               r"\[take\] arrays used as indices must be integers or bools, got float64"),
    ),
    record(
        "gather", gather,
        (Call((3, 4), 0, ALONG), Call((3, 4), 1, ALONG[:, :2]), Call((5,), 0, PLACES)),
        *outside_from_zero("gather", lambda f, i: f(zeros(3, 4), 0, i[None])),
        whole("gather", lambda f: f(zeros(3, 4), 0, zeros(1, 1))),
        Raises(lambda f: f(zeros(3, 4), 0, PLACES), ValueError,
               r"\[gather\] expected an index with 2 axes like the array, got shape \(4,\)"),
        Raises(lambda f: f(zeros(3, 4), 0, np.zeros((1, 9), np.int64)), ValueError,
               r"\[gather\] index shape \(1, 9\) is larger than \(3, 4\) on axis 1"),
        out_of_range("gather", lambda f: f(zeros(2, 3), 5, ALONG)),
    ),
    record(
        "take_along_axis", np.take_along_axis,
        (Call((3, 4), ALONG, 0), Call((3, 1), ALONG[:, :1], axis=0), Call((1, 4), ALONG, 1),
         Call((3, 4), np.array([[1], [0], [3]]), -1)),
        whole("take_along_axis", lambda f: f(zeros(3, 4), zeros(1, 1), 0)),
        Raises(lambda f: f(zeros(3, 4), PLACES, 0), ValueError,
               r"\[take_along_axis\] expected an index with 2 axes, got shape \(4,\)"),
    ),
    record(
        "scatter_add", scatter_add,
        (Call((3, 4), 0, ALONG, (2, 4)), Call((3, 4), 1, ALONG[:, :2], (2, 2)),
         Call((5,), 0, PLACES, (4,)),
         Call((3, 4), 0, ALONG, (3, 4))),
        *outside_from_zero("scatter_add", lambda f, i: f(zeros(3), 0, i, zeros(1))),
        whole("scatter_add", lambda f: f(zeros(3), 0, zeros(1), zeros(1))),
        Raises(lambda f: f(zeros(3, 4), 0, ALONG, zeros(1, 4)), ValueError,
               r"\[scatter_add\] expected src to be at least as large as the index, got shapes "
               r"\(1, 4\) and \(2, 4\)"),
        Raises(lambda f: f(ndl.Tensor([1], dtype="int32"), 0, np.array([0]), zeros(1)), TypeError,
               r"\[scatter_add\] cannot add float(32|64) to int32; cast one of them"),
        dtypes=NUMBERS, exact=False,
    ),
    record(
        "scatter", scatter,
        (Call((3, 4), 0, ALONG, (2, 4)), Call((3, 4), 1, ALONG[:, :2], (3, 4)),
         Call((5,), 0, PLACES, (4,)), Call((3, 4), -1, ALONG, 2), Call((5,), 0, PLACES, value=1)),
        *outside_from_zero("scatter", lambda f, i: f(zeros(3), 0, i, zeros(1))),
        whole("scatter", lambda f: f(zeros(3), 0, zeros(1), zeros(1))),
        Raises(lambda f: f(zeros(3, 4), 0, ALONG, zeros(2, 1)), ValueError,
               r"\[scatter\] expected src to be at least as large as the index"),
        Raises(lambda f: f(zeros(3, 4), 0, np.zeros((1, 9), np.int64), 1.0), ValueError,
               r"\[scatter\] expected an index no larger than \(3, 4\) besides axis 0"),
        Raises(lambda f: f(zeros(3, 4), 0, PLACES, 1.0), ValueError,
               r"\[scatter\] expected an index with 2 axes and one of src and value"),
        dtypes=NUMBERS,
    ),
    record(
        "index_add", index_add,
        (Call((3, 4), 0, PLACES, (4, 4)), Call((3, 4), 1, PLACES, (3, 4)),
         Call((5,), 0, PLACES, (4,))),
        *outside_from_zero("index_add", lambda f, i: f(zeros(3), 0, i, zeros(1))),
        *(Raises(lambda f, src=src: f(zeros(3, 4), 0, np.array([0, 1]), src), ValueError,
                 r"\[index_add\] expected src of shape \(2, 4\), for 2 positions on axis 0 of "
                 r"\(3, 4\), got \(.*\); broadcast it") for src in
          (zeros(1, 4), zeros(4), zeros(2, 1), zeros(3, 4), 1)),
        Raises(lambda f: f(zeros(3), 0, np.array([[0]]), zeros(1, 1)), ValueError,
               r"\[index_add\] expected a vector of positions, got shape \(1, 1\)"),
        Raises(lambda f: f(zeros(3), 0, np.array([True]), zeros(1)), TypeError,
               r"\[index_add\] expected integer indices, got bool"),
        Raises(lambda f: f(ndl.Tensor([1], dtype="int32"), 0, np.array([0]), zeros(1)), TypeError,
               r"\[index_add\] cannot add float(32|64) to int32; cast one of them"),
        dtypes=NUMBERS, exact=False,
    ),
    record(
        "masked_fill", lambda x, mask, value: np.where(mask, np.asarray(value, x.dtype), x),
        (Call((3, 4), FLAGS, 1), Call((3, 4), FLAGS[0], 0), Call((3, 4), FLAGS, ())),
        Raises(lambda f: f(zeros(3), np.array([True, False]), 0), ValueError,
               r"\[masked_fill\] shapes .* do not broadcast"),
        Raises(lambda f: f(zeros(3), zeros(3) == "0", 0), TypeError,
               r"\[masked_fill\] expected a tensor of bools, got False; == compares tensors"),
        *(Raises(lambda f, mask=mask: f(zeros(3), mask, 0), TypeError,
                 r"\[masked_fill\] expected a mask of bools, got (float|int)")
          for mask in (zeros(3), np.ones(3), np.ones(3, np.int64))),
        dtypes=NUMBERS,
    ),
    record(
        "nonzero", lambda x: np.argwhere(x), (Call((3, 4)), Call(FLAGS), Call((0, 3))),
        order=0, data_dependent=True, dtypes=DTYPES, result_dtype=lambda d: "int64",
    ),
)  # fmt: skip
