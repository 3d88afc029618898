"""Every operator in every dtype that it supports: NumPy's result type, values within rounding."""

import numpy as np
import pytest

from needle.dtype import bfloat16

from .record import Arguments, assert_matches, results
from .records import RECORDS

CASES = [(r, d) for r in RECORDS for d in r.supported]


def expected_dtype(record, arguments, position):
    """The record's rule, or NumPy's own for arrays of this dtype (bfloat16 as float16)."""
    dtype = arguments.dtype
    if record.result_dtype is not None:
        return record.result_dtype(dtype)
    args, kwargs = arguments.arrays("float16" if dtype is bfloat16 else dtype.storage)
    with np.errstate(all="ignore"):
        result = record.reference(*args, **kwargs)
    found = np.asarray(result[position] if isinstance(result, tuple) else result).dtype.name
    return "bfloat16" if dtype is bfloat16 and found == "float16" else found


@pytest.mark.parametrize(("record", "dtype"), CASES, ids=[f"{r}-{d}" for r, d in CASES])
def test_dtypes(record, dtype):
    for call in record.calls:
        arguments = Arguments(record, call, dtype, seed=3)
        args, kwargs = arguments.tensors()
        found = results(record(*args, **kwargs))
        args, kwargs = arguments.arrays()
        expected = record.reference(*args, **kwargs)
        wanted = list(expected) if isinstance(expected, tuple) else [expected]
        for i, (actual, exact) in enumerate(zip(found, wanted, strict=True)):
            about = f"{record}{call} in {dtype}"
            rule = expected_dtype(record, arguments, i)
            assert rule is None or actual.dtype == rule, (
                f"{about}: {actual.dtype} instead of {rule}"
            )
            assert_matches(record, actual, exact, actual.dtype, about)
