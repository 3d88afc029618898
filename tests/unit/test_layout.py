"""Layout mathematics against NumPy, without any array of ours."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from needle.ndarray import layout
from tests.strategies import shapes


def _elements(array):
    return tuple(s // array.itemsize for s in array.strides)


@given(shapes(min_side=1))
def test_compact_strides(shape):
    assert layout.compact_strides(shape) == _elements(np.empty(shape))


@st.composite
def _strided(draw):
    """A NumPy view: permuted, stepped, reversed, sometimes broadcast."""
    shape = draw(shapes(min_side=1, max_side=6))
    array = np.arange(int(np.prod(shape))).reshape(shape)
    array = array.transpose(draw(st.permutations(range(len(shape)))))
    array = array[tuple(slice(None, None, draw(st.sampled_from([1, 1, 2, -1]))) for _ in shape)]
    if draw(st.booleans()):
        array = np.broadcast_to(array, (draw(st.integers(1, 3)), *array.shape))
    return array


@st.composite
def _reshape(draw):
    array = draw(_strided())
    sizes, rest = [], array.size
    for _ in range(draw(st.integers(0, 4))):
        divisor = draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
        sizes.append(divisor)
        rest //= divisor
    sizes.insert(draw(st.integers(0, len(sizes))), rest)
    return array, tuple(sizes)


@given(_reshape())
def test_reshape_strides(case):
    array, shape = case
    strides = layout.reshape_strides(array.shape, _elements(array), shape)
    expected = array.reshape(shape)
    if strides is None:
        assert not np.shares_memory(expected, array)
        return
    bytes_apart = tuple(s * array.itemsize for s in strides)
    viewed = np.lib.stride_tricks.as_strided(array, shape, bytes_apart)
    np.testing.assert_array_equal(viewed, expected)


@given(_reshape())
def test_reshape_views_whenever_numpy_does(case):
    array, shape = case
    if np.shares_memory(array.reshape(shape), array):
        assert layout.reshape_strides(array.shape, _elements(array), shape) is not None


@given(shapes(), shapes(), st.integers(0, 4))
def test_reshape_of_nothing_is_a_view(sizes, new_sizes, at):
    shape, new_shape = ((*s[:at], 0, *s[at:]) for s in (sizes, new_sizes))
    assert layout.reshape_strides(shape, layout.compact_strides(shape), new_shape) is not None


@given(st.lists(shapes(max_dims=3, max_side=3), min_size=0, max_size=4))
def test_broadcast_shapes(given_shapes):
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(ValueError, match=r"\[add\] shapes .* do not broadcast: sizes \d+ and"):
            layout.broadcast_shapes("add", *given_shapes)
        return
    assert layout.broadcast_shapes("add", *given_shapes) == expected


@given(shapes(max_dims=3, max_side=3), shapes(max_dims=4, max_side=3))
def test_broadcast_strides(shape, new_shape):
    array = np.empty(shape)
    strides = layout.compact_strides(shape)
    try:
        expected = np.broadcast_to(array, new_shape)
    except ValueError:
        with pytest.raises(ValueError, match=r"\[broadcast_to\] cannot broadcast"):
            layout.broadcast_strides(shape, strides, new_shape, "broadcast_to")
        return
    found = layout.broadcast_strides(shape, strides, new_shape, "broadcast_to")
    if expected.size:
        moving = [i for i, n in enumerate(new_shape) if n > 1]
        assert [found[i] for i in moving] == [_elements(expected)[i] for i in moving]


@given(shapes(min_side=1), st.data())
def test_permuted(shape, data):
    axes = data.draw(st.permutations(range(len(shape))))
    signs = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    spelled = [a - len(shape) if s else a for a, s in zip(axes, signs, strict=True)]
    order = layout.normalize_permutation(spelled, len(shape), "permute")
    expected = np.empty(shape).transpose(axes)
    assert layout.permuted(shape, order) == expected.shape
    assert layout.permuted(layout.compact_strides(shape), order) == _elements(expected)


@given(_strided())
def test_row_major_is_numpys_contiguous(array):
    assert layout.is_row_major(array.shape, _elements(array)) == array.flags.c_contiguous


@given(shapes(), shapes(max_dims=3), st.integers(0, 3))
def test_infer_reshape(shape, sizes, at):
    new_shape = (*sizes[:at], -1, *sizes[at:])
    try:
        expected = np.empty(shape).reshape(new_shape).shape
    except ValueError:
        with pytest.raises(ValueError, match=r"\[reshape\] cannot fill in -1"):
            layout.infer_reshape(shape, new_shape)
        return
    assert layout.infer_reshape(shape, new_shape) == expected


@given(shapes(min_dims=1), st.data(), st.booleans())
def test_reduced_shape(shape, data, keepdims):
    axes = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), max_size=3))
    try:
        expected = np.zeros(shape).sum(tuple(axes), keepdims=keepdims).shape
    except ValueError:
        with pytest.raises(ValueError, match=r"\[sum\] axes must be distinct"):
            layout.normalize_axes(axes, len(shape), "sum")
        return
    sorted_axes = layout.normalize_axes(axes, len(shape), "sum")
    assert layout.reduced_shape(shape, sorted_axes, keepdims) == expected


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: layout.normalize_axis(3, 2, "sum"), ValueError,
         r"\[sum\] axis 3 is out of range for an array with 2 axes; use -2 to 1\."),
        (lambda: layout.normalize_axis(0, 0, "sum"), ValueError, r"a 0-d array has no axes"),
        (lambda: layout.normalize_axis(1.0, 2, "sum"), TypeError,
         r"\[sum\] axis must be an integer, got 1\.0"),
        (lambda: layout.normalize_axes((0, 0), 2, "sum"), ValueError,
         r"\[sum\] axes must be distinct, got \(0, 0\)"),
        (lambda: layout.normalize_permutation((0,), 2, "permute"), ValueError,
         r"\[permute\] axes must name each of the 2 axes once, got \(0,\)"),
        (lambda: layout.normalize_shape((2, 0.5), "zeros"), TypeError,
         r"\[zeros\] a shape is made of integers, got \(2, 0\.5\)"),
        (lambda: layout.normalize_shape("ab", "zeros"), TypeError,
         r"\[zeros\] a shape is made of integers, got 'ab'"),
        (lambda: layout.check_sizes((2, -1), "zeros"), ValueError,
         r"\[zeros\] sizes must not be negative, got \(2, -1\)"),
        (lambda: layout.infer_reshape((6,), (-1, -1)), ValueError,
         r"\[reshape\] at most one size may be -1 and none below, got \(-1, -1\)"),
        (lambda: layout.infer_reshape((6,), (4,)), ValueError,
         r"\[reshape\] cannot reshape \(6,\) \(6 elements\) to \(4,\) \(4 elements\)"),
    ],
)  # fmt: skip
def test_errors_name_the_operator_and_the_values(call, error, text):
    with pytest.raises(error, match=text):
        call()
