"""Our own float32 functions stay within 2 ulp of the true value, on every instruction set."""

import math

import numpy as np
import pytest

from needle import _native

from .helpers import array, blank, instruction_set


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)  # in the type of x


FUNCTIONS = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
}


def floats():
    """All kinds of float32: random bits, the usual range, and the edges of functions."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 1 << 19, dtype=np.uint32).view(np.float32)
    usual = rng.uniform(-110, 110, 1 << 17).astype(np.float32)
    near = rng.uniform(-2, 2, 1 << 17).astype(np.float32)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 88.72284, 88.72283, -87.33655]
    edges += [-103.97208, -103.97209, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, 0.625, -0.625]
    edges += [0.92, -0.92, 3.92, -3.92, 4.0, 1048576.0, 1048577.0, 1e-3, -1e-3, 89.4, -89.4]
    return np.concatenate([bits, usual, near, np.array(edges, np.float32)])


def ulps(actual, expected):
    """Distance in units of the last place of float32, subnormals included."""
    _, exponent = np.frexp(expected)
    return np.abs(actual - expected) / np.ldexp(1.0, np.maximum(exponent - 24, -149))


@pytest.mark.parametrize("isa", _native.instruction_sets())
@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_two_ulp(name, isa):
    x = floats()
    out = blank(x.shape)
    with instruction_set(isa):
        _native.unary(name, out, array(x))
    actual = out.numpy()
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype(np.float64))
        rounded = expected.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    finite = np.isfinite(rounded) & np.isfinite(actual)
    np.testing.assert_array_equal(actual[~finite], rounded[~finite])
    assert ulps(actual[finite].astype(np.float64), expected[finite]).max() <= 2.0
    np.testing.assert_array_equal(np.signbit(actual[x == 0]), np.signbit(rounded[x == 0]))


@pytest.mark.parametrize("name, reference", [("power", np.power), ("atan2", np.arctan2)])
@pytest.mark.parametrize("isa", _native.instruction_sets())
def test_functions_of_two_within_two_ulp(name, reference, isa):
    rng = np.random.default_rng(1)
    edges = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, np.inf, -np.inf, np.nan]
    edges += [1e-45, -1e-45, 3.4e38, 1.0000001, 0.9999999, 1e10, 16777216.0, -16777217.0]
    corner = [a.reshape(-1) for a in np.meshgrid(np.array(edges, np.float32), edges)]
    bits = rng.integers(0, 1 << 32, (2, 1 << 18), dtype=np.uint32).view(np.float32)
    mild = rng.uniform(-9, 9, (2, 1 << 17)).astype(np.float32)
    mild[0] = np.abs(mild[0])
    x, y = (
        np.concatenate([c.astype(np.float32), b, m])
        for c, b, m in zip(corner, bits, mild, strict=True)
    )
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        y[1::3] = np.floor(y[1::3])
    out = blank(x.shape)
    with instruction_set(isa):
        _native.binary(name, out, array(x), array(y))
    actual = out.numpy()
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64), y.astype(np.float64))
        rounded = expected.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    finite = np.isfinite(rounded) & np.isfinite(actual)
    np.testing.assert_array_equal(actual[~finite], rounded[~finite])
    assert ulps(actual[finite].astype(np.float64), expected[finite]).max() <= 2.0
    signed = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(actual[signed]), np.signbit(rounded[signed]))


def test_instruction_sets_agree_in_every_bit():
    x, results = array(floats()), []
    for isa in _native.instruction_sets():
        with instruction_set(isa):
            out = blank(x.shape)
            for name in FUNCTIONS:
                _native.unary(name, out, x)
                values = out.numpy()
                values[np.isnan(values)] = np.nan  # one NaN is as good as another
                results.append((name, values.view(np.uint32)))
    for name in FUNCTIONS:
        first, *others = [bits for n, bits in results if n == name]
        assert all(np.array_equal(first, bits) for bits in others), name


def test_unknown_instruction_set():
    usable = ", ".join(_native.instruction_sets())
    with pytest.raises(RuntimeError, match=rf"must be one of .* \({usable}\), got 'sse9'"):
        _native.use_instruction_set("sse9")
