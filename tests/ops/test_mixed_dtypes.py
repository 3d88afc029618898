"""Two operands of different dtypes, and numbers on either side: NumPy's values and types."""

import operator
from itertools import product

import numpy as np
import pytest

import needle as ndl
from needle.dtype import DTYPES, bfloat16, bool_

NUMPY_DTYPES = [d for d in DTYPES if d is not bfloat16]
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod")
COMPARISONS = ("lt", "le", "gt", "ge")
BITS = ("and_", "or_", "xor", "lshift", "rshift")


def extremes(dtype):
    """Values where arithmetic in a narrower type would wrap around; none is 0."""
    if dtype is bool_:
        return np.array([True, True, False, True])
    if dtype.is_floating:
        return np.array([1.5, -2.5, 3.0, 0.5], dtype.storage)
    limits = np.iinfo(dtype.storage)
    low = limits.min if limits.min else 200
    return np.array([limits.max, low, 1, 7], dtype.storage)


def numpys(function, *operands):
    """NumPy's result, or None where it refuses."""
    with np.errstate(all="ignore"):
        try:
            return function(*operands)
        except (TypeError, OverflowError, ValueError):
            return None


def check(function, ours, theirs, about):
    expected = numpys(function, *theirs)
    if expected is None:
        with pytest.raises((TypeError, ValueError)):
            function(*ours)
        return
    found = function(*ours)
    assert found.dtype == expected.dtype, about
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, err_msg=about)


@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARISONS, *BITS])
def test_tensors_of_two_dtypes(name):
    function = getattr(operator, name)
    for a, b in product(NUMPY_DTYPES, NUMPY_DTYPES):
        x, y = extremes(a), extremes(b)[::-1]
        if name in ("lshift", "rshift") and not (a.is_floating or b.is_floating):
            y = np.abs(y.astype(np.int64) % 5).astype(b.storage)
        tensors = ndl.tensor(x), ndl.tensor(np.ascontiguousarray(y))
        check(function, tensors, (x, y), f"{a} {name} {b}")


@pytest.mark.parametrize("scalar", [0, 1, 3, -1, 127, 128, 200, -128, 300, 2.5, -2.5, 70000])
@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARISONS])
def test_numbers_on_both_sides(name, scalar):
    function = getattr(operator, name)
    for dtype in NUMPY_DTYPES:
        x = extremes(dtype)
        if dtype == "float16" and abs(scalar) > 60000:
            continue  # NumPy warns, we round to infinity
        refused = numpys(function, x, scalar) is None
        if not (name == "sub" and refused):  # x - s is x + (-s): one value more has a place
            check(function, (ndl.tensor(x), scalar), (x, scalar), f"{dtype} {name} {scalar}")
        check(function, (scalar, ndl.tensor(x)), (scalar, x), f"{scalar} {name} {dtype}")


@pytest.mark.parametrize("name", ["maximum", "minimum", "equal", "not_equal"])
def test_functions_of_two_dtypes(name):
    for a, b in product(NUMPY_DTYPES, NUMPY_DTYPES):
        x, y = extremes(a), extremes(b)
        ours = getattr(ndl, name)(ndl.tensor(x), ndl.tensor(y))
        expected = getattr(np, name)(x, y)
        assert ours.dtype == expected.dtype
        np.testing.assert_array_equal(ours.numpy(), expected)


def test_where_concatenate_and_matmul_promote():
    flags = np.array([True, False, True, False])
    for a, b in product(NUMPY_DTYPES, NUMPY_DTYPES):
        x, y = extremes(a), extremes(b)
        pairs = (
            (ndl.where(ndl.tensor(flags), ndl.tensor(x), ndl.tensor(y)), np.where(flags, x, y)),
            (ndl.concatenate([ndl.tensor(x), ndl.tensor(y)]), np.concatenate([x, y])),
            (ndl.matmul(ndl.tensor(x[:2]), ndl.tensor(y[2:])), np.matmul(x[:2], y[2:])),
        )
        for ours, expected in pairs:
            assert ours.dtype == expected.dtype
            np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-3)


def test_gradients_keep_the_dtype_of_their_input():
    x = ndl.Tensor([1.0, 2.0], dtype="float32")
    y = ndl.Tensor([3.0, 4.0], dtype="float64")
    for function in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow):
        function(x, y).sum().backward()
        assert x.grad.dtype == "float32" and y.grad.dtype == "float64"


@pytest.mark.parametrize("stored", ["float16", "bfloat16", "int8"])
def test_weights_in_fewer_bits(stored):
    """x @ w and its gradient by x, with w as it is stored: those of w in float32."""
    rng = np.random.default_rng(0)
    w = ndl.tensor(rng.integers(-9, 9, (6, 4)).astype(np.float32)).astype(stored)
    for shape in ((6,), (1, 6), (3, 6), (2, 5, 6)):
        x, y = (ndl.Tensor(rng.standard_normal(shape), dtype="float32") for _ in range(2))
        y.data = x.data
        found, expected = x @ w, y @ w.astype("float32").detach()
        assert found.dtype == "float32"
        found.square().sum().backward()
        expected.square().sum().backward()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5, atol=1e-4)


def test_weights_in_bfloat16_get_gradients_in_it():
    x = ndl.Tensor(np.random.default_rng(0).standard_normal((5, 6)), dtype="float32")
    w = ndl.Tensor(np.ones((6, 4)), dtype="bfloat16", requires_grad=True)
    (x @ w).sum().backward()
    assert w.grad.dtype == "bfloat16"
    expected = np.broadcast_to(x.numpy().sum(0)[:, None], (6, 4))
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-2)


def test_numpy_scalars_are_numbers():
    x = ndl.Tensor([5.0, 7.0])
    for scalar in (np.uint8(3), np.int8(-128), np.float32(0.5), np.bool_(True)):
        value = scalar.item()
        np.testing.assert_array_equal((x - scalar).numpy(), x.numpy() - value)
        np.testing.assert_array_equal((x + scalar).numpy(), x.numpy() + value)
    counts = ndl.tensor(np.array([5, 7], np.uint8))
    np.testing.assert_array_equal((counts - np.uint8(3)).numpy(), [2, 4])


def test_images_minus_their_mean():
    pixels = np.array([0, 1, 128, 255], np.uint8)
    image, mean = ndl.tensor(pixels), ndl.Tensor([10.0], dtype="float32")
    np.testing.assert_array_equal((mean - image).numpy(), np.float32(10) - pixels)
    np.testing.assert_array_equal((1 - ndl.tensor(pixels > 5)).numpy(), 1 - (pixels > 5))


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater"])
@pytest.mark.parametrize("scalar", [2**63, -(2**63) - 1, 2**200, 2**53 + 1, -1], ids=hex)
def test_integers_are_compared_with_numbers_of_any_size(name, scalar):
    values = np.array([2**63 - 1, -(2**63), 2**53, 0])
    compare = getattr(np, name)
    expected = compare(values.astype(object), scalar).astype(bool)
    swapped = compare(scalar, values.astype(object)).astype(bool)
    x = ndl.tensor(values)
    np.testing.assert_array_equal(getattr(ndl, name)(x, scalar).numpy(), expected)
    np.testing.assert_array_equal(getattr(ndl, name)(scalar, x).numpy(), swapped)


def test_clip_by_arrays():
    values, low = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([2.0, 3.0])
    expected = np.clip(values, low, 3.5)
    np.testing.assert_array_equal(ndl.tensor(values).clip(low, 3.5).numpy(), expected)
    np.testing.assert_array_equal(ndl.tensor(values).clip([2.0, 3.0], 3.5).numpy(), expected)
