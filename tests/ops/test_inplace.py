"""`x += y` and its kin: in x's memory when nothing is recorded, a new value otherwise."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import needle as ndl

ARITHMETIC = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow,
    operator.ifloordiv, operator.imod,
]  # fmt: skip
BITS = [operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift]


def check(update: Callable[[Any, Any], Any], x: ndl.Tensor, values: Any, other: Any) -> None:
    data = x.cached_data
    numpy_other = other.numpy() if isinstance(other, ndl.Tensor) else other
    expected = update(values.copy(), numpy_other)
    result = update(x, other)
    assert result is x and x.cached_data is data and x.is_leaf()
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6)
    assert x.dtype == expected.dtype


@pytest.mark.parametrize("update", ARITHMETIC, ids=lambda f: f.__name__)
@pytest.mark.parametrize("other", [2.5, 3, ndl.tensor([1.5, 2.0, 0.5]), ndl.tensor([[2], [3]])])
def test_floats_in_place(update: Any, other: Any) -> None:
    values = np.arange(1, 7, dtype=np.float64).reshape(2, 3)
    check(update, ndl.tensor(values), values, other)


@pytest.mark.parametrize("update", BITS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("other", [2, ndl.tensor([1, 2, 0])])
def test_integers_in_place(update: Any, other: Any) -> None:
    values = np.arange(6).reshape(2, 3)
    check(update, ndl.tensor(values), values, other)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "int64", "float16", "float32"])
def test_every_dtype_keeps_its_type(dtype: str) -> None:
    values = np.arange(4).astype(dtype)
    check(operator.iadd, ndl.tensor(values), values, 3)
    check(operator.imul, ndl.tensor(values), values, ndl.tensor(values))


def test_bool_in_place() -> None:
    values = np.array([True, False, True])
    check(operator.iand, ndl.tensor(values), values, ndl.tensor([True, True, False]))


def test_views_write_through() -> None:
    x = ndl.zeros(2, 3)
    x[0] += 1
    x[:, 1] *= 5
    row = x[1]
    row -= 2
    np.testing.assert_array_equal(x.numpy(), [[1, 5, 1], [-2, -2, -2]])


def test_overlap_reads_before_it_writes() -> None:
    x = ndl.arange(5, dtype="float32")
    x += x[::-1]
    np.testing.assert_array_equal(x.numpy(), [4, 4, 4, 4, 4])
    x += x
    np.testing.assert_array_equal(x.numpy(), [8, 8, 8, 8, 8])


def test_recorded_values_are_rebound() -> None:
    x = w = ndl.Tensor([1.0, 2.0])
    x *= 3
    assert x is not w and x.inputs[0] is w
    x.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [3, 3])
    y = ndl.zeros(2)
    y += w
    y.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [1, 1])


def test_parameters_update_in_place_without_recording() -> None:
    w = ndl.Tensor([1.0, 2.0])
    (w * w).sum().backward()
    data, before = w.cached_data, w
    with ndl.no_grad():
        w -= 0.5 * w.grad
    assert w is before and w.cached_data is data and w.requires_grad
    np.testing.assert_array_equal(w.numpy(), [0, 0])


def test_backward_refuses_data_that_was_updated() -> None:
    w, x = ndl.Tensor([1.0, 2.0]), ndl.tensor([3.0, 4.0])
    y = (w * x).sum()
    x += 1
    with pytest.raises(ValueError, match=r"\[backward\].*changed in place"):
        y.backward()


def test_backward_refuses_data_that_was_replaced() -> None:
    w = ndl.Tensor([2.0, 3.0])
    y = (w * w).sum()
    w.data = w.data * 10
    with pytest.raises(ValueError, match=r"\[backward\] EWiseMul used .* data was replaced"):
        y.backward()
    (w * w).sum().backward()
    assert w.grad.tolist() == [40.0, 60.0]
    w[0] = 1.0  # w is another value now, and y still has the one whose data was replaced
    with pytest.raises(ValueError, match=r"\[backward\] EWiseMul used .* data was replaced"):
        y.backward()


def test_leaves_do_not_share_the_memory_of_their_gradients() -> None:
    a, b, seed = ndl.Tensor([1.0, 2.0]), ndl.Tensor([3.0, 4.0]), ndl.ones(2)
    (a + b).backward(seed)
    with ndl.no_grad():
        a.grad *= 10
        b.grad *= 3
    assert (a.grad.tolist(), b.grad.tolist(), seed.tolist()) == ([10, 10], [3, 3], [1, 1])
    a.sum().backward()  # one element, repeated
    with ndl.no_grad():
        a.grad[0] = 5.0
    assert a.grad.tolist() == [5, 1]
    (a * a + b).sum().backward()
    a.grad.sum().backward()
    assert a.grad.tolist() == [2, 2]


def test_errors() -> None:
    with pytest.raises(TypeError, match=r"\[add\] the result is float64, .* fit into int64"):
        x = ndl.arange(3)
        x += 1.5
    with pytest.raises(TypeError, match=r"\[divide\] the result is float64, .* fit into int64"):
        x = ndl.arange(3)
        x /= 2
    with pytest.raises(ValueError, match=r"\[multiply\] cannot broadcast \(2, 3\) to \(3,\)"):
        x = ndl.zeros(3)
        x *= ndl.zeros(2, 3)
    with pytest.raises(ValueError, match=r"\[add\] expected a tensor with its own memory"):
        x = ndl.zeros(3).broadcast_to((2, 3))
        x += 1


@pytest.mark.parametrize(
    "call",
    [
        lambda x, axes: x.flip(axes),
        lambda x, axes: x.softmax(axes),
        lambda x, axes: x.logsoftmax(axis=axes),
        lambda x, axes: x.sum(axes, keepdims=True),
        lambda x, axes: x.max(dim=axes),
        lambda x, axes: x.var(axes),
        lambda x, axes: x.norm(2, axes),
        lambda x, axes: x.roll([1], axes),
        lambda x, axes: ndl.dilate(x, axes, 1),
        lambda x, axes: ndl.undilate(x, axes, 1),
    ],
)
def test_axes_are_those_of_the_call(call):
    """A list that the caller changes afterwards is not what the gradient goes by."""
    values = np.arange(9.0).reshape(3, 3) ** 1.5
    gradients = []
    for later in (0, 1):
        x, axes = ndl.tensor(values, requires_grad=True), [0]
        y = call(x, axes)
        axes[0] = later
        (y * y).cumsum().sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_array_equal(*gradients)


@pytest.mark.parametrize("axes", [lambda: iter([0]), lambda: {0}, lambda: range(1)])
def test_axes_may_be_given_by_any_iterable(axes):
    x = ndl.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    (x.sum(axes()) * ndl.tensor([1.0, 10.0])).sum().backward()
    assert x.grad.tolist() == [[1, 10], [1, 10]]


def test_transposed_axes_are_those_of_the_call():
    x, axes = ndl.tensor(np.ones((2, 3)), requires_grad=True), [0, 1]
    y = x.transpose(axes)
    axes[:] = [0, 0]
    y.sum().backward()
    assert x.grad.shape == (2, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, s: ndl.mul_scalar(x, s),
        lambda x, s: ndl.divide_scalar(x, s),
        lambda x, s: ndl.power_scalar(x, s),
        lambda x, s: x.clip(s, None),
    ],
)
def test_numbers_are_those_of_the_call(call):
    x, s = ndl.tensor([1.0, 2.0, 4.0], requires_grad=True), np.array([3.0], "float32")
    y = call(x, s)
    s[:] = -50
    y.sum().backward()
    again = ndl.tensor([1.0, 2.0, 4.0], requires_grad=True)
    call(again, np.array([3.0], "float32")).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), again.grad.numpy())


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.roll(0, 0),
        lambda x: x.roll(6),
        lambda x: x.tile(1),
        lambda x: x.tile(2, 1, 1),
        lambda x: x[:1].tile(2, 1),
        lambda x: x.repeat(1),
        lambda x: x[:1].repeat(2, 0),
        lambda x: ndl.pad(x, 0, mode="reflect"),
        lambda x: ndl.take(x, 0, 0),
        lambda x: ndl.index_select(x, 0, 1),
    ],
)
def test_what_copies_always_copies(call):
    """NumPy's and PyTorch's never give a view, so ours do not for some arguments either."""
    x = ndl.tensor(np.arange(6.0).reshape(2, 3))
    before = x.numpy()
    y = call(x)
    y += 1
    y[..., 0] = 7.0
    np.testing.assert_array_equal(x.numpy(), before)
