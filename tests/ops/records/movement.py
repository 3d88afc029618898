"""Records of operators that move data without changing it."""

from __future__ import annotations

import numpy as np

import needle as ndl
from needle.dtype import DTYPES

from ..record import Call, OpRecord, Plain, Raises
from .elementwise import needs_tensor


def zeros(*shape):
    return ndl.Tensor(np.zeros(shape))


def record(name, reference, calls, *errors, **facts):
    facts = {"dtypes": DTYPES, "exact": True, **facts}
    return OpRecord(name, reference, calls, errors=(needs_tensor(name), *errors), **facts)


def out_of_range(name, call):
    return Raises(call, ValueError, rf"\[{name}\] axis 5 is out of range for an array with 2 axes")


def transpose(x, axes=None, other=None):
    axes = (axes, other) if other is not None else axes
    return np.swapaxes(x, *((-2, -1) if axes is None else axes))


def flatten(x, start=0, end=-1):
    if x.ndim == 0:
        return x.reshape(1)
    end %= x.ndim
    return x.reshape((*x.shape[:start], -1, *x.shape[end + 1 :]))


def squeeze(x, axes=None, axis=None):
    return np.squeeze(x, axes if axes is not None else axis)


def flip(x, axes=None, *, axis=None, dim=None):
    given = [a for a in (axes, axis, dim) if a is not None]
    return np.flip(x, given[0] if given else None)


SHAPES = (
    record(
        "reshape", lambda x, *s: x.reshape(*s),
        (Call((2, 6), Plain((3, 4))), Call((2, 6), Plain((-1,))), Call((2, 6), 4, -1),
         Call((), Plain((1, 1))), Call((1,), Plain(())), Call((0, 3), Plain((3, 0)))),
        Raises(lambda f: f(zeros(6), (4,)), ValueError,
               r"\[reshape\] cannot reshape \(6,\) \(6 elements\) to \(4,\) \(4 elements\)"),
        Raises(lambda f: f(zeros(6), (-1, 4)), ValueError, r"\[reshape\] cannot fill in -1"),
        Raises(lambda f: f(zeros(6), (-1, -1)), ValueError, r"at most one size may be -1"),
        Raises(lambda f: f(zeros(6), (2.5,)), TypeError, r"a shape is made of integers, got"),
    ),
    record(
        "flatten", flatten, (Call((2, 3, 4)), Call((2, 3, 4), 1), Call((2, 3, 4), 0, 1), Call(())),
        Raises(lambda f: f(zeros(2, 3), 1, 0), ValueError,
               r"\[flatten\] expected start_dim <= end_dim, got 1 and 0"),
        out_of_range("flatten", lambda f: f(zeros(2, 3), 5)),
    ),
    record(
        "squeeze", squeeze,
        (Call((1, 3, 1)), Call((1, 3, 1), 0), Call((1, 3, 1), axis=-1),
         Call((1, 1), Plain((0, 1)))),
        Raises(lambda f: f(zeros(2, 3), 1), ValueError,
               r"\[squeeze\] expected size 1 on axis 1, got 3 in \(2, 3\)"),
        out_of_range("squeeze", lambda f: f(zeros(2, 3), 5)),
    ),
    record(
        "expand_dims", lambda x, axes=None,
        axis=None: np.expand_dims(x, axes if axis is None else axis),
        (Call((3, 4), 0), Call((3, 4), -1), Call((3,), Plain((0, 2))), Call((), axis=0)),
        Raises(lambda f: f(zeros(2)), TypeError,
               r"\[expand_dims\] expected the position of the new"),
        Raises(lambda f: f(zeros(2), 5), ValueError, r"\[expand_dims\] axis 5 is out of range"),
    ),
    record(
        "broadcast_to", lambda x, *s: np.broadcast_to(x, s[0] if isinstance(s[0], tuple) else s),
        (Call((3, 1), Plain((2, 3, 4))), Call((), Plain((2, 2))), Call((1, 3), 4, 3),
         Call((3,), Plain((0, 3)))),
        Raises(lambda f: f(zeros(2, 3), (2, 4)), ValueError,
               r"\[broadcast_to\] cannot broadcast \(2, 3\) to \(2, 4\)"),
        Raises(lambda f: f(zeros(1), (-2,)), ValueError,
               r"sizes must not be negative, got \(-2,\)"),
    ),
)  # fmt: skip

ORDER = (
    record(
        "transpose", transpose,
        (Call((3, 4)), Call((2, 3, 4), Plain((0, 1))), Call((2, 3, 4), Plain((-1, 0))),
         Call((2, 3, 4), 0, 2), Call((2, 3, 4))),
        Raises(lambda f: f(zeros(2, 3, 4), (0, 1, 2)), ValueError,
               r"\[transpose\] expected two axes to exchange, got \(0, 1, 2\); permute takes"),
        Raises(lambda f: f(zeros(3)), ValueError, r"\[transpose\] expected at least 2 axes, got 1"),
        out_of_range("transpose", lambda f: f(zeros(2, 3), (0, 5))),
    ),
    record("swapaxes", np.swapaxes, (Call((2, 3, 4), 0, 2), Call((2, 3), -1, -2)),
           out_of_range("swapaxes", lambda f: f(zeros(2, 3), 0, 5))),
    record(
        "permute", lambda x, *a: np.transpose(x, a[0] if isinstance(a[0], tuple) else a),
        (Call((2, 3, 4), Plain((2, 0, 1))), Call((2, 3, 4), 1, 0, 2), Call((2, 3), Plain((-1, 0)))),
        Raises(lambda f: f(zeros(2, 3), (0, 0)), ValueError,
               r"\[permute\] axes must name each of the 2 axes once, got \(0, 0\)"),
        out_of_range("permute", lambda f: f(zeros(2, 3), (0, 5))),
    ),
    record(
        "flip", flip,
        (Call((3, 4)), Call((3, 4), 0), Call((3, 4), Plain((0, 1))), Call((2, 3, 4), axis=-1),
         Call((0, 2), dim=0), Call(())),
        out_of_range("flip", lambda f: f(zeros(2, 3), 5)),
    ),
)  # fmt: skip

DIAGONALS = (
    record(
        "diagonal", np.diagonal,
        (Call((3, 4)), Call((3, 4), 1), Call((3, 4), -2), Call((2, 3, 4), 0, 1, 2), Call((3, 3), 7),
         Call((2, 3, 4), 1, -1, 0)),
        Raises(lambda f: f(zeros(2, 3), 0, 1, 1), ValueError,
               r"\[diagonal\] expected two different axes, got 1 and 1"),
        out_of_range("diagonal", lambda f: f(zeros(2, 3), 0, 0, 5)),
    ),
    record(
        "tril", np.tril, (Call((3, 4)), Call((3, 4), 1), Call((2, 3, 3), -1), Call((0, 3))),
        Raises(lambda f: f(zeros(3)), ValueError,
               r"\[tril\] expected at least 2 axes, got shape \(3,\)"),
    ),
    record(
        "triu", np.triu, (Call((3, 4)), Call((3, 4), -1), Call((2, 3, 3), 1)),
        Raises(lambda f: f(zeros(3)), ValueError,
               r"\[triu\] expected at least 2 axes, got shape \(3,\)"),
    ),
)  # fmt: skip


def same(x, *args, **kwargs):
    return x


MEMORY = (
    record("clone", np.copy, (Call((3, 4)), Call(()))),
    record(
        "to", same, (Call((3, 4), "cpu_numpy"), Call((3, 4), "cpu"), Call((2,))),
        Raises(lambda f: f(zeros(2), "tpu"), ValueError,
               r"\[device\] expected one of cpu, cuda, cpu_numpy, got 'tpu'"),
        Raises(lambda f: f(zeros(2), "cuda"), RuntimeError,
               r"\[cuda\(\)\] this device is not available on this machine .*; use cpu\(\)"),
    ),
)  # fmt: skip


def meshgrid(*vectors, indexing="ij"):
    vectors = vectors[0] if isinstance(vectors[0], list) else vectors
    return tuple(np.meshgrid(*vectors, indexing=indexing))


GRID = OpRecord(
    "meshgrid", meshgrid,
    (Call((2,), (3,), indexing="ij"), Call([(2,), (3,)], indexing="xy"), Call((4,)),
     Call((2,), (3,), (4,), indexing="xy"), Call((), (3,), indexing="ij"),
     Call((0,), (3,), indexing="xy")),
    dtypes=DTYPES, exact=True, returns_tuple=True, errors=(
        Raises(lambda f: f(zeros(2), zeros(3)), ValueError,
               r"\[meshgrid\] expected indexing='ij' \(PyTorch's default\) or indexing='xy' "
               r"\(NumPy's\), got None"),
        Raises(lambda f: f(zeros(2), indexing="yx"), ValueError, r"\[meshgrid\] .*, got 'yx'"),
        Raises(lambda f: f(zeros(2, 3), zeros(3), indexing="ij"), ValueError,
               r"\[meshgrid\] expected vectors, got shapes \[\(2, 3\), \(3,\)\]"),
        Raises(lambda f: f([1.0], indexing="ij"), TypeError,
               r"\[meshgrid\] expected a Tensor, got float"),
        Raises(lambda f: f(), ValueError, r"\[meshgrid\] expected at least one tensor"),
    ),
)  # fmt: skip

RECORDS = (*SHAPES, *ORDER, *DIAGONALS, *MEMORY, GRID)
