"""Reductions where the textbook rule fails: zeros in products, ties, infinities, unused parts."""

import numpy as np
import pytest

import needle as ndl


def leaf(values, dtype="float64"):
    return ndl.Tensor(np.array(values), dtype=dtype)


def gradient(f, x):
    f(x).backward()
    return x.grad


ROWS = [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 3.0, 0.0]]


def test_prod_gradient_is_the_product_of_the_others_with_no_one_and_two_zeros():
    x = leaf(ROWS)
    assert gradient(lambda x: x.prod(1), x).tolist() == [[12, 8, 6], [0, 8, 0], [0, 0, 0]]


def test_prod_has_second_derivatives_at_zeros():
    # d²/dx_i dx_j = the product of the rest, so for three factors the remaining one.
    x = leaf(ROWS)
    first = gradient(lambda x: x.prod(1), x)
    second = gradient(lambda _: first[:, 0], x)
    assert second.tolist() == [[0, 4, 3], [0, 4, 0], [0, 0, 3]]


def test_cumprod_gradient_with_zeros():
    # y = (a, ab, abc): da = 1 + b + bc, db = a + ac, dc = ab.
    x = leaf(ROWS)
    assert gradient(lambda x: x.cumprod(1), x).tolist() == [[16, 10, 6], [1, 10, 0], [4, 0, 0]]


def test_cumprod_has_second_derivatives_at_zeros():
    # d(da)/d(a, b, c) = (0, 1 + c, b)
    x = leaf(ROWS)
    first = gradient(lambda x: x.cumprod(1), x)
    second = gradient(lambda _: first[:, 0], x)
    assert second.tolist() == [[0, 5, 3], [0, 5, 0], [0, 1, 3]]


TIES = [[1.0, 1.0, 1.0, 1.0], [2.0, 5.0, 5.0, 2.0]]


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_first_of_equals_gets_the_gradient_along_an_axis(name):
    grad = gradient(lambda x: getattr(x, name)(1), leaf(TIES)).numpy()
    assert grad[0].tolist() == [1, 0, 0, 0]
    assert grad[1].tolist() == ([0, 1, 0, 0] if name == "max" else [1, 0, 0, 0])
    nan = gradient(lambda x: getattr(x, name)(0), leaf([1.0, np.nan, np.nan]))
    assert nan.tolist() == [0, 1, 0]


@pytest.mark.parametrize("name", ["amax", "amin"])
def test_equals_share_the_gradient_of_amax(name):
    grad = gradient(lambda x: getattr(x, name)(1), leaf(TIES)).numpy()
    assert grad[0].tolist() == [0.25] * 4
    assert grad[1].tolist() == ([0, 0.5, 0.5, 0] if name == "amax" else [0.5, 0, 0, 0.5])


@pytest.mark.parametrize("axes", [None, (0, 1)])
def test_equals_share_the_gradient_over_several_axes(axes):
    assert gradient(lambda x: x.max(axes), leaf(TIES)).tolist() == [[0] * 4, [0, 0.5, 0.5, 0]]
    assert gradient(lambda x: x.min(axes), leaf(TIES)).tolist() == [[0.25] * 4, [0] * 4]
    nan = gradient(lambda x: x.max(axes), leaf([[1.0, np.nan], [np.nan, 2.0]]))
    assert nan.tolist() == [[0, 0.5], [0.5, 0]]


def test_ties_of_the_median():
    ties = [1.0, 2.0, 2.0, 2.0, 3.0]
    assert gradient(lambda x: x.median(0), leaf(ties)).numpy().sum() == 1
    assert set(gradient(lambda x: x.median(0), leaf(ties)).tolist()) == {0, 1}
    shared = gradient(lambda x: x.median(), leaf(ties)).numpy()
    np.testing.assert_allclose(shared, np.array([0, 1, 1, 1, 0]) / 3)
    two = gradient(lambda x: x.median(), leaf([1.0, 1.0, 2.0, 2.0]))
    assert two.tolist() == [0.25] * 4
    nan = leaf([1.0, np.nan, np.nan])
    assert gradient(lambda x: x.median(0), nan).tolist() == [0, 1, 0]
    assert gradient(lambda x: x.median(), nan).tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3, np.inf])
def test_norm_of_zero_has_gradient_zero_and_finite_second_derivatives(order):
    x = leaf(np.zeros((2, 3)))
    first = gradient(lambda x: x.norm(order, 1), x)
    assert not first.numpy().any()
    if first.requires_grad:
        assert np.isfinite(gradient(lambda _: first, x).numpy()).all()


def test_std_of_equal_elements_has_gradient_zero():
    x = leaf([3.0, 3.0, 3.0])
    assert gradient(lambda x: x.std(), x).tolist() == [0, 0, 0]


def test_logsumexp_of_large_and_infinite_elements():
    x = leaf([[1e10, 1e9, 1e8], [-np.inf, 0.0, 0.0], [-np.inf, -np.inf, -np.inf]])
    y = ndl.logsumexp(x, 1)
    assert y.tolist() == [1e10, np.log(2), -np.inf]
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), [[1, 0, 0], [0, 0.5, 0.5], [0, 0, 0]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_logsumexp_weights_sum_to_one_where_its_result_is_rounded(dtype):
    top = 6e4 if dtype == "float16" else 1e10
    assert gradient(ndl.logsumexp, leaf([top, top], dtype)).tolist() == [0.5, 0.5]
    assert gradient(ndl.logsumexp, leaf([-np.inf, -np.inf], dtype)).tolist() == [0, 0]


def test_half_precision_totals_do_not_overflow():
    ones = leaf(np.ones(100_000), "float16")
    assert ones.mean().item() == 1
    assert ones.var().item() == 0
    assert ones.norm().item() == pytest.approx(np.sqrt(1e5), rel=1e-3)
    assert ones.logsumexp().item() == pytest.approx(1 + np.log(1e5), rel=1e-3)


def test_unused_parts_of_a_split_have_gradient_zero():
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    parts = ndl.split(x, 1)
    (parts[0] * parts[2] * parts[2]).sum().backward()
    assert x.grad.tolist() == [[9, 0, 6], [36, 0, 48]]
    x.grad[:, 2].sum().backward()  # d(2ac)/d(a, c) = (2c, 2a)
    assert x.grad.tolist() == [[6, 0, 2], [12, 0, 8]]


def test_undilate_of_a_size_that_is_no_multiple():
    x = leaf([1.0, 2.0, 3.0, 4.0, 5.0])
    assert gradient(lambda x: ndl.undilate(x, (0,), 1), x).tolist() == [1, 0, 1, 0, 1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "bool"])
@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_median_of_the_largest_values(dtype, n):
    limits = {"float16": np.finfo, "bool": lambda _: np.iinfo("uint8")}.get(dtype, np.iinfo)
    values = np.full(n, limits(dtype).max).astype(dtype)
    found = ndl.tensor(values).median()
    assert found.dtype == ("float16" if dtype == "float16" else "float64")
    assert found.item() == np.median(values.astype("float64"))


def test_median_of_an_odd_number_is_one_of_them():
    assert ndl.tensor([3e38, 3e38, 3e38]).median().item() == np.float32(3e38)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_no_gradient_for_the_input_that_lost(name):
    """Not even of an infinite one, which 0 times makes NaN: √max(x, 0) below 0, for instance."""
    x, y = leaf([-1.0, 4.0, 0.0]), leaf([0.0, 0.0, 0.0])
    if name == "maximum":
        ndl.maximum(x, y).sqrt().backward()
    else:
        (-ndl.minimum(-x, -y)).sqrt().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0.25, np.inf])
    np.testing.assert_array_equal(y.grad.numpy(), [np.inf, 0, np.inf])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_max_is_shared_by_many(dtype):
    x = ndl.zeros(1 << 17, dtype=dtype, requires_grad=True)
    x.max().backward()
    assert x.grad.min().item() == x.grad.max().item() == 2**-17
