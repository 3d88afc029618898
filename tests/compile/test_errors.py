"""The errors of eager mode, from compiled functions: also those about elements."""

import re

import numpy as np
import pytest

import needle as ndl
from needle.compiler.errors import TraceError

from ..ops.records import CREATION, RECORDS

CASES = [(r, e) for r in (*RECORDS, *CREATION) for e in r.errors]
NEED_ELEMENTS = {"multinomial"}  # it cannot be compiled at all
WITHOUT_NUMBERS = re.compile(r"\[bernoulli\] expected probabilities from 0 to 1, got others\.")


@pytest.mark.parametrize(
    ("record", "case"), CASES, ids=[f"{r}-{i}" for i, (r, _) in enumerate(CASES)]
)
def test_a_mistake_is_refused_as_in_eager_mode(record, case):
    with pytest.raises(case.error) as caught:
        case.call(record.operator)
    with pytest.raises((case.error, TraceError)) as compiled:
        ndl.jit(lambda: case.call(record.operator))()
    text = str(compiled.value)
    if type(compiled.value) is TraceError:
        assert record.name in NEED_ELEMENTS
    else:
        assert type(compiled.value) is type(caught.value)
        assert re.search(case.match, text) or WITHOUT_NUMBERS.match(text)


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_negative_powers_of_integers_are_refused(dtype, fuse):
    f = ndl.jit(lambda a, b: a**b + 1, fuse=fuse)
    base = ndl.tensor(np.array([[2, 3], [4, 5]], dtype))
    assert f(base, ndl.tensor(np.array([3, 0], dtype))).tolist() == [[9, 2], [65, 2]]
    with pytest.raises(ValueError, match=r"got exponent -7; cast the base .*\n.*test_errors.py"):
        f(base, ndl.tensor(np.array([3, -7], dtype)))
    assert f(base, ndl.tensor(np.array([1, 1], dtype))).tolist() == [[3, 4], [5, 6]]


def test_a_power_that_fails_leaves_tensors_as_they_were():
    state = ndl.zeros(2)

    @ndl.jit
    def f(a, b):
        state.data = state + 1
        return a**b

    f(ndl.tensor([2, 3]), ndl.tensor([1, 2]))
    with pytest.raises(ValueError, match="got exponent -1"):
        f(ndl.tensor([2, 3]), ndl.tensor([1, -1]))
    assert state.tolist() == [1, 1]


def test_a_power_in_a_loop_is_checked():
    f = ndl.jit(lambda xs: ndl.scan(lambda c, x: (c + ndl.tensor([2, 3]) ** x, None), xs[0], xs)[0])
    assert f(ndl.tensor([[1, 2], [0, 1]])).tolist() == [4, 14]
    with pytest.raises(ValueError, match="got exponent -2"):
        f(ndl.tensor([[1, 2], [0, -2]]))


@pytest.mark.parametrize("wrong", [1.5, -0.1, float("nan")])
def test_probabilities_are_checked(wrong):
    f = ndl.jit(lambda p: ndl.bernoulli(p))
    assert f(ndl.tensor([0.0, 1.0])).tolist() == [0, 1]
    with pytest.raises(ValueError, match="expected probabilities from 0 to 1"):
        f(ndl.tensor([0.0, wrong]))
