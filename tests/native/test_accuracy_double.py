"""Our own float64 functions stay within 2 ulp of the true value, on every instruction set."""

import numpy as np
import pytest

from needle import _native
from needle.dtype import float64
from needle.tile import program as p

from .helpers import array, blank, instruction_set
from .test_accuracy import FUNCTIONS as TRUE

WIDE = np.longdouble
pytestmark = pytest.mark.skipif(
    np.finfo(WIDE).nmant < 60, reason="the true values need a wider type than float64"
)


FUNCTIONS = {
    name: TRUE[name] for name in ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "sin", "cos")
}

EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -5e-324, 2.2250738585072014e-308]
EDGES += [1e-310, 1.7976931348623157e308, -1.7976931348623157e308, 0.5, 2.0, 1e-17, -1e-17, 1e-9]
EDGES += [709.782712893384, 709.7827128933841, -745.1332191019411, -745.1332191019412, -708.4]
EDGES += [0.625, -0.625, 0.62499999999, 19.1, 20.0, -20.0, -36.8, -37.5, 0.7071067811865476]
EDGES += [1.4142135623730951, 0.34657359027997264, -0.2928932188134525, 0.4142135623730951]
EDGES += [1048576.0, 1048576.5, -1048577.0, 1e22, -1e300]


def doubles():
    """All kinds of float64: random bits, grids over the usual ranges, what lies nearest to
    multiples of pi / 2, and the edges of functions."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 64, 1 << 15, dtype=np.uint64).view(np.float64)
    grids = [np.linspace(-top, top, 30_001) for top in (2.0, 40.0, 760.0)]
    near = 1 + rng.uniform(-1, 1, 1 << 13) * 2.0 ** -rng.integers(1, 50, 1 << 13)
    angles = np.concatenate([np.arange(4000), rng.integers(0, 667_000, 1 << 14)])
    quarters = (angles * (WIDE(np.pi) / 2 + WIDE(6.123233995736766e-17))).astype(np.float64)
    return np.concatenate([bits, *grids, near, near - 1, quarters, -quarters, EDGES])


def ulps(actual, expected):
    """Distance in units of the last place of float64, subnormals included."""
    _, exponent = np.frexp(expected)
    return np.abs(actual - expected) / np.ldexp(WIDE(1), np.maximum(exponent - 53, -1074))


def results(name, x, isa):
    out = blank(x.shape, "float64")
    with instruction_set(isa):
        _native.unary(name, out, array(x))
    return out.numpy()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_two_ulp(name):
    x = doubles()
    actual = results(name, x, _native.instruction_sets()[0])
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype(WIDE))
        rounded = expected.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    finite = np.isfinite(rounded) & np.isfinite(actual)
    np.testing.assert_array_equal(actual[~finite], rounded[~finite])
    assert ulps(actual[finite].astype(WIDE), expected[finite]).max() <= 2.0
    np.testing.assert_array_equal(np.signbit(actual[x == 0]), np.signbit(rounded[x == 0]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_instruction_sets_agree_in_every_bit(name):
    x = doubles()
    first, *others = (results(name, x, isa) for isa in _native.instruction_sets())
    for other in others:
        np.testing.assert_array_equal(other, first)  # NaN is NaN
        np.testing.assert_array_equal(np.signbit(other[x == 0]), np.signbit(first[x == 0]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_neighbours_make_no_difference(name):
    """A large angle in a tile changes nothing about the others; one element is as good as many."""
    x = doubles()
    together = results(name, x, _native.instruction_sets()[0])
    few = np.random.default_rng(1).integers(0, x.size, 300)
    alone = [results(name, x[i : i + 1], _native.instruction_sets()[0])[0] for i in few]
    np.testing.assert_array_equal(together[few], alone)
    function = p.trace(lambda v: p.apply(name, v), name, ["x"])
    out = blank(x.shape, "float64")
    _native.run(function.for_dtypes((float64,)), [out], [array(x)], 1)
    np.testing.assert_array_equal(out.numpy(), together)
