"""Records of operators that put tensors together, take them apart, repeat and space them."""

from __future__ import annotations

import numpy as np

import needle as ndl
from needle.dtype import DTYPES

from ..record import Call, OpRecord, Plain, Raises
from .movement import out_of_range, record, zeros

MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(x, widths, mode="constant", value=0):
    if mode == "constant":
        return np.pad(x, widths, constant_values=value)
    return np.pad(x, widths, MODES[mode])


def crop(x, widths):
    pairs = np.broadcast_to(widths, (x.ndim, 2))
    return x[tuple(slice(a, n - b) for n, (a, b) in zip(x.shape, pairs, strict=True))]


PAIRS = Plain(((1, 2), (0, 1)))

BORDERS = (
    record(
        "pad", pad,
        (Call((3, 4), 1), Call((3, 4), PAIRS), Call((3, 4), Plain((2, 0))),
         Call((3, 4), 1, "constant", 3),
         Call((3, 4), PAIRS, mode="reflect"), Call((3, 4), PAIRS, mode="replicate"),
         Call((3, 4), PAIRS, mode="circular"), Call((0, 2), 1)),
        Raises(lambda f: f(zeros(2, 3), -1), ValueError,
               r"\[pad\] expected a width >= 0, a \(before, after\) pair or 2 such pairs, got -1"),
        Raises(lambda f: f(zeros(2, 3), 1, "mirror"), ValueError,
               r"\[pad\] mode must be one of constant, reflect, symmetric, replicate, .*'mirror'"),
        Raises(lambda f: f(zeros(2, 3), 3, "reflect"), ValueError,
               r"\[pad\] mode 'reflect' takes 3 elements from axis 0 of size 2"),
        Raises(lambda f: f(ndl.Tensor([1], dtype="int32"), 1, "constant", 0.5), TypeError,
               r"\[pad\] expected a whole number for int32, got 0\.5"),
    ),
    record(
        "crop", crop, (Call((5, 6), 1), Call((5, 6), PAIRS), Call((4,), Plain((0, 4)))),
        Raises(lambda f: f(zeros(2, 3), 2), ValueError,
               r"\[crop\] cannot take \(2, 2\) away from axis 0 of size 2"),
    ),
)  # fmt: skip


def joins(name):
    return (
        Raises(lambda f: f(zeros(2)), TypeError,
               rf"\[{name}\] expected a list or tuple of tensors, got Tensor"),
        Raises(lambda f: f([]), ValueError, rf"\[{name}\] expected at least one tensor, got none"),
        Raises(lambda f: f([1.0]), TypeError, rf"\[{name}\] expected a Tensor, got float"),
    )  # fmt: skip


def split_off(x, axis):
    """One array per position, without the axis."""
    return tuple(np.moveaxis(x, axis, 0))


def chunk(x, chunks, axis=0):
    """PyTorch's rule: pieces of ceil(n / chunks), the last one shorter; of nothing, all empty."""
    size = -(-x.shape[axis] // chunks)
    return tuple(np.split(x, range(size, x.shape[axis], size), axis)) if size else (x,) * chunks


JOINING = (
    OpRecord(
        "stack", np.stack,
        (Call([(2, 3), (2, 3)]), Call([(2, 3), (2, 3), (2, 3)], 1), Call([(2, 3), (2, 3)], 2),
         Call([(2, 3), (2, 3)], axis=-1), Call([(), ()], 0)),
        dtypes=DTYPES, exact=True,
        errors=(
            *joins("stack"),
            Raises(lambda f: f([zeros(2), zeros(3)]), ValueError,
                   r"\[stack\] expected equal shapes, got \(2,\) and \(3,\); concatenate joins"),
            Raises(lambda f: f([zeros(2), zeros(2)], 5), ValueError,
                   r"\[stack\] axis 5 is out of range for an array with 2 axes"),
        ),
    ),
    OpRecord(
        "concatenate", np.concatenate,
        (Call([(2, 3), (1, 3)]), Call([(2, 3), (2, 1), (2, 2)], 1), Call([(2, 3), (2, 1)], axis=-1),
         Call([(0, 3), (2, 3)]), Call([(2,)])),
        dtypes=DTYPES, exact=True,
        errors=(
            *joins("concatenate"),
            Raises(lambda f: f([zeros(2, 3), zeros(2, 4)], 0), ValueError,
                   r"\[concatenate\] .*\(2, 3\) and \(2, 4\)"),
            Raises(lambda f: f([zeros(2, 3), zeros(3)], 0), ValueError, r"\[concatenate\] "),
            out_of_range("concatenate", lambda f: f([zeros(2, 3), zeros(2, 3)], 5)),
        ),
    ),
    record("split", split_off, (Call((3, 2), 0), Call((2, 3), 1), Call((2, 3, 4), -1)),
           out_of_range("split", lambda f: f(zeros(2, 3), 5)), returns_tuple=True),
    record(
        "array_split", lambda x, s, axis=0: tuple(np.array_split(x, s, axis)),
        (Call((7, 2), 3), Call((2, 6), 2, axis=1), Call((7,), Plain([2, 5])),
         Call((2, 3), 4, axis=1)),
        Raises(lambda f: f(zeros(4), 0), ValueError,
               r"\[array_split\] expected at least one section, got 0"),
        Raises(lambda f: f(zeros(4), [3, 1]), ValueError,
               r"\[array_split\] expected increasing positions, got \[3, 1\]"),
        out_of_range("array_split", lambda f: f(zeros(2, 3), 2, 5)), returns_tuple=True,
    ),
    record("chunk", chunk, (Call((7, 2), 3), Call((2, 6), 2, axis=1), Call((5,), 4),
                           Call((2, 0), 3, axis=1)),
           Raises(lambda f: f(zeros(4), 0), ValueError, r"\[chunk\] expected .*got 0"),
           returns_tuple=True),
)  # fmt: skip


def repeat(x, repeats, axis=None):
    return np.repeat(x, repeats, axis)


REPEATING = (
    record("tile", np.tile,
           (Call((2, 3), 2), Call((2, 3), Plain((2, 2))), Call((3,), Plain((2, 1, 2))),
                             Call((2, 3), 0)),
           Raises(lambda f: f(zeros(2), -1), ValueError, r"\[tile\] .*-1")),
    record("repeat", repeat, (Call((2, 3), 2), Call((2, 3), 2, 0), Call((2, 3), 3, axis=-1),
                              Call((2, 3), 0, 1)),
           Raises(lambda f: f(zeros(2), -1, 0), ValueError, r"\[repeat\] .*-1"),
           Raises(lambda f: f(zeros(1, 2, 3), 4, 1, 1), TypeError, r"\[repeat\] .*tile\(4, 1, 1\)"),
           out_of_range("repeat", lambda f: f(zeros(2, 3), 2, 5))),
    record("roll", np.roll, (Call((2, 3), 1), Call((2, 3), -1, 0), Call((2, 3), 5, 1),
                             Call((2, 3), Plain((1, 2)), Plain((0, 1))), Call((0, 3), 1, 0)),
           out_of_range("roll", lambda f: f(zeros(2, 3), 1, 5))),
)  # fmt: skip


def dilate(x, axes, dilation):
    axes = (axes,) if isinstance(axes, int) else axes
    axes = {a % x.ndim for a in axes if -x.ndim <= a < x.ndim}
    step = dilation + 1
    out = np.zeros(tuple(n * step if i in axes else n for i, n in enumerate(x.shape)), x.dtype)
    out[tuple(slice(None, None, step if i in axes else 1) for i in range(x.ndim))] = x
    return out


def undilate(x, axes, dilation):
    axes = (axes,) if isinstance(axes, int) else axes
    return x[tuple(slice(None, None, dilation + 1 if i in axes else 1) for i in range(x.ndim))]


SPACING = (
    record("dilate", dilate, (Call((2, 3), Plain((0, 1)), 1), Call((2, 3), Plain((1,)), 2),
                              Call((2, 3), Plain((0,)), 0), Call((2, 3), Plain((5,)), 1),
                              Call((2, 3), 0, 1)),
           Raises(lambda f: f(zeros(2), (0,), -1), ValueError,
                  r"\[dilate\] expected a dilation >= 0, got -1")),
    record("undilate", undilate, (Call((4, 6), Plain((0, 1)), 1), Call((2, 7), Plain((1,)), 2),
                                  Call((2, 3), Plain((0,)), 0)),
           Raises(lambda f: f(zeros(2), (0,), -1), ValueError,
                  r"\[undilate\] expected a dilation >= 0, got -1")),
)  # fmt: skip


def element(x, index):
    return (x + 1, x - 2)[index]


def from_tuple(x, index):
    return ndl.ops.tuple_get_item(ndl.ops.fused_add_scalars(x, 1, -2), index)


TUPLES = (
    OpRecord("make_tuple", lambda *xs: xs, (Call((2, 3), (3,)), Call(())), returns_tuple=True,
             exact=True, dtypes=DTYPES,
             errors=(Raises(lambda f: f(1.0), TypeError, r"\[make_tuple\] expected a Tensor"),)),
    OpRecord("tuple_get_item", element, (Call((2, 3), 0), Call((2, 3), 1)), function=from_tuple,
             errors=(
                 Raises(lambda f: ndl.ops.tuple_get_item(zeros(2), 0), TypeError,
                        r"\[tuple_get_item\] expected a TensorTuple, got Tensor"),
                 Raises(lambda f: f(zeros(2), 2), IndexError,
                        r"\[tuple_get_item\] index 2 is out of range for 2 tensors"),
             ), dtypes=tuple(d for d in DTYPES if d.is_floating or d.kind == "i")),
    OpRecord("fused_add_scalars", lambda x, a, b: (x + a, x + b), (Call((2, 3), 1, 2),),
             returns_tuple=True,
             errors=(Raises(lambda f: f([1.0], 1, 2), TypeError,
                            r"\[fused_add_scalars\] expected a Tensor"),)),
)  # fmt: skip

RECORDS = (*BORDERS, *JOINING, *REPEATING, *SPACING, *TUPLES)
