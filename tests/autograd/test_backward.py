"""Reverse mode: what backward stores, where, and as what."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import autograd
from needle.testing import assert_close

from .helpers import leaf, plain


def test_partial_adjoints_add_up(device: Any) -> None:
    x = ndl.Tensor([2.0, 3.0], device=device)
    (x * x + x * 5 + x).sum().backward()
    assert_close(x.grad, [2 * 2 + 6, 2 * 3 + 6])
    assert x.grad.device == device


def test_default_seed_is_ones_for_any_shape() -> None:
    x = leaf(np.arange(6.0).reshape(2, 3))
    y = x * x
    y.backward()
    assert_close(y.grad, np.ones((2, 3)))
    assert_close(x.grad, 2 * x.numpy())


def test_given_seed() -> None:
    x = leaf([1.0, 2.0])
    (x * x).backward(plain([10.0, 100.0]))
    assert_close(x.grad, [20.0, 400.0])


def test_seed_of_another_shape_or_kind() -> None:
    y = leaf([1.0, 2.0]) * 2
    with pytest.raises(
        ValueError, match=r"\[backward\] expected out_grad of shape \(2,\), got \(3,\)"
    ):
        y.backward(plain([1.0, 2.0, 3.0]))
    with pytest.raises(TypeError, match=r"\[backward\] expected a Tensor, got ndarray"):
        y.backward(np.ones(2))


def test_gradient_is_overwritten() -> None:
    x = leaf([3.0])
    for _ in range(2):
        (x * x).backward()
        assert x.grad.item() == 6


def test_accumulate() -> None:
    x = leaf([3.0])
    (x * x).backward(accumulate=True)
    (x * 5).backward(accumulate=True)
    assert x.grad.item() == 11


def test_accumulate_without_graph() -> None:
    x = leaf([3.0])
    for _ in range(3):
        (x * x).backward(accumulate=True, create_graph=False)
    assert x.grad.item() == 18
    assert x.grad.op is None


def test_graph_is_kept_and_can_be_walked_again() -> None:
    x = leaf([3.0])
    y = x * x
    y.backward()
    y.backward(plain([2.0]))
    assert x.grad.item() == 12


def test_leaf_gradients_are_nodes_and_have_gradients() -> None:
    x = leaf([2.0])
    (x * x * x).backward()
    first = x.grad
    assert first.item() == 12
    first.backward()
    second = x.grad
    assert second.item() == 12
    second.backward()
    assert x.grad.item() == 6


def test_create_graph_false_gives_plain_data_on_leaves_only() -> None:
    x = leaf([2.0])
    h = x * x
    y = h * h
    y.backward(create_graph=False)
    assert x.grad.item() == 32
    assert not x.grad.requires_grad
    assert x.grad.op is None
    assert h.grad is None
    assert y.grad.item() == 1


def test_backward_without_graph_frees_it_unless_told_otherwise() -> None:
    x = leaf([2.0])
    y = x * x
    y.backward(create_graph=False, retain_graph=True)
    y.backward(create_graph=False)
    assert x.grad.item() == 4
    assert y.item() == 4  # the data of what others hold stays
    with pytest.raises(ValueError, match=r"\[backward\] the graph was freed by"):
        y.backward()
    (x * x).backward()
    assert x.grad.item() == 4


def test_intermediate_values_get_gradients_too() -> None:
    x = leaf([2.0])
    h = x * x
    (h * h).backward()
    assert h.grad.item() == 8


def test_leaf_without_requires_grad_gets_none() -> None:
    x, c = leaf([2.0]), plain([5.0])
    (x * c).backward()
    assert x.grad.item() == 5
    assert c.grad is None


def test_output_that_is_a_leaf() -> None:
    x = leaf([2.0])
    x.backward()
    assert x.grad.item() == 1


def in_no_grad() -> ndl.Tensor:
    with ndl.no_grad():
        return leaf([2.0]) * 3


@pytest.mark.parametrize(
    "result",
    [
        lambda: plain([2.0]),
        lambda: plain([2.0]) * 3,
        lambda: (leaf([2.0]) * 3).detach(),
        lambda: leaf([2.0]).data,
        lambda: leaf([2.0, 1.0]).argmax(),
        lambda: leaf([2.0]) > 1,
        lambda: leaf([2.5]).astype("int32"),
        in_no_grad,
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_a_result_without_a_graph(result: Callable[[], ndl.Tensor], lazy: bool) -> None:
    """Nothing would get a gradient, and nothing would train."""
    autograd.LAZY_MODE = lazy
    y = result()
    for out_grad in (None, y):
        with pytest.raises(ValueError, match=r"\[backward\] expected a result of tensors that req"):
            y.backward(out_grad)
    assert y.grad is None


def test_a_leaf_is_its_own_graph() -> None:
    x = leaf([2.0])
    x.backward()
    assert x.grad.item() == 1


def test_grad_is_pytorchs_function() -> None:
    x, w, other = leaf([1.0, 2.0]), leaf([3.0, 4.0]), leaf([0.0])
    y = x * x
    z = (w * y).sum()
    by_x, by_y, by_w = autograd.grad(z, (x, y, w))  # x is behind y
    assert_close(by_x, [6.0, 16.0])
    assert_close(by_y, w.numpy())
    assert_close(by_w, y.numpy())
    assert x.grad is None and w.grad is None and not by_x.requires_grad
    assert_close(autograd.grad(y, x, plain([10.0, 1.0]))[0], [20.0, 4.0])
    assert_close(autograd.grad([y, z], [x], [plain([1.0, 1.0]), None])[0], [8.0, 20.0])
    assert autograd.grad(z, [x, other], allow_unused=True)[1] is None
    assert_close(autograd.grad(y, x, plain([10.0, 1.0]), only_inputs=True)[0], [20.0, 4.0])
    with pytest.raises(ValueError, match=r"\[grad\] expected only_inputs=True"):
        autograd.grad(y, x, only_inputs=False)


def test_inference_mode_records_nothing() -> None:
    x = leaf([1.0])

    @ndl.inference_mode()
    def double(x: ndl.Tensor) -> ndl.Tensor:
        return x * 2

    with ndl.inference_mode():
        assert not (x * 2).requires_grad
    assert not double(x).requires_grad and (x * 2).requires_grad


def test_grad_has_gradients_if_asked_for() -> None:
    x = leaf([1.0, 2.0])
    (slope,) = autograd.grad((x**3).sum(), x, create_graph=True, retain_graph=True)
    (slope**2).sum().backward()
    assert_close(x.grad, 36 * x.numpy() ** 3)


def test_grad_errors() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match=r"\[grad\] expected outputs that depend on input 1"):
        autograd.grad((x * 2).sum(), [x, leaf([1.0])])
    with pytest.raises(ValueError, match=r"\[grad\] expected outputs that depend on input 0"):
        autograd.grad(plain([1.0]), x)
    with pytest.raises(TypeError, match=r"\[grad\] expected Tensors as inputs, got float"):
        autograd.grad(x.sum(), 1.0)
    with pytest.raises(
        TypeError, match=r"\[grad\] expected Tensors as outputs, got function; needle.grad"
    ):
        autograd.grad(lambda x: x.sum(), x)
    with pytest.raises(ValueError, match=r"\[grad\] expected grad_outputs of shapes \[\(2,\)\]"):
        autograd.grad(x * 2, x, plain([1.0]))


def test_tuple_adjoints_add_elementwise() -> None:
    x = leaf(np.arange(6.0).reshape(3, 2))
    first, second, third = ndl.split(x, 0)
    (first * 2 + second * third + first * first).sum().backward()
    a = x.numpy()
    assert_close(x.grad, np.stack([2 + 2 * a[0], a[2], a[1]]))


def test_unused_tuple_elements_get_zeros() -> None:
    x = leaf(np.arange(6.0).reshape(3, 2))
    ndl.split(x, 0)[1].sum().backward()
    assert_close(x.grad, [[0, 0], [1, 1], [0, 0]])


def test_adjoint_of_a_tuple_given_by_hand() -> None:
    x = leaf(np.ones((2, 2)))
    parts = ndl.split(x, 0)
    adjoint = ndl.make_tuple(plain([1.0, 2.0]), plain([3.0, 4.0]))
    autograd.compute_gradient_of_variables(parts, adjoint)
    assert_close(x.grad, [[1, 2], [3, 4]])


def test_detach_cuts() -> None:
    x = leaf([2.0])
    (x * x.detach()).backward()
    assert x.grad.item() == 2


def test_requires_grad_() -> None:
    x = plain([2.0]).requires_grad_()
    y = x * x
    y.backward()
    assert x.grad.item() == 4
    with pytest.raises(
        ValueError, match=r"\[requires_grad_\] expected a leaf, got a result of EWiseMul"
    ):
        y.requires_grad_(False)


@pytest.mark.skipif(ndl.BACKEND == "np", reason="NumPy's integers get gradients, as in the course")
def test_integers_do_not_require_gradients() -> None:
    """A gradient of 0.5 would be 0 in an integer dtype."""
    for make in (
        lambda: ndl.tensor([1, 2], requires_grad=True),
        lambda: ndl.tensor(ndl.tensor([1, 2]), requires_grad=True),
        lambda: ndl.tensor([True]).requires_grad_(),
    ):
        with pytest.raises(TypeError, match=r"\[requires_grad_\] expected a floating dtype, got"):
            make()
    assert not ndl.tensor([1, 2]).requires_grad_(False).requires_grad


def test_integers_differentiate_as_in_the_course() -> None:
    x = ndl.Tensor([6], dtype="int32")
    y = x * x
    y.backward()
    assert x.grad.item() == 12


def test_data_written_in_place_is_refused() -> None:
    x = leaf([1.0, 2.0])
    y = x.exp()
    z = y * y
    with ndl.no_grad():
        y += 1
    with pytest.raises(
        ValueError, match=r"\[backward\] the data of shape \(2,\) that EWiseMul needs"
    ):
        z.backward()


def test_assignment_into_a_result_keeps_both_gradients() -> None:
    x = leaf([1.0, 2.0])
    h = x * 2
    before = h * h
    h[0] = x[1] * 5
    (before + h).sum().backward()
    assert_close(x.grad, [8.0, 23.0])


def test_copies_are_leaves_with_their_own_or_the_same_data() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    shallow, deep = copy.copy(y), copy.deepcopy(y)
    for z in (shallow, deep):
        assert z.is_leaf()
        assert z.requires_grad
        assert_close(z, y)
    with ndl.no_grad():
        y += 1
    assert_close(shallow, y)
    assert_close(deep, [2.0, 4.0])


def test_pickle_keeps_data_and_requires_grad() -> None:
    x = leaf([1.0, 2.0], requires_grad=False)
    y = pickle.loads(pickle.dumps(x))
    assert_close(y, x)
    assert y.requires_grad is False
    assert y.dtype == "float64"


def test_copies_take_attributes_but_not_hooks() -> None:
    x = leaf([1.0])
    x.name = "weight"
    x.register_hook(lambda g: g * 10)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.name == "weight"
        (y * 1).backward()
        assert y.grad.item() == 1


def test_casting_to_integers_has_no_gradient() -> None:
    x = leaf([1.7, 2.2])
    whole = x.astype("int64")
    assert not whole.requires_grad
    (x * whole.astype("float64")).sum().backward()
    assert_close(x.grad, [1.0, 2.0])


def test_constructor_shares_tensors_and_copies_arrays() -> None:
    x = plain([1.0, 2.0])
    shared = ndl.Tensor(x)
    array = x.cached_data
    copied = ndl.Tensor(array)
    with ndl.no_grad():
        x += 1
    assert_close(shared, [2.0, 3.0])
    assert_close(copied, [1.0, 2.0])


@pytest.mark.parametrize("bad", ["text", [object()], np.array([1j])])
def test_constructor_wants_numbers(bad: Any) -> None:
    with pytest.raises(TypeError, match=r"\[Tensor\] expected real numbers"):
        ndl.Tensor(bad)


def test_constructor_names_unknown_arguments() -> None:
    with pytest.raises(TypeError, match=r"\[Tensor\] unknown arguments \['grad'\]"):
        ndl.Tensor([1.0], grad=True)


def test_deep_copies_share_nothing_that_was_set_on_the_tensor() -> None:
    x = leaf([1.0, 2.0])
    x.tags, x.itself = ["a"], x
    y = copy.deepcopy(x)
    y.tags.append("b")
    assert x.tags == ["a"] and y.itself is y
