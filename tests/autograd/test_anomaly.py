"""The first NaN or infinity names the operator, its shapes and the user's line."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import autograd

from .helpers import leaf, plain


def line_of(function: Any, text: str) -> str:
    """`file:number: code` of the line of a function that has this text."""
    lines, start = inspect.getsourcelines(function)
    offset = next(i for i, line in enumerate(lines) if text in line)
    return f"{__file__}:{start + offset}: {lines[offset].strip()}"


def logarithm(x: ndl.Tensor) -> ndl.Tensor:
    y = x * 2
    return ndl.log(y)


def square_root(x: ndl.Tensor) -> ndl.Tensor:
    y = ndl.sqrt(x)
    return y * 3


def raised(f: Any, *args: Any) -> str:
    with pytest.raises(ndl.AnomalyError) as error, ndl.detect_anomaly():
        f(*args)
    return str(error.value)


def test_forward_infinity() -> None:
    text = raised(logarithm, leaf([1.0, 0.0]))
    assert "forward: the result of Log has infinity" in text
    assert "inputs: (2,) float64; output: (2,) float64 (with infinity)" in text
    assert text.endswith(f"at {line_of(logarithm, 'ndl.log')}")


def test_forward_nan() -> None:
    text = raised(logarithm, plain([[1.0, -1.0]]))
    assert "forward: the result of Log has NaN" in text
    assert "(1, 2) float64 (with NaN)" in text


def test_input_that_had_it_already_is_marked() -> None:
    text = raised(lambda x: x + 1, plain([np.nan]))
    assert "inputs: (1,) float64 (with NaN)" in text


def test_backward_names_the_forward_line() -> None:
    x = leaf([4.0, 0.0])

    def train() -> None:
        square_root(x).sum().backward()

    text = raised(train)
    assert "backward: the gradient of Sqrt has infinity" in text
    assert "inputs: (2,) float64; output: (2,) float64" in text
    assert text.endswith(f"computed forward at {line_of(square_root, 'ndl.sqrt')}")


def test_backward_of_what_was_computed_outside() -> None:
    y = square_root(leaf([0.0]))
    text = raised(y.backward)
    assert text.endswith("computed forward at a line outside detect_anomaly()")


def test_functional_gradients() -> None:
    text = raised(lambda x: ndl.grad(lambda x: square_root(x).sum())(x), plain([0.0]))
    assert "backward: the gradient of Sqrt" in text
    assert "ndl.sqrt(x)" in text


def test_steps_inside_a_gradient_may_be_masked() -> None:
    """0 ** 0.5: the gradient passes through infinities that `where` takes out again."""

    class Masked(ndl.TensorOp):
        def compute(self, a: Any) -> Any:
            return a

        def gradient(self, out_grad: Any, node: Any) -> Any:
            (x,) = node.inputs
            return ndl.where(x > 0, out_grad / x, 0.0)

    x = leaf([1.0, 0.0])
    with ndl.detect_anomaly():
        Masked()(x).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0]


def test_gradients_nobody_wants_are_not_checked() -> None:
    base, exponent = leaf([2.0]), plain([3.0])

    class Power(ndl.TensorOp):
        def compute(self, a: Any, b: Any) -> Any:
            return a * a * a

        def gradient(self, out_grad: Any, node: Any) -> Any:
            a = node.inputs[0]
            return out_grad * a * a * 3, out_grad * np.nan

    with ndl.detect_anomaly():
        Power()(base, exponent).backward()
    assert base.grad.item() == 12


def test_second_derivative_is_checked() -> None:
    def twice() -> None:
        x = leaf([0.0])
        y = x**1.5
        y.backward()
        x.grad.backward()

    text = raised(twice)
    assert "backward: the gradient of PowerScalar has infinity" in text
    assert text.endswith(line_of(twice, "y.backward()"))


def test_finite_values_pass_and_integers_are_not_looked_at() -> None:
    x = leaf([1.0, 2.0])
    with ndl.detect_anomaly():
        y = (x * 2).exp().sum()
        y.backward()
        assert (ndl.tensor([1, 2]) + 1).tolist() == [2, 3]
    assert x.grad is not None


def test_it_ends_with_the_context_and_may_be_nested() -> None:
    x = plain([0.0])
    with ndl.detect_anomaly():
        with ndl.detect_anomaly():
            assert len(autograd.observers) == 2
        with pytest.raises(ndl.AnomalyError):
            ndl.log(x)
    assert autograd.observers == []
    assert ndl.log(x).item() == -np.inf


def test_error_inside_a_gradient_does_not_switch_the_checks_off() -> None:
    class Broken(ndl.TensorOp):
        def compute(self, a: Any) -> Any:
            return a

        def gradient(self, out_grad: Any, node: Any) -> Any:
            raise KeyError("broken")

    with ndl.detect_anomaly():
        with pytest.raises(KeyError):
            Broken()(leaf([1.0])).backward()
        with pytest.raises(ndl.AnomalyError):
            ndl.log(plain([0.0]))


def test_tuples() -> None:
    text = raised(lambda x: ndl.split(x, 0), plain([[1.0], [np.inf]]))
    assert "the result of Split has infinity" in text
    assert "output: (1,) float64, (1,) float64" in text


def test_checkpoint() -> None:
    x = leaf([0.0])
    text = raised(lambda: ndl.checkpoint(square_root, x).sum().backward())
    assert "backward: the gradient of Sqrt" in text


def test_it_is_a_value_error() -> None:
    assert issubclass(ndl.AnomalyError, ValueError)


@pytest.mark.usefixtures("lazy")
class TestLazy:
    def test_forward_is_checked_when_computed(self) -> None:
        with ndl.detect_anomaly():
            y = logarithm(leaf([0.0]))
            assert y.shape == (1,)
            with pytest.raises(ndl.AnomalyError) as error:
                y.numpy()
        assert str(error.value).endswith(f"at {line_of(logarithm, 'ndl.log')}")

    def test_backward_is_checked_when_computed(self) -> None:
        x = leaf([0.0])
        with ndl.detect_anomaly():
            square_root(x).sum().backward()
            with pytest.raises(ndl.AnomalyError) as error:
                x.grad.numpy()
        text = str(error.value)
        assert "backward: the gradient of Sqrt has infinity" in text
        assert text.endswith(line_of(square_root, "ndl.sqrt"))
