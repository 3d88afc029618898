"""Functions that see and change gradients on their way back."""

from __future__ import annotations

import pytest

import needle as ndl
from needle.testing import assert_close

from .helpers import leaf, plain


def test_hook_sees_the_whole_gradient() -> None:
    x = leaf([1.0, 2.0])
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * x + x).sum().backward()
    assert seen == [[3.0, 5.0]]
    assert_close(x.grad, [3.0, 5.0])


def test_hook_replaces_the_gradient_for_all_behind() -> None:
    x = leaf([1.0, 2.0])
    h = x * 3
    h.register_hook(lambda g: g * 10)
    h.sum().backward()
    assert_close(h.grad, [10.0, 10.0])
    assert_close(x.grad, [30.0, 30.0])


def test_hooks_run_in_order_and_can_be_removed() -> None:
    x = leaf([1.0])
    handle = x.register_hook(lambda g: g + 1)
    other = x.register_hook(lambda g: g * 2)
    (x * 1).backward()
    assert x.grad.item() == 4
    handle()
    handle()
    (x * 1).backward()
    assert x.grad.item() == 2
    other.remove()
    (x * 1).backward()
    assert x.grad.item() == 1


def test_a_hook_may_remove_itself() -> None:
    x = leaf([1.0])
    calls = []

    def once(grad: ndl.Tensor) -> None:
        calls.append(grad.item())
        remove()

    remove = x.register_hook(once)
    for _ in range(2):
        (x * 1).backward()
    assert calls == [1.0]


def test_what_a_hook_returns_is_differentiated() -> None:
    x = leaf([2.0])
    y = x * x
    remove = y.register_hook(lambda g: g * y)  # the gradient becomes 2x * x²
    y.backward()
    assert x.grad.item() == 16
    remove()
    x.grad.backward()
    assert x.grad.item() == 24


def test_hook_without_graph() -> None:
    x = leaf([2.0])
    x.register_hook(lambda g: g * 2)
    (x * 3).backward(create_graph=False)
    assert x.grad.item() == 6
    assert not x.grad.requires_grad


def test_hook_with_accumulation() -> None:
    x = leaf([2.0])
    x.register_hook(lambda g: g * 10)
    (x * 1).backward(accumulate=True)
    (x * 1).backward(accumulate=True)
    assert x.grad.item() == 20


def test_hook_that_changes_the_shape() -> None:
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: g.sum())
    with pytest.raises(
        ValueError, match=r"\[hook\] expected None or a gradient, .* shape \(2,\), got"
    ):
        (x * 1).backward()


def test_hook_needs_a_tensor_with_gradient() -> None:
    with pytest.raises(ValueError, match=r"\[register_hook\] expected a tensor that requires"):
        plain([1.0]).register_hook(lambda g: None)


def test_hooks_run_in_functional_gradients_of_what_lies_between() -> None:
    def f(x: ndl.Tensor) -> ndl.Tensor:
        h = x * 3
        h.register_hook(lambda g: g * 10)
        return h.sum()

    assert_close(ndl.grad(f)(plain([1.0])), [30.0])


@pytest.mark.parametrize(
    ("replaced", "got"),
    [
        (lambda g: g.cached_data, "NDArray"),
        (lambda g: 1.0, "float"),
        (lambda g: g.astype("float32"), "a Tensor of dtype float32 and shape"),
        (lambda g: g.sum(), "a Tensor of dtype float64 and shape ()"),
    ],
)
def test_hook_must_return_a_gradient(replaced, got) -> None:
    x = leaf([1.0, 2.0])
    x.register_hook(replaced)
    with pytest.raises(ValueError, match=r"\[hook\] expected None or a gradient, a Tensor") as e:
        (x * x).sum().backward()
    assert f"got {got}" in str(e.value)


def test_hook_must_be_a_function() -> None:
    with pytest.raises(TypeError, match=r"\[register_hook\] expected a function, got int"):
        leaf([1.0]).register_hook(3)
