"""Every mistake that a record lists gives its error, in the form `[op] expected, got, fix`."""

import pytest

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
