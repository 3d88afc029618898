"""grad, vjp, jvp, jacobian, hessian: alone, nested, on nested arguments, and what they leave."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import numpy as np
import pytest

import needle as ndl
from needle import autograd
from needle.testing import assert_close, check_grads

from .helpers import leaf, plain

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
W = np.array([[1.0, 0.5], [-0.5, 2.0], [0.25, 1.0]])


def mlp(x: ndl.Tensor, w: ndl.Tensor) -> ndl.Tensor:
    return (x @ w).tanh()


def loss(x: ndl.Tensor, w: ndl.Tensor) -> ndl.Tensor:
    return (mlp(x, w) ** 2).sum()


def loss_gradients(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y = np.tanh(x @ w)
    g = 2 * y * (1 - y * y)
    return g @ w.T, x.T @ g


# grad, value_and_grad ---------------------------------------------------------------------------


def test_grad_of_each_argument() -> None:
    by_x, by_w = loss_gradients(X, W)
    assert_close(ndl.grad(loss)(plain(X), plain(W)), by_x)
    assert_close(ndl.grad(loss, argnums=1)(plain(X), plain(W)), by_w)
    both = ndl.grad(loss, argnums=(1, 0))(plain(X), plain(W))
    assert isinstance(both, tuple)
    assert_close(both[0], by_w)
    assert_close(both[1], by_x)
    assert_close(ndl.grad(loss, argnums=-1)(plain(X), plain(W)), by_w)


def test_keyword_arguments_are_passed_on() -> None:
    assert_close(ndl.grad(loss)(plain(X), w=plain(W)), loss_gradients(X, W)[0])


def test_value_and_grad_with_aux() -> None:
    def f(x: ndl.Tensor) -> Any:
        y = x * x
        return y.sum(), {"y": y, "note": "text"}

    (value, aux), slope = ndl.value_and_grad(f, has_aux=True)(plain([1.0, 2.0]))
    assert value.item() == 5
    assert_close(aux["y"], [1.0, 4.0])
    assert aux["note"] == "text"
    assert_close(slope, [2.0, 4.0])
    slope, aux = ndl.grad(f, has_aux=True)(plain([1.0, 2.0]))
    assert_close(slope, [2.0, 4.0])
    assert set(aux) == {"y", "note"}


class Pair(NamedTuple):
    a: Any
    b: Any


def test_nested_arguments() -> None:
    params = {"w": plain([1.0, 2.0]), "rest": [plain(3.0), Pair(plain(4.0), (plain(5.0),))]}

    def f(p: Any) -> ndl.Tensor:
        scalar, pair = p["rest"]
        return (p["w"] ** 2).sum() * scalar + pair.a * pair.b[0] ** 2

    slope = ndl.grad(f)(params)
    assert_close(slope["w"], [6.0, 12.0])
    assert_close(slope["rest"][0], 5.0)
    assert isinstance(slope["rest"][1], Pair)
    assert_close(slope["rest"][1].a, 25.0)
    assert_close(slope["rest"][1].b[0], 40.0)


def test_argument_that_is_not_used_gets_zeros() -> None:
    used, unused = ndl.grad(lambda a, b: a.sum(), argnums=(0, 1))(plain([1.0]), plain([2.0, 3.0]))
    assert_close(used, [1.0])
    assert_close(unused, [0.0, 0.0])


def test_result_that_depends_on_nothing_gives_zeros() -> None:
    assert_close(ndl.grad(lambda x: plain(3.0))(plain([1.0, 2.0])), [0.0, 0.0])


def test_closed_over_argument_is_a_constant() -> None:
    x = plain([3.0])
    assert_close(ndl.grad(lambda y: (x * y).sum())(x), [3.0])


def test_nothing_is_stored_in_grad() -> None:
    x, w = leaf(X), leaf(W)
    ndl.value_and_grad(loss, argnums=(0, 1))(x, w)
    ndl.vjp(loss, x, w)[1](plain(1.0))
    ndl.jvp(loss, (x, w), (plain(X), plain(W)))
    ndl.grad(lambda x: loss(x, w))(x)
    assert x.grad is None
    assert w.grad is None


def test_results_of_plain_arguments_keep_no_graph() -> None:
    gc.collect()
    before = autograd.TENSOR_COUNTER
    x, w = plain(X), plain(W)
    value, slope = ndl.value_and_grad(loss)(x, w)
    y, change = ndl.jvp(loss, (x, w), (x, w))
    for result in (value, slope, y, change):
        assert not result.requires_grad
        assert result.op is None
    count = autograd.TENSOR_COUNTER
    assert count == before + 6


def test_results_of_arguments_with_gradient_are_part_of_their_graph() -> None:
    x, w = leaf(X), leaf(W)
    slope = ndl.grad(loss)(x, w)
    (slope * slope).sum().backward()
    expected = ndl.grad(lambda x, w: (ndl.grad(loss)(x, w) ** 2).sum(), argnums=(0, 1))(x, w)
    assert_close(x.grad, expected[0])
    assert_close(w.grad, expected[1])


def test_closed_over_parameters_are_part_of_the_graph() -> None:
    w = leaf(W)
    slope = ndl.grad(lambda x: loss(x, w))(plain(X))
    assert slope.requires_grad
    slope.sum().backward()
    assert_close(w.grad, ndl.grad(lambda w: ndl.grad(loss)(plain(X), w).sum())(plain(W)))


def test_inside_no_grad() -> None:
    x = leaf([3.0])
    with ndl.no_grad():
        slope = ndl.grad(lambda x: (x * x).sum())(x)
    assert slope.item() == 6
    assert not slope.requires_grad


def test_assignment_to_an_argument_inside() -> None:
    def f(x: ndl.Tensor) -> ndl.Tensor:
        y = (x * x).sum()
        x[0] = x[1] * 10
        return y + x.sum()

    x = plain([1.0, 2.0])
    assert_close(ndl.grad(f)(x), [2.0, 4.0 + 11.0])
    assert_close(x, [1.0, 2.0])


def test_only_the_paths_to_the_arguments_are_walked() -> None:
    """The history of closed-over tensors is not differentiated."""

    class Untouched(ndl.TensorOp):
        def compute(self, a: Any) -> Any:
            return a

        def gradient(self, out_grad: Any, node: Any) -> Any:
            raise AssertionError("behind a closed-over tensor")

    h = Untouched()(leaf([2.0]))
    assert ndl.grad(lambda x: (x * h).sum())(plain([3.0])).item() == 2
    assert ndl.jvp(lambda x: x * h, (plain([3.0]),), (plain([1.0]),))[1].item() == 2


# vjp --------------------------------------------------------------------------------------------


def test_vjp_of_nested_results_can_be_called_again() -> None:
    def f(x: ndl.Tensor) -> Any:
        return {"sum": x.sum(), "parts": ndl.split(x, 0)}

    x = plain([[1.0, 2.0], [3.0, 4.0]])
    out, vjp_fn = ndl.vjp(f, x)
    assert out["sum"].item() == 10
    assert isinstance(out["parts"], tuple)
    for scale in (1.0, 2.0):
        seed = {"sum": plain(scale), "parts": (plain([1.0, 0.0]), plain([0.0, 0.0]))}
        assert_close(vjp_fn(seed)[0], [[1 + scale, scale], [scale, scale]])


def test_vjp_has_aux() -> None:
    y, vjp_fn, aux = ndl.vjp(lambda x: (x * x, "aux"), plain([3.0]), has_aux=True)
    assert (y.item(), vjp_fn(plain([1.0]))[0].item(), aux) == (9, 6, "aux")


def test_vjp_is_differentiable_in_the_cotangent() -> None:
    _, vjp_fn = ndl.vjp(lambda x: x * x, plain([3.0]))
    assert ndl.grad(lambda u: (vjp_fn(u)[0] ** 2).sum())(plain([2.0])).item() == 2 * 36 * 2


# jvp --------------------------------------------------------------------------------------------


def test_jvp_equals_the_jacobian_times_the_tangent() -> None:
    x, w, t = plain(X), plain(W), np.ones_like(X)
    y, change = ndl.jvp(mlp, (x, w), (plain(t), plain(0 * W)))
    assert_close(y, np.tanh(X @ W))
    jac = ndl.jacobian(mlp)(x, w).numpy()
    assert_close(change, np.tensordot(jac, t, 2))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.exp() * x,
        lambda x: x / (x * x + 1),
        lambda x: ndl.maximum(x, x * 2),
        lambda x: ndl.where(x > 0, x * x, x),
        lambda x: x[:, ndl.tensor([0, 2])].sum(1),
        lambda x: ndl.split(x, 1)[1] * 3,
        lambda x: ndl.stack([x, x * x], 1),
        lambda x: ndl.logsumexp(x, 1),
        lambda x: ndl.concatenate([x, x.exp()], 0),
        lambda x: x @ x.T,
        lambda x: x * x.sum(1, keepdims=True),
        lambda x: x.max(0),
        lambda x: ndl.fused_add_scalars(x * x, 1, 2),
        lambda x: x.reshape((3, 2)).transpose().broadcast_to((2, 2, 3)),
        lambda x: x.astype("float32").astype("float64") * 2,
    ],
)
def test_forward_mode_agrees_with_reverse_mode(f: Any) -> None:
    x = plain(X)
    forward, backward = ndl.jacobian(f, mode="fwd")(x), ndl.jacobian(f, mode="rev")(x)
    for a, b in zip(ndl.tree.leaves(forward), ndl.tree.leaves(backward), strict=True):
        assert_close(a, b)


def test_rule_of_an_operator_is_used() -> None:
    class Cube(ndl.TensorOp):
        def compute(self, a: Any) -> Any:
            return a * a * a

        def gradient(self, out_grad: Any, node: Any) -> Any:
            raise AssertionError("forward mode has its own rule")

        def jvp(self, node: Any, tangents: Any) -> Any:
            (x,), (t,) = node.inputs, tangents
            return x * x * 3 * t

    assert ndl.jvp(lambda x: Cube()(x), (plain([2.0]),), (plain([5.0]),))[1].item() == 60


def test_rule_of_an_operator_without_one_follows_from_its_gradient() -> None:
    class Outer(ndl.TensorOp):
        """y = a bᵀ"""

        def compute(self, a: Any, b: Any) -> Any:
            return a.reshape((-1, 1)) @ b.reshape((1, -1))

        def gradient(self, out_grad: Any, node: Any) -> Any:
            a, b = node.inputs
            return (out_grad * b).sum(1), (out_grad * a.reshape((-1, 1))).sum(0)

    a, b = plain([1.0, 2.0]), plain([3.0, 4.0, 5.0])
    ta, tb = plain([0.5, 0.25]), plain([1.0, 0.0, 2.0])
    change = ndl.jvp(lambda a, b: Outer()(a, b), (a, b), (ta, tb))[1]
    expected = np.outer(ta.numpy(), b.numpy()) + np.outer(a.numpy(), tb.numpy())
    assert_close(change, expected)
    check_grads(lambda a, b: Outer()(a, b), a, b)


def test_jvp_of_what_does_not_depend_on_the_primals() -> None:
    y, change = ndl.jvp(lambda x: (plain([1.0]), x > 0, "text"), (plain([2.0]),), (plain([1.0]),))
    assert change[0].item() == 0
    assert not change[1].item()
    assert change[2] is None
    assert y[2] == "text"


def test_jvp_has_aux() -> None:
    y, change, aux = ndl.jvp(lambda x: (x * x, x + 1), (plain(3.0),), (plain(1.0),), has_aux=True)
    assert (y.item(), change.item(), aux.item()) == (9, 6, 4)


# Nested -----------------------------------------------------------------------------------------


def cubic(x: ndl.Tensor) -> ndl.Tensor:
    return (x**3).sum() + (x * x.sum()).sum()


H = 6 * np.diag([1.0, 2.0, -1.0]) + 2.0  # its second derivative at POINT
POINT, DIRECTION = [1.0, 2.0, -1.0], [0.5, -1.0, 2.0]


@pytest.mark.parametrize("argument", [plain, leaf])
def test_second_derivatives_in_every_nesting(argument: Any) -> None:
    x, v = argument(POINT), plain(DIRECTION)
    expected = H @ np.array(DIRECTION)
    gradient = ndl.grad(cubic)

    def directional(x: ndl.Tensor) -> ndl.Tensor:
        return ndl.jvp(cubic, (x,), (v,))[1]

    assert_close(ndl.grad(lambda x: (gradient(x) * v).sum())(x), expected)
    assert_close(ndl.jvp(gradient, (x,), (v,))[1], expected)
    assert_close(ndl.grad(directional)(x), expected)
    assert_close(ndl.jvp(directional, (x,), (v,))[1], np.array(DIRECTION) @ expected)
    assert_close(ndl.vjp(gradient, x)[1](v)[0], expected)
    assert_close(ndl.hessian(cubic)(x), H)
    assert_close(ndl.jacobian(gradient, mode="fwd")(x), H)
    assert_close(ndl.jacobian(ndl.jacobian(cubic))(x), H)


def test_third_and_fourth_derivative() -> None:
    f = lambda x: x**5  # noqa: E731
    for slope in (5 * 2**4, 20 * 2**3, 60 * 2**2, 120 * 2):
        f = ndl.grad(f)
        assert f(plain(2.0)).item() == slope


def test_perturbations_are_not_confused() -> None:
    """d/dx (x * d/dy (x + y)) = 1: the inner derivative must not see the outer x."""
    inner = lambda x: ndl.jvp(lambda y: x + y, (plain(1.0),), (plain(1.0),))[1]  # noqa: E731
    assert ndl.jvp(lambda x: x * inner(x), (plain(1.0),), (plain(1.0),))[1].item() == 1
    assert ndl.grad(lambda x: x * ndl.grad(lambda y: x + y)(plain(1.0)))(plain(1.0)).item() == 1


def test_jvp_is_differentiable_in_the_tangent() -> None:
    f = lambda t: (ndl.jvp(lambda x: x**3, (plain(2.0),), (t,))[1]) ** 2  # noqa: E731
    assert ndl.grad(f)(plain(3.0)).item() == 2 * 12 * 12 * 3


# jacobian, hessian ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, "rev", "fwd"])
def test_jacobian_shapes_and_values(mode: str | None) -> None:
    a = np.arange(6.0).reshape(2, 3)
    jac = ndl.jacobian(lambda x: plain(a) @ x, mode=mode)(plain([1.0, 2.0, 3.0]))
    assert_close(jac, a)
    both = ndl.jacobian(mlp, argnums=(0, 1), mode=mode)(plain(X), plain(W))
    assert [j.shape for j in both] == [(2, 2, 2, 3), (2, 2, 3, 2)]


@pytest.mark.parametrize("mode", ["rev", "fwd"])
def test_jacobian_of_nested_arguments_and_results(mode: str) -> None:
    def f(p: Any) -> Any:
        return {"product": p["a"] * p["b"], "b": p["b"].sum()}

    p = {"a": plain([1.0, 2.0]), "b": plain([3.0, 4.0])}
    jac = ndl.jacobian(f, mode=mode)(p)
    assert_close(jac["product"]["a"], np.diag([3.0, 4.0]))
    assert_close(jac["b"]["b"], [1.0, 1.0])
    assert_close(jac["b"]["a"], [0.0, 0.0])


@pytest.mark.parametrize("mode", ["rev", "fwd"])
def test_jacobian_of_empty_arguments(mode: str) -> None:
    jac = ndl.jacobian(lambda x: x * 2, mode=mode)(plain(np.zeros((0, 2))))
    assert jac.shape == (0, 2, 0, 2)


def test_hessian_of_two_arguments() -> None:
    blocks = ndl.hessian(lambda a, b: (a * b * b).sum(), argnums=(0, 1))(plain(2.0), plain(3.0))
    assert [[h.item() for h in row] for row in blocks] == [[0, 6], [6, 4]]


# Errors -----------------------------------------------------------------------------------------


def same(x: Any) -> Any:
    return x


ONE = plain(1.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ndl.grad(same)(plain([1.0, 2.0])),
            ValueError,
            r"number, got a Tensor of shape \(2,\)",
        ),
        (lambda: ndl.grad(lambda x: 3.0)(ONE), ValueError, "one number, got float"),
        (lambda: ndl.grad(same)(3.0), TypeError, "expected Tensors to differentiate by, got float"),
        (lambda: ndl.grad(same)(ndl.tensor([1])), TypeError, "floating tensors, got int64"),
        (lambda: ndl.grad(same, argnums=1)(ONE), ValueError, "at least 2 arguments, got 1"),
        (lambda: ndl.grad(same, has_aux=True)(ONE), TypeError, "has_aux expects f to return"),
        (lambda: ndl.jvp(same, ONE, ONE), TypeError, "expected tuples"),
        (lambda: ndl.jvp(same, (ONE,), ()), ValueError, "expected 1 tangents, got 0"),
        (lambda: ndl.jvp(same, (ONE,), (1.0,)), TypeError, "Tensors as tangents, got float"),
        (lambda: ndl.jvp(same, (ONE,), (plain([1.0]),)), ValueError, r"shape \(\), got \(1,\)"),
        (lambda: ndl.vjp(same, ONE)[1](plain([1.0])), ValueError, r"shape \(\), got \(1,\)"),
        (lambda: ndl.jacobian(same, mode="up"), ValueError, 'mode "rev", "fwd" or None'),
        (lambda: ndl.jacobian(lambda x: "text")(ONE), TypeError, "function to Tensors, got str"),
    ],
)
def test_mistakes(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_results_do_not_share_memory() -> None:
    a, b = ndl.tensor([1.0, 2.0]), ndl.tensor([3.0, 4.0])
    by_a, by_b = ndl.grad(lambda a, b: (a + b).sum(), argnums=(0, 1))(a, b)
    by_a *= 10
    assert (by_a.tolist(), by_b.tolist()) == ([10, 10], [1, 1])
    seed = ndl.ones(2)
    by_a, by_b = ndl.vjp(lambda a, b: a + b, a, b)[1](seed)
    by_a *= 10
    assert (by_a.tolist(), by_b.tolist(), seed.tolist()) == ([10, 10], [1, 1], [1, 1])


def test_argnums() -> None:
    a, b = ndl.tensor([1.0, 2.0]), ndl.tensor([3.0, 4.0])

    def product(x, y):
        return (x * y).sum()

    assert ndl.grad(product, np.int64(1))(a, b).tolist() == [1, 2]
    assert [g.tolist() for g in ndl.grad(product, (-1, 0))(a, b)] == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match=r"\[grad\] argnums must be distinct, got \(0, -2\) of 2"):
        ndl.grad(product, (0, -2))(a, b)
    with pytest.raises(ValueError, match=r"\[grad\] expected at least 3 arguments, got 2"):
        ndl.grad(product, -3)(a, b)
    with pytest.raises(TypeError, match=r"\[grad\] argnums must be a whole number, got 1.0"):
        ndl.jacobian(product, 1.0)(a, b)
