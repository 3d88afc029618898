"""Records of the small functions that PyTorch names."""

from __future__ import annotations

import numpy as np

from ..record import FLOATS, Call, OpRecord, Raises
from .movement import zeros

IDS = np.array([3, 0, 1, 1, 5])


def scaled_sum(combine):
    return lambda x, a, b, value=1: x + value * combine(a, b)


def addmm(x, a, b, beta=1, alpha=1):
    return beta * x + alpha * (a @ b)


def bincount(x, weights=None, minlength=0):
    return np.bincount(x, weights, minlength)


def cdist(a, b, p=2.0):
    return np.linalg.norm(a[..., :, None, :] - b[..., None, :, :], p, -1)


THREE = (Call((3, 4), (3, 4), (3, 4)), Call((3, 4), (4,), (3, 1), value=0.5))


def refuses(name, *rest):
    return (Raises(lambda f: f(np.ones(3), *rest), TypeError, rf"\[{name}\] expected a Tensor"),)


RECORDS = (
    OpRecord("reciprocal", lambda x: 1 / x, (Call((3, 4)),), domain=(0.5, 2.0), dtypes=FLOATS,
             errors=refuses("reciprocal")),
    OpRecord("clamp_min", np.maximum, (Call((3, 4), 0.25), Call((3, 4), (4,))), dtypes=FLOATS,
             errors=refuses("clip", 1)),
    OpRecord("clamp_max", np.minimum, (Call((3, 4), 0.25), Call((3, 4), (4,))), dtypes=FLOATS,
             errors=refuses("clip", 1)),
    OpRecord("lerp", lambda x, y, w: x + w * (y - x),
             (Call((3, 4), (3, 4), 0.25), Call((3, 4), (4,), (3, 1)), Call((3,), 2.0, 0.5)),
             dtypes=FLOATS, errors=refuses("lerp", 1.0, 0.5)),
    OpRecord("addcmul", scaled_sum(np.multiply), THREE, dtypes=FLOATS,
             errors=refuses("addcmul", zeros(3), 1.0)),
    OpRecord("addcdiv", scaled_sum(np.divide), THREE, domain=(0.5, 2.0), dtypes=FLOATS,
             errors=refuses("addcdiv", zeros(3), 1.0)),
    OpRecord("addmm", addmm,
             (Call((3, 4), (3, 2), (2, 4)), Call((4,), (3, 2), (2, 4), beta=0.5, alpha=2),
              Call((5, 3, 4), (5, 3, 2), (5, 2, 4))),
             dtypes=FLOATS,
             errors=(Raises(lambda f: f(zeros(3), zeros(2, 3), zeros(2, 3)), ValueError,
                            r"\[addmm\]"),)),
    OpRecord("broadcast_tensors", lambda *a: tuple(np.broadcast_arrays(*a)),
             (Call((3, 1), (4,)), Call((2,), (3, 2), ())), returns_tuple=True, exact=True,
             errors=(Raises(lambda f: f(zeros(3), zeros(2)), ValueError,
                            r"\[broadcast_tensors\] shapes .* do not broadcast"),)),
    OpRecord("bincount", bincount,
             (Call(IDS), Call(IDS, minlength=9), Call(IDS[:0]), Call(IDS, (5,))),
             dtypes=FLOATS, order=0, data_dependent=True, result_dtype=lambda d: None,
             errors=(Raises(lambda f: f(zeros(2, 3)), ValueError,
                            r"\[bincount\] expected a vector of integers >= 0, got float"),)),
    OpRecord("cdist", cdist,
             (Call((3, 4), (2, 4)), Call((2, 3, 4), (2, 5, 4)), Call((3, 4), (2, 4), 1.0)),
             dtypes=FLOATS,
             errors=(Raises(lambda f: f(zeros(2, 3), zeros(2, 4)), ValueError,
                            r"\[cdist\] expected rows of one length, got \(2, 3\) and \(2, 4\)"),
                     Raises(lambda f: f(zeros(3), zeros(3)), ValueError,
                            r"\[cdist\] expected rows \(\.\.\., N, D\), got \(3,\)"))),
)  # fmt: skip
