"""Every operator against NumPy in float64: values, shapes and dtypes."""

import numpy as np
import pytest

from .record import Arguments, assert_matches, results
from .records import RECORDS

CASES = [(r, c) for r in RECORDS for c in r.calls]


def base_dtype(record):
    """float64, or int64 for operators on integers."""
    return next(d for name in ("float64", "int64", "bool") for d in record.supported if d == name)


@pytest.mark.parametrize(("record", "call"), CASES, ids=[f"{r}{c}" for r, c in CASES])
def test_forward(record, call):
    arguments = Arguments(record, call, base_dtype(record))
    args, kwargs = arguments.tensors()
    found = results(record(*args, **kwargs))
    args, kwargs = arguments.arrays()
    expected = record.reference(*args, **kwargs)
    wanted = list(expected) if isinstance(expected, tuple) else [expected]
    assert len(found) == len(wanted)
    for actual, exact in zip(found, wanted, strict=True):
        about = f"{record}{call}"
        assert_matches(record, actual, exact, "float64", about)
        assert actual.shape == np.shape(exact), about
        if record.result_dtype is None:
            assert actual.dtype == np.asarray(exact).dtype, about
