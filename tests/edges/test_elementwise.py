"""Elementwise functions at special values: value, gradient, and the same when compiled."""

import numpy as np
import pytest

from .elementwise import UNARY
from .pairs import PAIRS, TRIPLES
from .values import (
    agree,
    compiled,
    describe,
    few_specials,
    grid,
    specials,
    value_and_gradients,
)

EDGES = (*UNARY, *PAIRS, *TRIPLES)
DTYPES = ("float32", "float64")


def operands(edge, dtype):
    """All tuples of special values, as many as the function takes."""
    count = len(edge.slopes)
    return grid(specials(dtype) if count < 3 else few_specials(dtype), count)


def check(edge, arrays):
    """The value and the gradients of a function at these operands are what its formulas say."""
    found = value_and_gradients(edge.function, arrays, str(arrays[0].dtype))
    for what, (ours, expected) in enumerate(zip(found, edge.expected(arrays), strict=True)):
        bad = ~agree(ours, expected, edge.units, edge.error(what, ours.dtype))
        name = f"gradient {what - 1}" if what else "value"
        assert not bad.any(), f"{edge} {name}: {describe(bad, arrays, ours, expected)}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("edge", EDGES, ids=str)
def test_value_and_gradient(edge, dtype):
    check(edge, operands(edge, dtype))


@pytest.mark.parametrize("edge", EDGES, ids=str)
def test_compiled_as_eager(edge):
    arrays = operands(edge, "float32")
    eager = value_and_gradients(edge.function, arrays, "float32")
    for ours, expected in zip(compiled(edge.function, arrays, "float32"), eager, strict=True):
        np.testing.assert_array_equal(ours, expected)
