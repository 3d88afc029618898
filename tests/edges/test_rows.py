"""Functions of rows at special values: value, gradient, and the same when compiled."""

import pytest

from .rows import ROWS, alike_in_any_order, triples
from .test_elementwise import DTYPES, check
from .values import agree, compiled, describe, few_specials, value_and_gradients


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("edge", ROWS, ids=str)
def test_value_and_gradient(edge, dtype):
    check(edge, [triples(few_specials(dtype))])


@pytest.mark.parametrize("edge", ROWS, ids=str)
def test_compiled_as_eager(edge):
    """But for the order of a sum, and its rounding: both are those of a program's row."""
    x = triples(few_specials("float32"))
    x = x[alike_in_any_order(x)]
    eager = value_and_gradients(edge.function, [x], "float32")
    for ours, expected in zip(compiled(edge.function, [x], "float32"), eager, strict=True):
        bad = ~agree(ours, expected, units=4, absolute=1e-7)
        assert not bad.any(), describe(bad, [x], ours, expected)
