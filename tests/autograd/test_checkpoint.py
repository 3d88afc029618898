"""Recomputation in backward: the same numbers, less kept."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import autograd
from needle.testing import assert_close, check_grads

from .helpers import leaf, plain

W = np.array([[0.5, -1.0], [2.0, 0.25]])
X = np.array([[1.0, -0.5], [0.75, 2.0], [0.1, 0.2]])


def gradients(f: Any, *leaves: ndl.Tensor, create_graph: bool = False) -> list[np.ndarray]:
    f().sum().backward(create_graph=create_graph, retain_graph=True)
    return [x.grad.numpy() for x in leaves]


def block(x: ndl.Tensor, w: ndl.Tensor) -> ndl.Tensor:
    return ((x @ w).tanh() @ w).exp()


@pytest.mark.parametrize("create_graph", [False, True])
def test_same_value_and_gradients(create_graph: bool) -> None:
    x, w = leaf(X), leaf(W)
    expected = gradients(lambda: block(x, w), x, w)
    assert_close(ndl.checkpoint(block, x, w), block(x, w))
    found = gradients(lambda: ndl.checkpoint(block, x, w), x, w, create_graph=create_graph)
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b)


def test_closed_over_parameters_and_results() -> None:
    x, w = leaf(X), leaf(W)
    h = w * 2  # closed over, and not a leaf
    expected = gradients(lambda: block(x, h) * w.sum(), x, w)
    found = gradients(lambda: ndl.checkpoint(lambda x: block(x, h) * w.sum(), x), x, w)
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b)


def test_only_closed_over_tensors() -> None:
    w = leaf(W)
    y = ndl.checkpoint(lambda: (w * w).sum())
    y.backward()
    assert_close(w.grad, 2 * W)


def test_tensor_given_and_closed_over() -> None:
    x = leaf([3.0])
    ndl.checkpoint(lambda y: x * y, x).backward()
    assert x.grad.item() == 6


def test_argument_without_gradient() -> None:
    x, w = plain(X), leaf(W)
    expected = gradients(lambda: block(x, w), w)
    assert_close(gradients(lambda: ndl.checkpoint(block, x, w), w)[0], expected[0])
    assert x.grad is None


def test_nested_arguments_keywords_and_results() -> None:
    x, w = leaf(X), leaf(W)

    def f(p: Any, scale: float, *, bias: ndl.Tensor) -> Any:
        y = p["x"] @ p["w"][0] * scale + bias
        return {"y": y, "sign": y > 0, "pair": (y.sum(), scale)}

    bias = leaf([1.0, 2.0])
    out = ndl.checkpoint(f, {"x": x, "w": [w]}, 3.0, bias=bias)
    assert out["pair"][1] == 3.0
    assert not out["sign"].requires_grad
    (out["y"].sum() * 2 + out["pair"][0]).backward()
    assert_close(bias.grad, [9.0, 9.0])
    assert_close(w.grad, 9 * X.sum(0)[:, None] * np.ones((1, 2)))


@pytest.mark.parametrize("seeded", [False, True], ids=["numpy", "philox"])
def test_random_numbers_are_drawn_again(seeded: bool) -> None:
    if seeded:
        ndl.manual_seed(7)
    x = leaf(np.ones(100))
    masks = []

    def dropped(x: ndl.Tensor) -> ndl.Tensor:
        mask = ndl.randb(100, p=0.5, dtype="float64") * float(np.random.rand() > -1)
        masks.append(mask.numpy())
        return x * mask

    y = ndl.checkpoint(dropped, x)
    following = ndl.rand(3).numpy(), np.random.rand()
    y.sum().backward()
    assert len(masks) == 2
    assert_close(x.grad, y)
    assert_close(masks[0], masks[1])
    again = ndl.rand(3).numpy(), np.random.rand()
    assert following[1] != again[1]
    assert not np.array_equal(following[0], again[0])


def test_recomputation_leaves_the_generators_as_they_were() -> None:
    generator = ndl.manual_seed(3)
    x = leaf(np.ones(4))
    y = ndl.checkpoint(lambda x: x * ndl.rand(4, dtype="float64"), x)
    position, numpy_state = generator.position, np.random.get_state()[2]
    y.sum().backward()
    assert ndl.default_generator() is generator
    assert generator.position == position
    assert np.random.get_state()[2] == numpy_state


def test_forward_keeps_no_intermediate_values() -> None:
    x, w = leaf(X), leaf(W)

    def deep(x: ndl.Tensor) -> ndl.Tensor:
        for _ in range(50):
            x = (x @ w).tanh()
        return x

    gc.collect()
    before = autograd.TENSOR_COUNTER
    y = ndl.checkpoint(deep, x)
    kept = autograd.TENSOR_COUNTER - before
    z = deep(x)
    assert kept == 2
    assert autograd.TENSOR_COUNTER - before - kept == 100
    expected = gradients(lambda: z, x, w)
    for a, b in zip(gradients(lambda: y, x, w), expected, strict=True):
        assert_close(a, b)


def test_backward_without_graph_keeps_nothing_either() -> None:
    x, w = leaf(X), leaf(W)
    y = ndl.checkpoint(lambda x: block(block(x, w), w * 0.1), x).sum()
    gc.collect()
    before = autograd.TENSOR_COUNTER
    y.backward(create_graph=False)
    assert autograd.TENSOR_COUNTER - before <= 3  # two gradients and the seed


def test_segments_in_a_row_and_nested() -> None:
    x, w = leaf(X), leaf(W)
    expected = gradients(lambda: block(block(block(x, w) * 0.1, w) * 0.1, w), x, w)

    def inner(x: ndl.Tensor) -> ndl.Tensor:
        return ndl.checkpoint(block, x, w)

    def outer(x: ndl.Tensor) -> ndl.Tensor:
        return inner(inner(x) * 0.1)

    found = gradients(lambda: inner(ndl.checkpoint(outer, x) * 0.1), x, w)
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b)


def test_second_derivatives_and_forward_mode() -> None:
    check_grads(lambda x, w: ndl.checkpoint(block, x, w), plain(X), plain(W))
    w = leaf(W)
    check_grads(lambda x: ndl.checkpoint(lambda x: ndl.split(block(x, w), 1), x), plain(X))


def test_third_derivative() -> None:
    f = lambda x: ndl.checkpoint(lambda x: x**4, x)  # noqa: E731
    for slope in (32.0, 48.0, 48.0):
        f = ndl.grad(f)
        assert f(plain(2.0)).item() == slope


def test_without_gradient_it_is_a_plain_call() -> None:
    assert ndl.checkpoint(lambda x: x * 2, plain([1.0])).op is None
    x = leaf([1.0])
    with ndl.no_grad():
        assert not ndl.checkpoint(lambda x: x * 2, x).requires_grad
    assert ndl.checkpoint(lambda x: "text", x) == "text"


@pytest.mark.usefixtures("lazy")
def test_lazy_mode() -> None:
    x, w = leaf(X), leaf(W)
    y = ndl.checkpoint(block, x, w)
    y.sum().backward()
    found = x.grad.numpy()
    block(x, w).sum().backward()
    assert_close(found, x.grad)


def test_hooks_of_captured_tensors_run_once() -> None:
    x, w = leaf(X), leaf(W)
    seen: list[Any] = []
    w.register_hook(lambda g: (seen.append(g), g * 2)[1])
    expected = gradients(lambda: block(x, w), w)
    found = gradients(lambda: ndl.checkpoint(lambda x: block(x, w), x), w)
    assert len(seen) == 2
    assert_close(found[0], expected[0])
