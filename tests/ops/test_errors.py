"""Every mistake that a record lists gives its error, in the form `[op] expected, got, fix`."""

import re

import numpy as np
import pytest

import needle as ndl

from .records import CREATION, RECORDS

CASES = [(r, e) for r in (*RECORDS, *CREATION) for e in r.errors]


@pytest.mark.parametrize(
    ("record", "case"), CASES, ids=[f"{r}-{i}" for i, (r, _) in enumerate(CASES)]
)
def test_errors(record, case):
    with pytest.raises(case.error, match=case.match) as caught:
        case.call(record.operator)
    assert type(caught.value) is case.error
    assert str(caught.value).startswith("[")


@pytest.mark.parametrize("record", [r for r in RECORDS if r.name not in ("add_scalar",)], ids=str)
def test_every_operator_has_an_error_case(record):
    scalar_forms = ("mul_scalar", "divide_scalar", "power_scalar")
    assert record.errors or record.name in scalar_forms


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ndl.topk(x, 1.5), TypeError, "[topk] k must be a whole number, got 1.5"),
        (lambda x: ndl.repeat(x, 1.5), TypeError, "[repeat] repeats must be a whole number"),
        (lambda x: ndl.roll(x, 1.5), TypeError, "[roll] shifts must be a whole number"),
        (lambda x: ndl.chunk(x, 1.5), TypeError, "[chunk] chunks must be a whole number"),
        (lambda x: ndl.repeat(x, [1.5, 1, 1]), ValueError, "[repeat] expected one whole number"),
        (lambda x: ndl.repeat(x, [-1, 1, 1]), ValueError, "[repeat] expected one whole number"),
        (lambda x: ndl.repeat(x, "a"), ValueError, "[repeat] expected one whole number"),
        (lambda x: ndl.split(x, 1.5, 0), TypeError, "[split] size must be a whole number, got 1.5"),
        (lambda x: ndl.split(x, [], 0), ValueError, "[split] expected sizes that sum to 3"),
        (lambda x: ndl.split(x, [1.5] * 2, 0), TypeError, "[split] sizes must be a whole number"),
        (lambda x: ndl.array_split(x, None), TypeError, "[array_split] sections must be a whole"),
        (lambda x: ndl.array_split(x, "a"), TypeError, "[array_split] positions must be a whole"),
        (lambda x: x[:0].unflatten(0, (0, -1)), ValueError, "[unflatten] expected sizes of 0"),
        (lambda x: x.unflatten(0, 2.0), TypeError, "[unflatten] a shape is made of integers"),
        (lambda x: x.diag("a"), TypeError, "[diag] diagonal must be a whole number, got 'a'"),
        (lambda x: x.diag().diagonal(1.5), TypeError, "[diagonal] offset must be a whole number"),
        (lambda x: x.diag().tril(1.5), TypeError, "[tril] k must be a whole number, got 1.5"),
        (lambda x: x.sum(np.array([0.5])), TypeError, "[sum] axis must be an integer"),
        (lambda x: x.sum(x), TypeError, "[sum] axis must be an integer, got needle.Tensor"),
        (lambda x: x.masked_select(None), TypeError, "[masked_select] expected a Tensor, an array"),
        (lambda x: ndl.numel([x]), TypeError, "[numel] expected a Tensor, got list"),
        (lambda x: ndl.index_add(x, 0, [0], x), ValueError, "[index_add] expected src of shape (1"),
        (lambda x: ndl.index_add(x, 0, 1, x), ValueError, "[index_add] expected src of shape (1,)"),
        (lambda x: ndl.einsum(x, x), TypeError, "[einsum] expected subscripts like"),
        (lambda x: x * np.complex64(1j), TypeError, "[multiply] expected an array or a number"),
        (lambda x: x + np.str_("a"), TypeError, "[add] expected an array or a number, got str_"),
        (lambda x: ndl.add_scalar(x, None), TypeError, "[add_scalar] expected an array"),
        (lambda x: ndl.power_scalar(x, []), TypeError, "[power_scalar] expected an array"),
        (lambda x: ndl.dilate(x, 0, "a"), TypeError, "[dilate] dilation must be a whole number"),
        (lambda x: ndl.std(x, ddof=1, unbiased=True), TypeError, "[std] give unbiased or a correc"),
        (lambda x: ndl.var(x, ddof="a"), TypeError, "[var] the correction must be a number"),
        (lambda x: ndl.pad(x.astype("int8"), 1, value=300), ValueError, "[pad] 300 does not fit"),
    ],
)
def test_arguments_of_the_wrong_kind(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call(ndl.ones(3))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("subtract", lambda x: x - ndl.ones(2)),
        ("subtract", lambda x: ndl.ones(3, dtype="bool") - ndl.ones(3, dtype="bool")),
        ("clip", lambda x: x.clip(ndl.ones(2), 1.0)),
        ("clip", lambda x: x.clip("low", 1.0)),
        ("take", lambda x: ndl.take(x, [5])),
        ("index_select", lambda x: ndl.index_select(x, 0, ndl.tensor([5]))),
        ("norm", lambda x: x.norm(axis=3)),
        ("median", lambda x: x.median(axis=3)),
        ("masked_fill", lambda x: x.masked_fill(ndl.ones(2, dtype="bool"), 0.0)),
        ("expand", lambda x: x.expand(4)),
    ],
)
def test_operators_made_of_others_report_under_their_own_name(name, call):
    with pytest.raises((TypeError, ValueError, IndexError), match=rf"^\[{name}\] "):
        call(ndl.ones(3))
