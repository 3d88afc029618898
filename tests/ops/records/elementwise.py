"""Records of operators that work element by element."""

from __future__ import annotations

import inspect
import math

import numpy as np

import needle as ndl
from needle.dtype import DTYPES, bool_

from ..record import FLOATS, INTEGERS, NUMBERS, Call, OpRecord, Raises

UNARY = (Call((3, 4)), Call(()), Call((0, 3)), Call((2, 1, 5)), Call((17,)))
BINARY = (
    Call((3, 4), (3, 4)), Call((3, 4), (4,)), Call((3, 1), (1, 4)), Call((), (2, 3)),
    Call((0,), (1,)),
    Call((2, 3), ()),
)  # fmt: skip
BITS = (*INTEGERS, bool_)


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def needs_tensor(name):
    """What a function of one tensor says to anything else."""

    def call(f):
        required = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty]
        collected = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return f([1.0, 2.0], *(1 for p in required[1:] if p.kind not in collected))

    return Raises(call, TypeError, rf"\[{name}\] expected a Tensor, got list; wrap it with")


def needs_broadcast(name, call=None):
    return Raises(
        call or (lambda f: f(ndl.Tensor([1.0, 2.0]), ndl.Tensor([1.0, 2.0, 3.0]))),
        ValueError,
        rf"\[{name}\] shapes \(2,\) and \(3,\) do not broadcast: sizes 2 and 3 differ in axis -1",
    )


def unary(name, reference, domain=(-2.0, 2.0), **facts):
    facts.setdefault("errors", (needs_tensor(name),))
    return OpRecord(name, reference, UNARY, domain, **facts)


def not_for_bool(name):
    def call(f):
        return f(ndl.Tensor([True], dtype="bool"))

    return Raises(call, TypeError, rf"\[{name}\] expected numbers, got bool")


FUNCTIONS = (
    unary("abs", np.abs, dtypes=DTYPES, exact=True),
    unary("sign", np.sign, exact=True, errors=(needs_tensor("sign"), not_for_bool("sign"))),
    unary("square", np.square),
    unary("relu", lambda x: np.maximum(x, 0), exact=True),
    unary("exp", np.exp),
    unary("expm1", np.expm1),
    unary("log", np.log, (0.1, 3.0)),
    unary("log1p", np.log1p, (-0.4, 3.0)),
    unary("log2", np.log2, (0.1, 3.0)),
    unary("log10", np.log10, (0.1, 3.0)),
    unary("sqrt", np.sqrt, (0.1, 3.0)),
    unary("rsqrt", lambda x: 1 / np.sqrt(x), (0.5, 3.0)),
    unary("sin", np.sin),
    unary("cos", np.cos),
    unary("tan", np.tan, (-1.0, 1.0)),
    unary("asin", np.arcsin, (-0.9, 0.9)),
    unary("acos", np.arccos, (-0.9, 0.9)),
    unary("atan", np.arctan),
    unary("tanh", np.tanh),
    unary("sinh", np.sinh),
    unary("cosh", np.cosh),
    unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)), dtypes=FLOATS),
    unary("erf", erf, dtypes=FLOATS),
    unary("floor", np.floor, exact=True),
    unary("ceil", np.ceil, exact=True),
    unary("round", np.rint, exact=True, dtypes=FLOATS),
    unary("negate", np.negative, exact=True,
          errors=(needs_tensor("negate"), not_for_bool("negative"))),
    unary("isnan", np.isnan, order=0, dtypes=DTYPES),
    unary("isinf", np.isinf, order=0, dtypes=DTYPES),
    unary("isfinite", np.isfinite, order=0, dtypes=DTYPES),
    unary("logical_not", np.logical_not, order=0, dtypes=DTYPES),
    OpRecord("invert", np.invert, (Call((3, 4)),), order=0, dtypes=BITS, errors=(
        needs_tensor("invert"),
        Raises(lambda f: f(ndl.Tensor([1.0])), TypeError,
               r"\[invert\] expected integers or bools, got float(32|64)"),
    )),
)  # fmt: skip


def binary(name, reference, domain=(-2.0, 2.0), calls=BINARY, **facts):
    facts.setdefault("errors", (
        needs_broadcast(name),
        Raises(lambda f: f(1.0, 2.0), TypeError, rf"\[{name}\] expected (at least one|a) Tensor"),
        Raises(lambda f: f(ndl.Tensor([1.0]), "a"), TypeError,
               rf"\[{name}\] expected a Tensor, an array or a number, got str"),
    ))  # fmt: skip
    return OpRecord(name, reference, calls, domain, **facts)


def with_scalars(*scalars):
    return (*BINARY, *(Call((2, 3), s) for s in scalars), *(Call(s, (2, 3)) for s in scalars))


POWERS = (*with_scalars(2, 3, 1.7), Call((2, 3), -1.0), Call((2, 3), 0.5))
ARITHMETIC = (
    binary("add", np.add, calls=with_scalars(2, 3)),
    binary("subtract", np.subtract, calls=with_scalars(2, 1)),
    binary("multiply", np.multiply, calls=with_scalars(2, 3)),
    binary("divide", np.divide, (0.5, 2.0), calls=with_scalars(2, 4)),
    binary("power", np.power, (0.5, 2.0), calls=POWERS),
    binary("atan2", np.arctan2, (0.5, 2.0), calls=with_scalars(2)),
    binary("remainder", np.remainder, (0.6, 3.0), calls=with_scalars(2)),
    binary("floor_divide", np.floor_divide, (0.6, 3.0), calls=with_scalars(2)),
    binary("maximum", np.maximum, exact=True, calls=with_scalars(1)),
    binary("minimum", np.minimum, exact=True, calls=with_scalars(1)),
)


def scalar_form(name, reference, domain=(-2.0, 2.0)):
    return OpRecord(name, reference, (Call((3, 4), 3), Call((), 2)), domain)


SCALAR_FORMS = (
    scalar_form("add_scalar", np.add),
    scalar_form("mul_scalar", np.multiply),
    scalar_form("divide_scalar", np.divide),
    scalar_form("power_scalar", np.power, (0.5, 2.0)),
)

COMPARISONS = tuple(
    binary(name, getattr(np, name), order=0, dtypes=DTYPES)
    for name in "equal not_equal less less_equal greater greater_equal".split()
)

LOGIC = tuple(
    binary(name, getattr(np, name), order=0, dtypes=DTYPES)
    for name in "logical_and logical_or logical_xor".split()
)


def bits(name, domain=(-2.0, 2.0), dtypes=BITS):
    return OpRecord(
        name, getattr(np, name), BINARY, domain, order=0, dtypes=dtypes,
        errors=(
            Raises(lambda f: f(ndl.Tensor([1.0]), ndl.Tensor([2.0])), TypeError,
                   rf"\[{name}\] expected integers or bools, got float(32|64)"),
        ),
    )  # fmt: skip


BITWISE = (
    bits("bitwise_and"),
    bits("bitwise_or"),
    bits("bitwise_xor"),
    bits("left_shift", (0.0, 2.0), INTEGERS),
    bits("right_shift", (0.0, 2.0), INTEGERS),
)

MASK = np.array(
    [[True, False, True, True], [False, False, True, False], [True, True, False, False]]
)

CHOICE = (
    OpRecord(
        "where",
        np.where,
        (Call(MASK, (3, 4), (3, 4)), Call(MASK, (4,), ()), Call(MASK, (3, 1), 2),
         Call(MASK, 1, (4,)),
         Call(np.array(True), (2,), (2,)), Call(MASK[:, :1], (), (1, 5))),
        dtypes=NUMBERS, exact=True,
        errors=(
            Raises(lambda f: f(True, 1.0, 2.0), TypeError,
                   r"\[where\] expected at least one Tensor"),
            Raises(lambda f: f(ndl.ones(2) == "1", ndl.ones(2), 0.0), TypeError,
                   r"\[where\] expected a tensor of bools, got False; == compares tensors"),
            Raises(lambda f: f(ndl.Tensor([True, False], dtype="bool"), ndl.Tensor([1.0] * 3), 0),
                   ValueError, r"\[where\] shapes .* do not broadcast"),
        ),
    ),
    OpRecord(
        "clip", lambda x, min=None, max=None: np.clip(x, min, max),
        (Call((3, 4), -1, 1), Call((3, 4), min=0), Call((3, 4), max=1), Call((), 0, 1),
         Call((3, 4), 0.5, -0.5), Call((3, 4), (4,), 1), Call((3, 4), -1, (3, 1))),
        dtypes=FLOATS, exact=True,
        errors=(
            Raises(lambda f: f(ndl.Tensor([1.0])), ValueError,
                   r"\[clip\] expected min, max or both, got neither"),
            Raises(lambda f: f([1.0], 0, 1), TypeError, r"\[clip\] expected a Tensor, got list"),
        ),
    ),
)  # fmt: skip

CASTS = (
    OpRecord(
        "astype", lambda x, dtype: x.astype(dtype),
        (Call((3, 4), "float64"), Call((3, 4), "float32")),
        dtypes=DTYPES, result_dtype=lambda d: None, tolerance={"float64": 1e-6},
        reason="the second call rounds to float32", order=1, forward_mode=False,
        errors=(
            needs_tensor("astype"),
            Raises(lambda f: f(ndl.Tensor([1.0]), "float8"), TypeError,
                   r"\[dtype\] expected one of float32, .*got 'float8'"),
        ),
    ),
)  # fmt: skip

RECORDS = (
    *FUNCTIONS, *ARITHMETIC, *SCALAR_FORMS, *COMPARISONS, *LOGIC, *BITWISE, *CHOICE, *CASTS,
)  # fmt: skip
