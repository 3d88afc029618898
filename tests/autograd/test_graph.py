"""The order of dependencies, deep graphs, and what operators record."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import autograd
from needle.autograd.graph import find_paths, find_topo_sort

from .helpers import leaf, plain

DEEP = 100_000


def chain(x: ndl.Tensor, length: int) -> ndl.Tensor:
    for _ in range(length):
        x = x + 1
    return x


def test_inputs_come_before_users_and_each_node_once() -> None:
    a, b = leaf([1.0]), leaf([2.0])
    c = a * b
    d = c + a
    e = d * c
    order = find_topo_sort([e])
    assert [id(n) for n in order] == [id(n) for n in (a, b, c, d, e)]
    assert find_topo_sort([c, e]) == [a, b, c, d, e]


def test_several_roots_share_what_they_depend_on() -> None:
    a = leaf([1.0])
    b, c = a + 1, a + 2
    assert find_topo_sort([b, c]) == [a, b, c]


def test_until_lists_a_node_but_not_what_is_behind() -> None:
    a = leaf([1.0])
    b = a + 1
    c = b + 1
    assert find_topo_sort([c], until=lambda n: n is b) == [b, c]


def test_paths_leave_out_what_does_not_lead_to_a_target() -> None:
    a, b = leaf([1.0]), leaf([2.0])
    side = b * 3
    on_path = a * 2
    out = on_path * side
    assert find_paths([out], [a]) == [a, on_path, out]
    assert find_paths([out], [on_path]) == [on_path, out]
    assert find_paths([side], [a]) == []


def test_deep_chain_forward_backward_and_freed() -> None:
    gc.collect()
    before = autograd.TENSOR_COUNTER
    x = leaf([1.0])
    y = chain(x, DEEP)
    assert y.item() == DEEP + 1
    assert len(find_topo_sort([y])) == DEEP + 1
    y.backward()
    assert x.grad.item() == 1
    del y, x
    gc.collect()
    count = autograd.TENSOR_COUNTER
    assert count == before


def test_deep_chain_of_second_derivatives() -> None:
    x = leaf([1.0])
    y = x
    for _ in range(5000):
        y = y * 1.0001
    (y * y).backward()
    grad = x.grad
    assert grad.item() == pytest.approx(2 * 1.0001**10000, rel=1e-4)
    grad.backward()
    assert x.grad.item() == pytest.approx(2 * 1.0001**10000, rel=1e-4)


def test_deep_chain_through_the_transforms() -> None:
    x = plain([1.0])
    assert ndl.grad(lambda x: chain(x, 20_000).sum())(x).item() == 1
    assert ndl.jvp(lambda x: chain(x, 20_000), (x,), (plain([3.0]),))[1].item() == 3


def test_wide_graph_of_one_leaf() -> None:
    x = leaf(2.0)
    total = plain(0.0)
    for _ in range(2000):
        total = total + x * x
    total.backward()
    assert x.grad.item() == 8000


def test_results_that_need_no_gradient_keep_no_history() -> None:
    y = plain([1.0]) * plain([2.0])
    assert y.op is None
    assert y.inputs == []
    assert not y.requires_grad


def test_operators_without_derivative_do_not_record() -> None:
    x = leaf([1.0, -1.0])
    assert not (x > 0).requires_grad
    assert (x > 0).op is None


@pytest.mark.parametrize("use", ["with", "call", "bare"])
def test_no_grad(use: str) -> None:
    x = leaf([2.0])

    def square() -> ndl.Tensor:
        return x * x

    if use == "with":
        with ndl.no_grad():
            y = square()
    else:
        y = (ndl.no_grad()(square) if use == "call" else ndl.no_grad(square))()
    assert not y.requires_grad
    assert square().requires_grad


def test_enable_grad_inside_no_grad() -> None:
    x = leaf([2.0])
    with ndl.no_grad():
        assert not ndl.is_grad_enabled()
        with ndl.enable_grad():
            assert (x * x).requires_grad
        assert not (x * x).requires_grad
    assert ndl.is_grad_enabled()


def test_grad_mode_ends_with_an_error() -> None:
    with pytest.raises(RuntimeError), ndl.no_grad():
        raise RuntimeError
    assert ndl.is_grad_enabled()


def test_one_mode_object_may_be_entered_again() -> None:
    mode = ndl.no_grad()
    with mode, mode:
        assert not ndl.is_grad_enabled()
    assert ndl.is_grad_enabled()


def test_decorated_recursion_restores_the_mode() -> None:
    seen = []

    @ndl.no_grad
    def down(n: int) -> None:
        seen.append(ndl.is_grad_enabled())
        if n:
            down(n - 1)

    down(3)
    assert seen == [False] * 4
    assert ndl.is_grad_enabled()


def test_grad_mode_belongs_to_the_thread() -> None:
    seen: list[bool] = []
    entered, done = threading.Event(), threading.Event()

    def other() -> None:
        with ndl.no_grad():
            entered.set()
            done.wait(10)
            seen.append(ndl.is_grad_enabled())

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(10)
    seen.append(ndl.is_grad_enabled())
    done.set()
    thread.join()
    assert seen == [True, False]


class Double(ndl.TensorOp):
    """y = 2x"""

    def compute(self, a: Any) -> Any:
        return a + a

    def gradient(self, out_grad: ndl.Tensor, node: ndl.Tensor) -> Any:
        return out_grad * 2


def test_operator_called_with_a_number_says_so() -> None:
    with pytest.raises(TypeError, match=r"\[Double\] expected Tensors, got float as input 0"):
        Double()(1.0)
    with ndl.no_grad(), pytest.raises(TypeError, match=r"\[Double\] expected Tensors, got ndarray"):
        Double()(np.ones(2))


def test_attribute_error_inside_compute_stays_what_it_is() -> None:
    class Broken(ndl.TensorOp):
        def compute(self, a: Any) -> Any:
            return a.no_such_name

    with pytest.raises(AttributeError, match="no_such_name"):
        Broken()(leaf([1.0]))


def test_operator_base_classes_say_what_is_missing() -> None:
    with pytest.raises(TypeError, match=r"\[Op\] subclass TensorOp or TensorTupleOp"):
        ndl.Op()(leaf([1.0]))
    with pytest.raises(TypeError, match=r"\[TensorOp\] has no compute"):
        ndl.TensorOp()(leaf([1.0]))

    class Forward(ndl.TensorOp):
        def compute(self, a: Any) -> Any:
            return a

    class Forgets(ndl.TensorOp):
        def compute(self, a: Any) -> Any:
            a + 1

    with pytest.raises(TypeError, match=r"\[Forgets.compute\] expected an array, got None"):
        Forgets()(leaf([1.0]))
    with pytest.raises(TypeError, match=r"\[Forward\] has no gradient"):
        Forward()(leaf([1.0])).backward()


@pytest.mark.skipif(ndl.BACKEND == "np", reason="arrays are NumPy's there")
def test_a_result_in_numpy_is_explained() -> None:
    class InNumpy(ndl.TensorOp):
        def compute(self, a: Any) -> Any:
            return np.sort(a.numpy())

    expected = r"\[InNumpy.compute\] expected an NDArray, got ndarray; make one, NDArray\(result\)"
    with pytest.raises(TypeError, match=expected):
        InNumpy()(ndl.tensor([1.0]))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda g: (g, g), r"one gradient per input \(1\), got 2"),
        (lambda g: g.sum(), r"a Tensor of the input's shape \(2,\), got \(\)"),
        (lambda g: 1.0, r"a Tensor of the input's shape \(2,\), got 1.0"),
    ],
)
def test_wrong_gradient_names_the_operator(returned: Any, message: str) -> None:
    class Wrong(ndl.TensorOp):
        def compute(self, a: Any) -> Any:
            return a

        def gradient(self, out_grad: ndl.Tensor, node: ndl.Tensor) -> Any:
            return returned(out_grad)

    with pytest.raises(ValueError, match=r"\[Wrong.gradient\] expected " + message):
        Wrong()(leaf([1.0, 2.0])).backward()


def test_observers_see_every_operator() -> None:
    class Log(ndl.Observer):
        def __init__(self) -> None:
            self.events: list[str] = []

        def computed(self, op: Any, inputs: Any, result: Any) -> None:
            self.events.append(f"computed {type(op).__name__}")

        def differentiating(self, node: Any) -> None:
            self.events.append(f"differentiating {type(node.op).__name__}")

        def differentiated(self, node: Any, gradients: Any) -> None:
            self.events.append(f"differentiated {type(node.op).__name__} {len(gradients)}")

    log = Log()
    x = leaf([1.0])
    autograd.observers.append(log)
    try:
        (-x).backward()
    finally:
        autograd.observers.remove(log)
    assert log.events == [
        "computed Negate",
        "differentiating Negate",
        "computed Negate",
        "differentiated Negate 1",
    ]


def test_set_grad_enabled_holds_from_now_on_or_in_a_context() -> None:
    try:
        ndl.set_grad_enabled(False)
        assert not ndl.is_grad_enabled()
        with ndl.set_grad_enabled(True):
            assert ndl.is_grad_enabled()
        assert not ndl.is_grad_enabled()
    finally:
        ndl.set_grad_enabled(True)
    mode = ndl.set_grad_enabled(False)
    with mode, mode:
        assert not ndl.is_grad_enabled()
    assert ndl.is_grad_enabled()


def test_set_grad_enabled_above_a_function() -> None:
    decorated = ndl.set_grad_enabled(False)(ndl.is_grad_enabled)
    assert ndl.is_grad_enabled() and not decorated() and ndl.is_grad_enabled()


@pytest.mark.parametrize("decorate", [ndl.no_grad, ndl.no_grad(), ndl.set_grad_enabled])
def test_no_grad_above_a_generator(decorate) -> None:
    decorate = decorate(False) if decorate is ndl.set_grad_enabled else decorate
    closed = []

    @decorate
    def steps(n):
        try:
            for i in range(n):
                sent = yield i, ndl.is_grad_enabled()
                assert sent is None or sent == 10 * i
            return "end"
        finally:
            closed.append(ndl.is_grad_enabled())

    assert list(steps(2)) == [(0, False), (1, False)]
    generator = steps(3)
    assert next(generator) == (0, False) and ndl.is_grad_enabled()
    assert generator.send(0) == (1, False)
    generator.close()
    assert closed == [False, False] and ndl.is_grad_enabled()
    with pytest.raises(StopIteration, match="end"):
        next(steps(0))
