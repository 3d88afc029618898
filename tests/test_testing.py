"""needle.testing itself: what it accepts, what it refuses, and what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle.testing import TOLERANCES, assert_close, check_grads


def tensor(data: Any, dtype: str = "float64") -> ndl.Tensor:
    return ndl.Tensor(np.asarray(data), dtype=dtype, requires_grad=False)


# assert_close -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_tolerance_of_each_dtype(dtype: str) -> None:
    rtol, atol = TOLERANCES[dtype]
    expected = np.array([1.0, -2.0])
    exact = tensor([1.0, -2.0], dtype)
    assert_close(exact, expected)
    assert_close(exact, expected * (1 + 0.5 * rtol))
    with pytest.raises(AssertionError, match=dtype):
        assert_close(exact, expected * (1 + 4 * (rtol + atol)))


def test_the_coarser_dtype_decides() -> None:
    assert_close(tensor([1.0]), tensor([1.001], "float16"))
    with pytest.raises(AssertionError):
        assert_close(tensor([1.0]), tensor([1.001]))


def test_plain_numbers_have_no_dtype_of_their_own() -> None:
    assert_close(tensor([1.0], "float16"), [1.0005])
    assert_close(1.0, 1.0 + 1e-9)
    assert_close(np.float32(1), ndl.Tensor(1.0))


def test_integers_are_exact() -> None:
    big = 2**62
    assert_close(np.array([big]), np.array([big]))
    with pytest.raises(AssertionError, match="1 of 1 elements differ"):
        assert_close(np.array([big]), np.array([big + 1]))
    assert_close(np.array([10]), np.array([11]), rtol=0.2)


def test_special_values() -> None:
    assert_close(tensor([np.nan, np.inf, -np.inf]), [np.nan, np.inf, -np.inf])
    with pytest.raises(AssertionError, match=r"largest error is inf at \(0,\): got inf"):
        assert_close(tensor([np.inf]), [-np.inf])
    with pytest.raises(AssertionError, match=r"got nan, expected 1.0"):
        assert_close(tensor([np.nan]), [1.0])


def test_message() -> None:
    a, b = np.zeros((2, 3), np.float32), np.zeros((2, 3))
    b[1, 2], b[0, 1] = 0.25, 0.125
    with pytest.raises(AssertionError) as error:
        assert_close(ndl.Tensor(a), b)
    assert str(error.value) == (
        "[assert_close] 2 of 6 elements differ; the largest error is 0.25 at (1, 2): got 0.0, "
        "expected 0.25. Tolerance rtol 1e-05, atol 1e-06; float32 (2, 3) and float64 (2, 3)."
    )


def test_shapes_must_be_equal() -> None:
    with pytest.raises(AssertionError, match=r"equal shapes, got float64 \(1,\) and float64 \(\)"):
        assert_close(tensor([1.0]), tensor(1.0))


def test_given_tolerances() -> None:
    assert_close(tensor([1.0]), [1.1], rtol=0.2)
    assert_close(tensor([0.0]), [0.1], atol=0.2)
    with pytest.raises(AssertionError):
        assert_close(tensor([1.0]), [1.0 + 1e-12], rtol=0, atol=0)


def test_empty_and_zero_dimensional() -> None:
    assert_close(tensor(np.zeros((0, 3))), np.zeros((0, 3)))
    with pytest.raises(AssertionError, match=r"at \(\): got 1.0, expected 2.0"):
        assert_close(tensor(1.0), 2.0)


# check_grads ------------------------------------------------------------------------------------


class Scaled(ndl.TensorOp):
    """y = x³ with a gradient, and a gradient of the gradient, that may be wrong"""

    def __init__(self, first: float = 1.0, second: float = 1.0):
        self.first = first
        self.second = second

    def compute(self, a: Any) -> Any:
        return a * a * a

    def gradient(self, out_grad: ndl.Tensor, node: ndl.Tensor) -> Any:
        (x,) = node.inputs
        square = ScaledSquare(self.second)(x)
        return out_grad * square * (3 * self.first)


class ScaledSquare(ndl.TensorOp):
    """y = x²"""

    def __init__(self, factor: float):
        self.factor = factor

    def compute(self, a: Any) -> Any:
        return a * a

    def gradient(self, out_grad: ndl.Tensor, node: ndl.Tensor) -> Any:
        return out_grad * node.inputs[0] * (2 * self.factor)


X = tensor([[0.5, -1.25], [2.0, 0.75]])


def test_right_gradients_pass() -> None:
    check_grads(lambda x: Scaled()(x), X)
    check_grads(lambda x: Scaled()(x), X, order=3)


def test_wrong_gradient_is_found_with_numbers() -> None:
    with pytest.raises(AssertionError) as error:
        check_grads(lambda x: Scaled(first=1.001)(x), X)
    text = str(error.value)
    assert text.startswith("[check_grads] reverse mode: the projection (Jᵀu)·v is ")
    assert "by finite differences: relative error" in text
    assert "> 1e-06. Arguments of shape (2, 2)." in text


def test_an_error_of_ten_millionths_is_found() -> None:
    with pytest.raises(AssertionError, match="reverse mode"):
        check_grads(lambda x: Scaled(first=1.00001)(x), X)


def test_wrong_second_derivative_is_found_at_order_two_only() -> None:
    check_grads(lambda x: Scaled(second=1.001)(x), X, order=1)
    with pytest.raises(AssertionError, match="reverse mode of reverse mode"):
        check_grads(lambda x: Scaled(second=1.001)(x), X)
    with pytest.raises(AssertionError, match="forward mode of forward mode"):
        check_grads(lambda x: Scaled(second=1.001)(x), X, modes=("fwd",))


def test_wrong_forward_rule_is_found() -> None:
    class Wrong(Scaled):
        def jvp(self, node: Any, tangents: Any) -> Any:
            return tangents[0] * node.inputs[0]

    check_grads(lambda x: Wrong()(x), X, modes=("rev",))
    with pytest.raises(AssertionError, match=r"forward mode: the projection u·\(Jv\)"):
        check_grads(lambda x: Wrong()(x), X, modes=("fwd",))


def test_small_and_large_arguments() -> None:
    check_grads(ndl.log, tensor([1e-4, 1e-3, 1.0, 1e4]))
    check_grads(lambda x: (x * 20).sin(), tensor([0.1, 3.0]))
    check_grads(lambda x: (x * 1e6).sum(), tensor([1e3, -1e-3]))


def test_constant_functions() -> None:
    check_grads(lambda x: ndl.floor(x), tensor([0.5, 1.25]))
    check_grads(lambda x: (x - x).sum(), tensor([0.5, 1.25]))


def test_other_arguments_are_passed_on() -> None:
    index = ndl.tensor([1, 0])

    def f(x: ndl.Tensor, i: ndl.Tensor, options: dict[str, Any]) -> Any:
        return {"a": x[i] * options["w"], "b": i}

    check_grads(f, X, index, {"w": tensor([2.0, 3.0]), "name": "text"})


def test_float32_arguments_are_checked_in_float64() -> None:
    check_grads(ndl.exp, tensor([0.5, 1.0], "float32"))


def test_edge_of_the_domain() -> None:
    with pytest.raises(ValueError, match=r"\[check_grads\] f is not finite around the arguments"):
        check_grads(ndl.log, tensor([-1.0]))


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="at least one floating Tensor"):
        check_grads(lambda x: x, 1.0)
    with pytest.raises(ValueError, match='expected modes "rev" and "fwd", got \'up\''):
        check_grads(lambda x: x, X, modes=("up",))


def test_the_global_generator_is_not_used() -> None:
    before = np.random.get_state()[2]
    check_grads(ndl.exp, X)
    assert np.random.get_state()[2] == before
