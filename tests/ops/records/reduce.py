"""Records of reductions, running totals and softmax."""

from __future__ import annotations

import numpy as np

import needle as ndl
from needle.dtype import DTYPES

from ..record import FLOATS, NUMBERS, Call, OpRecord, Plain, Raises
from .elementwise import needs_tensor

REDUCED = (
    Call((3, 4)), Call((3, 4), 0), Call((3, 4), -1, True), Call((2, 3, 4), Plain((0, 2))),
    Call((2, 3, 4), axes=(1,), keepdims=True), Call((2, 3), axis=1), Call((2, 3), dim=0), Call(()),
    Call((5,), Plain(())), Call((1, 3), 0),
)  # fmt: skip
WITH_EMPTY = (*REDUCED, Call((0, 3), 0), Call((0, 3)), Call((2, 0), 0))


def over(function):
    """A NumPy reduction that takes its axes by any of the three names."""

    def reference(x, axes=None, keepdims=False, *, axis=None, dim=None, **options):
        given = [a for a in (axes, axis, dim) if a is not None]
        return function(x, axis=given[0] if given else None, keepdims=keepdims, **options)

    return reference


def axis_errors(name):
    """What every function of axes says to wrong ones."""
    return (
        needs_tensor(name),
        Raises(lambda f: f(ndl.Tensor([[1.0]]), 2), ValueError,
               rf"\[{name}\] axis 2 is out of range for an array with 2 axes; use -2 to 1\."),
        Raises(lambda f: f(ndl.Tensor([[1.0]]), 1.5), TypeError,
               rf"\[{name}\] axis must be an integer, got 1\.5"),
        Raises(lambda f: f(ndl.Tensor([[1.0]]), axis=0, dim=1), TypeError,
               rf"\[{name}\] give one of axes, axis and dim, got \[0, 1\]"),
    )  # fmt: skip


def axes_errors(name):
    return (
        *axis_errors(name),
        Raises(lambda f: f(ndl.Tensor([[1.0]]), (0, 0)), ValueError,
               rf"\[{name}\] axes must be distinct, got \(0, 0\)"),
    )  # fmt: skip


def of_nothing(name):
    return Raises(
        lambda f: f(ndl.Tensor(np.zeros((0, 3))), 0), ValueError,
        rf"\[{name}\] an empty axis has no {name}: shape \(0, 3\), axes \(0,\)",
    )  # fmt: skip


def reduction(name, function, calls=REDUCED, **facts):
    facts.setdefault("errors", axes_errors(name))
    return OpRecord(name, over(function), calls, **facts)


def int64_sums(dtype):
    return dtype if dtype.is_floating else "int64"


def floating_means(dtype):
    return dtype if dtype.is_floating else "float64"


def logsumexp(x, axis=None, keepdims=False):
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis if axis is not None else None)


def std_calls(*options):
    return (*REDUCED[:4], *(Call((3, 4), 0, **o) for o in options), Call((2, 3, 4), axis=(0, 1)))


def variance(function):
    def reference(x, axis=None, keepdims=False, correction=0, ddof=0, unbiased=False):
        return function(x, axis=axis, keepdims=keepdims, ddof=correction or ddof or unbiased)

    return reference


SUMS = (
    reduction("summation", np.sum, WITH_EMPTY, dtypes=DTYPES, result_dtype=int64_sums,
              errors=axes_errors("sum")),
    reduction("mean", np.mean, dtypes=NUMBERS, result_dtype=floating_means),
    reduction("prod", np.prod, WITH_EMPTY, result_dtype=int64_sums),
    reduction("var", variance(np.var),
              std_calls({"correction": 1}, {"ddof": 1}, {"unbiased": True}),
              result_dtype=floating_means, errors=(*axes_errors("var"), Raises(
                  lambda f: f(ndl.Tensor([1.0]), correction=1, ddof=1), TypeError,
                  r"\[var\] give one of correction and ddof, got 1 and 1"))),
    reduction("std", variance(np.std), std_calls({"correction": 1}, {"unbiased": False}),
              result_dtype=floating_means),
    reduction("max", np.max, exact=True, errors=(*axes_errors("max"), of_nothing("max"))),
    reduction("min", np.min, exact=True, errors=(*axes_errors("min"), of_nothing("min"))),
    reduction("amax", np.max, exact=True, errors=(*axes_errors("max"), of_nothing("max"))),
    reduction("amin", np.min, exact=True, errors=(*axes_errors("min"), of_nothing("min"))),
    reduction("any", np.any, WITH_EMPTY, order=0, dtypes=DTYPES),
    reduction("all", np.all, WITH_EMPTY, order=0, dtypes=DTYPES),
    reduction("logsumexp", logsumexp, dtypes=FLOATS, errors=axes_errors("logsumexp")),
)  # fmt: skip

ALONG = (
    Call((3, 4)),
    Call((3, 4), 0),
    Call((3, 4), -1),
    Call((2, 3, 4), axis=1),
    Call((5,), dim=0),
)


def along(function):
    def reference(x, axis=None, *, axes=None, dim=None, **options):
        given = [a for a in (axis, axes, dim) if a is not None]
        return function(x, axis=given[0] if given else None, **options)

    return reference


ARGUMENTS = (
    OpRecord("argmax", along(np.argmax), (*ALONG, Call((3, 4), 0, keepdims=True)), order=0,
             dtypes=DTYPES, result_dtype=lambda d: "int64",
             errors=(*axis_errors("argmax"), of_nothing("argmax"))),
    OpRecord("argmin", along(np.argmin), (*ALONG, Call((3, 4), 1, keepdims=True)), order=0,
             dtypes=DTYPES, result_dtype=lambda d: "int64",
             errors=(*axis_errors("argmin"), of_nothing("argmin"))),
)  # fmt: skip

SCANS = (
    OpRecord("cumsum", along(np.cumsum), (*ALONG, Call((0, 3), 0)), result_dtype=int64_sums,
             errors=axis_errors("cumsum")),
    OpRecord("cumprod", along(np.cumprod),
             (*ALONG, Call((2, 0), 1), Call(np.array([1.5, 0.0, 2.0, 0.0, 3.0]), 0)),
             result_dtype=int64_sums, errors=axis_errors("cumprod")),
)  # fmt: skip


def norm(x, ord=None, axes=None, keepdims=False, *, axis=None, p=None):
    ord = 2 if ord is p is None else ord if p is None else p
    axes = axes if axes is not None else axis
    axes = tuple(range(x.ndim)) if axes is None else axes
    if ord == np.inf:
        return np.abs(x).max(axis=axes, keepdims=keepdims)
    if ord == -np.inf:
        return np.abs(x).min(axis=axes, keepdims=keepdims)
    power = 2 if ord == "fro" else ord
    return (np.abs(x) ** power).sum(axis=axes, keepdims=keepdims) ** (1 / power)


NORMS = (
    OpRecord(
        "norm", norm,
        (Call((3, 4)), Call((3, 4), 1), Call((3, 4), 2, 0), Call((3, 4), 3, axis=1, keepdims=True),
         Call((2, 3, 4), axis=(1, 2)), Call((2, 3, 4), axis=(0, 2), keepdims=True), Call(()),
         Call((2, 3, 4), axis=-1, keepdims=True), Call((3, 4), np.inf, 1), Call((3, 4), -np.inf),
         Call((3, 4), "fro"), Call((2, 3), 1.5), Call((3, 4), p=1, axis=1), Call((2, 3), -1),
         Call((2, 3), -1.5, axis=1), Call((0, 3), axis=0)),
        dtypes=FLOATS,
        errors=(
            needs_tensor("norm"),
            Raises(lambda f: f(ndl.Tensor([1.0]), "nuc"), ValueError,
                   r"\[norm\] ord must be .*got 'nuc'"),
        ),
    ),
)  # fmt: skip


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def normalizer(name, reference):
    calls = (Call((3, 4)), Call((3, 4), 0), Call((2, 3, 4), axis=1), Call((5,), dim=-1))
    errors = (
        needs_tensor(name),
        Raises(lambda f: f(ndl.Tensor([1.0]), 3), ValueError, r"\[.*softmax\] axis 3 is out of"),
    )
    return OpRecord(name, reference, calls, dtypes=FLOATS, errors=errors)


def by_any_name(function):
    def reference(x, axis=-1, *, dim=None):
        return function(x, axis if dim is None else dim)

    return reference


SOFTMAX = (
    normalizer("softmax", by_any_name(softmax)),
    normalizer("logsoftmax", by_any_name(lambda x, axis: np.log(softmax(x, axis)))),
)

RECORDS = (*SUMS, *ARGUMENTS, *SCANS, *NORMS, *SOFTMAX)
