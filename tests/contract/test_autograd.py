"""The course's autograd: values, operators, the order of the graph, gradients of gradients.

The last test runs all others again with NEEDLE_BACKEND=np, and those of the transforms.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import autograd
from needle.backend import cpu, cpu_numpy

OVER_NUMPY = ndl.BACKEND == "np"
only_nd = pytest.mark.skipif(OVER_NUMPY, reason="is not about NEEDLE_BACKEND=np")
only_np = pytest.mark.skipif(not OVER_NUMPY, reason="is about NEEDLE_BACKEND=np")


@pytest.fixture(autouse=True)
def _eager_again() -> Iterator[None]:
    yield
    autograd.LAZY_MODE = False


# Value ------------------------------------------------------------------------------------------


def test_fields_of_a_leaf() -> None:
    x = ndl.Tensor([1.0, 2.0])
    assert isinstance(x, autograd.Value)
    assert x.op is None
    assert x.inputs == []
    assert x.requires_grad is True
    assert x.num_outputs == 1
    assert x.grad is None
    assert x.is_leaf()


def test_fields_of_a_result() -> None:
    a, b = ndl.Tensor([1.0]), ndl.Tensor([2.0])
    c = a * b
    assert isinstance(c.op, ndl.ops.EWiseMul)
    assert c.inputs[0] is a
    assert c.inputs[1] is b
    assert not c.is_leaf()
    assert c.requires_grad


def test_realize_cached_data_is_computed_once() -> None:
    autograd.LAZY_MODE = True
    y = ndl.Tensor([1.0]) + 1
    data = y.realize_cached_data()
    assert y.realize_cached_data() is data
    assert y.cached_data is data


def test_make_const_and_make_from_op() -> None:
    data = ndl.Tensor([3.0]).cached_data
    constant = ndl.Tensor.make_const(data)
    assert constant.cached_data is data
    assert constant.requires_grad is False
    assert ndl.Tensor.make_const(data, requires_grad=True).requires_grad
    x = ndl.Tensor([3.0])
    made = ndl.Tensor.make_from_op(ndl.ops.AddScalar(1), (x,))
    assert made.numpy() == 4
    assert made.inputs[0] is x


def test_tensor_counter() -> None:
    before = autograd.TENSOR_COUNTER
    x = ndl.Tensor([1.0])
    y = x + 1
    count = autograd.TENSOR_COUNTER
    assert count == before + 2
    del x, y
    count = autograd.TENSOR_COUNTER
    assert count == before


# Lazy mode --------------------------------------------------------------------------------------


def test_eager_results_without_gradient_are_detached() -> None:
    assert autograd.LAZY_MODE is False
    x = ndl.Tensor([1.0], requires_grad=False)
    y = x + 1
    assert y.op is None
    assert y.inputs == []
    assert y.cached_data is not None


def test_lazy_results_are_not_computed_and_not_detached() -> None:
    autograd.LAZY_MODE = True
    x = ndl.Tensor([1.0], requires_grad=False)
    y = x + 1
    assert y.cached_data is None
    assert y.inputs[0] is x
    assert y.numpy() == 2
    assert y.cached_data is not None


# Tensor: construction ---------------------------------------------------------------------------


def test_from_a_tensor_shares_the_buffer() -> None:
    x = ndl.Tensor([1.0, 2.0])
    assert ndl.Tensor(x).cached_data is x.cached_data
    assert ndl.Tensor(x, device=x.device, dtype=x.dtype).cached_data is x.cached_data


def test_from_a_tensor_of_another_dtype_copies() -> None:
    x = ndl.Tensor([1.5, 2.0])
    y = ndl.Tensor(x, dtype="int32")
    assert y.dtype == "int32"
    assert y.cached_data is not x.cached_data
    np.testing.assert_array_equal(y.numpy(), [1, 2])


@pytest.mark.skipif(OVER_NUMPY, reason="NumPy arrays are on no device")
def test_from_another_device_copies() -> None:
    x = ndl.Tensor([1.0, 2.0], device=cpu_numpy())
    y = ndl.Tensor(x, device=cpu())
    assert (x.device, y.device) == (cpu_numpy(), cpu())
    z = ndl.Tensor(x.cached_data, device=cpu())
    assert z.device == cpu()
    np.testing.assert_array_equal(z.numpy(), x.numpy())


SOURCES: list[Any] = [
    [[1, 2], [3, 4]],
    3,
    2.5,
    np.float64(0.25),
    np.arange(3, dtype=np.float64),
    np.arange(3, dtype=np.int64),
    np.arange(3, dtype=np.uint8),
    np.array(7.0),
]


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_sources(source: Any) -> None:
    x = ndl.Tensor(source)
    expected = np.asarray(source)
    assert x.shape == expected.shape
    assert x.dtype == (expected.dtype if OVER_NUMPY else "float32")
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_asked_dtype(dtype: str) -> None:
    assert ndl.Tensor([0, 1], dtype=dtype).dtype == dtype


def test_arrays_are_copied() -> None:
    source = np.ones(3, np.float32)
    x = ndl.Tensor(source)
    source[0] = 5
    np.testing.assert_array_equal(x.numpy(), [1, 1, 1])


def test_data_is_the_live_buffer() -> None:
    """Course tests take finite differences by writing into it."""
    x = ndl.Tensor(np.ones((2, 2)))
    data = x.realize_cached_data()
    assert isinstance(data, ndl.NDArray)
    assert data is x.cached_data
    data.flat[3] += 1
    np.testing.assert_array_equal(x.numpy(), [[1, 1], [1, 2]])


def test_device_and_default_gradient() -> None:
    x = ndl.Tensor([1.0])
    assert x.device == ndl.default_device()
    assert (x + 1).device == x.device
    assert ndl.Tensor([1.0], requires_grad=False).requires_grad is False


# Tensor: data -----------------------------------------------------------------------------------


def test_data_getter_is_detach() -> None:
    y = ndl.Tensor([1.0, 2.0]) * 2
    for z in (y.data, y.detach()):
        assert z is not y
        assert z.cached_data is y.cached_data
        assert z.op is None
        assert z.inputs == []
        assert z.requires_grad is False


def test_data_setter_checks_dtype_but_not_shape() -> None:
    bias = ndl.Tensor(np.zeros((1, 5), np.float32))
    new = ndl.Tensor(np.ones(5, np.float32))
    bias.data = new
    assert bias.shape == (5,)
    assert bias.requires_grad
    with pytest.raises(AssertionError):
        bias.data = np.ones(5)
    with pytest.raises(AssertionError):
        bias.data = ndl.Tensor(np.ones(5), dtype="int32")


def test_numpy_is_an_array_also_of_a_number() -> None:
    total = ndl.Tensor([1.0, 2.0]).sum()
    assert isinstance(total.numpy(), np.ndarray)
    assert total.numpy() == 3


def test_repr_and_str() -> None:
    x = ndl.Tensor([1.0, 2.0])
    assert repr(x) == "needle.Tensor([1. 2.])"
    assert str(x) == "[1. 2.]"


def test_hash_by_identity() -> None:
    x, y = ndl.Tensor([0.0, 1.0]), ndl.Tensor([0.0, 1.0])
    assert {x: 1, y: 2} == {y: 2, x: 1}
    assert {x: 1, y: 2}[y] == 2
    assert x in [x]
    assert (x == None) is False  # noqa: E711
    assert (x != "text") is True


OTHERS = [
    lambda: ndl.Tensor([1.0, 5.0]),
    lambda: ndl.Tensor([1.0, 5.0]).cached_data,
    lambda: np.array([1, 5]),
    lambda: 5,
    lambda: np.float64(5),
    lambda: True,
]


@only_nd
@pytest.mark.parametrize("other", OTHERS)
def test_equality_is_elementwise(other) -> None:
    x, values = ndl.Tensor([1.0, 2.0]), np.array([1.0, 2.0])
    against = np.asarray(other())
    for found, expected in ((x == other(), values == against), (x != other(), values != against)):
        assert isinstance(found, ndl.Tensor)
        assert found.dtype == "bool"
        np.testing.assert_array_equal(found.numpy(), expected)


@only_nd
def test_equality_from_the_left_and_of_other_shapes() -> None:
    x = ndl.Tensor([1.0, 2.0])
    assert (np.float32(2) == x).tolist() == [False, True]
    assert (np.array([1.0, 3.0]) == x).tolist() == [True, False]
    with pytest.raises(ValueError, match=r"\[equal\] shapes"):
        x == ndl.ones(3)  # noqa: B015


@only_nd
def test_truth_is_that_of_the_only_element() -> None:
    assert bool(ndl.Tensor([[2.0]]))
    assert not bool(ndl.Tensor(0.0))
    assert bool(ndl.Tensor([1.0]) != 2)
    for x in (ndl.Tensor([1.0, 1.0]), ndl.Tensor([]), ndl.Tensor([1.0, 2.0]) == 1):
        with pytest.raises(ValueError, match=r"\[bool\] the truth .*any\(\) or \.all\(\)"):
            bool(x)


@only_np
def test_equality_and_truth_over_numpy_are_those_of_objects() -> None:
    x, y = ndl.Tensor([0.0, 0.0]), ndl.Tensor([0.0, 0.0])
    assert (x == y) is False
    assert (x != y) is True
    assert bool(x)


# Tensor: arithmetic -----------------------------------------------------------------------------


def test_methods() -> None:
    a = np.arange(6.0).reshape(2, 3)
    x = ndl.Tensor(a)
    pairs = [
        (x.sum(), a.sum()),
        (x.sum(axes=1), a.sum(1)),
        (x.sum((0, 1)), a.sum()),
        (x.reshape((3, 2)), a.reshape(3, 2)),
        (x.broadcast_to((4, 2, 3)), np.broadcast_to(a, (4, 2, 3))),
        (x.transpose(), a.T),
        (x.transpose((0, 1)), a.T),
        (x.matmul(x.transpose()), a @ a.T),
        (x @ x.transpose(), a @ a.T),
    ]
    for found, expected in pairs:
        np.testing.assert_allclose(found.numpy(), expected)


def test_operators() -> None:
    a, b = np.array([1.0, 2.0, 4.0]), np.array([2.0, 0.5, 3.0])
    x, y = ndl.Tensor(a), ndl.Tensor(b)
    pairs = [
        (x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (x**y, a**b), (-x, -a),
        (x + 2, a + 2), (x - 2, a - 2), (x * 2, a * 2), (x / 2, a / 2), (x**2, a**2),
        (2 + x, 2 + a), (2 - x, 2 - a), (2 * x, 2 * a), (2 / x, 2 / a),
    ]  # fmt: skip
    for found, expected in pairs:
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_subtraction_is_adding_the_negative() -> None:
    a, b = ndl.Tensor([1.0]), ndl.Tensor([2.0])
    c = a - b
    assert isinstance(c.op, ndl.ops.EWiseAdd)
    assert isinstance(c.inputs[1].op, ndl.ops.Negate)
    d = a - 3
    assert isinstance(d.op, ndl.ops.AddScalar)
    assert d.op.scalar == -3


# Operators --------------------------------------------------------------------------------------


def test_parameters_are_plain_attributes() -> None:
    y = ndl.Tensor([1.0]) + 1
    assert y.op.__dict__ == {"scalar": 1}


def test_gradient_as_tuple() -> None:
    class Listed(ndl.TensorOp):
        def gradient(self, out_grad: Any, node: Any) -> Any:
            return [out_grad, out_grad]

    class Single(ndl.TensorOp):
        def gradient(self, out_grad: Any, node: Any) -> Any:
            return out_grad

    g = ndl.Tensor([1.0])
    assert Listed().gradient_as_tuple(g, None) == (g, g)
    assert Single().gradient_as_tuple(g, None) == (g,)


def test_gradients_are_nodes() -> None:
    a, b, g = ndl.Tensor([2.0]), ndl.Tensor([3.0]), ndl.Tensor([1.0])
    node = a * b
    by_a, by_b = node.op.gradient_as_tuple(g, node)
    assert [x is y for x, y in zip(by_a.inputs, (g, b), strict=True)] == [True, True]
    assert [x is y for x, y in zip(by_b.inputs, (g, a), strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda x, y: ndl.stack([x, y], 0), 2),
        (lambda x, y: ndl.flip(x, (0,)), 1),
        (lambda x, y: ndl.dilate(x, (0,), 1), 1),
        (lambda x, y: ndl.tanh(x), 1),
        (lambda x, y: ndl.summation(x, (0,)), 1),
        (lambda x, y: ndl.broadcast_to(x, (3, 2, 2)), 1),
        (lambda x, y: ndl.matmul(x, y), 2),
        (lambda x, y: ndl.power(x, y), 2),
        (lambda x, y: ndl.log(x), 1),
        (lambda x, y: ndl.exp(x), 1),
        (lambda x, y: ndl.relu(x), 1),
        (lambda x, y: ndl.logsumexp(x, (1,)), 1),
        (lambda x, y: ndl.reshape(x, (4,)), 1),
        (lambda x, y: ndl.transpose(x), 1),
    ],
)
def test_one_operator_on_exactly_the_given_tensors(function: Any, count: int) -> None:
    given = ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), ndl.Tensor([[2.0, 1.0], [0.5, 3.0]])
    out = function(*given)
    inputs = out.inputs
    if len(inputs) == 1 and isinstance(inputs[0], ndl.TensorTuple):
        inputs = inputs[0].inputs
    assert len(inputs) == count
    assert all(x is y for x, y in zip(inputs, given, strict=False))
    gradients = out.op.gradient_as_tuple(ndl.ones_like(out), out)
    assert len(gradients) == len(out.inputs)


# The graph and its gradients --------------------------------------------------------------------


def test_topological_order() -> None:
    """3*a*a + 4*b*a - a has nine nodes, depth first, inputs in order."""
    a, b = ndl.Tensor(np.array([[2.0]])), ndl.Tensor(np.array([[5.0]]))
    out = 3 * a * a + 4 * b * a - a
    order = autograd.find_topo_sort([out])
    assert [x.numpy().item() for x in order] == [2, 6, 12, 5, 20, 40, 52, -2, 50]
    assert order[0] is a
    assert order[3] is b
    assert order[-1] is out


def test_gradient_of_gradient() -> None:
    x2, x3 = ndl.Tensor([6]), ndl.Tensor([0])
    y = x2 * x2 + x2 * x3
    y.backward()
    first2, first3 = x2.grad, x3.grad
    assert (y.numpy(), first2.numpy(), first3.numpy()) == (36, 12, 6)
    first2.backward()
    assert (x2.grad.numpy(), x3.grad.numpy()) == (2, 1)


def test_backward_of_a_matrix_seeds_with_ones() -> None:
    x = ndl.Tensor(np.array([[1.0, 2.0], [3.0, 4.0]]))
    y = x * x
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy())
    assert x.grad.dtype == x.dtype
    assert x.grad.shape == x.shape
    assert y.grad is not None


def test_backward_with_a_seed() -> None:
    x = ndl.Tensor([1.0, 2.0])
    (x * x).backward(ndl.Tensor([10.0, 1.0]))
    np.testing.assert_allclose(x.grad.numpy(), [20, 4])


def test_gradient_is_overwritten_and_the_graph_kept() -> None:
    x = ndl.Tensor([3.0])
    y = x * x
    for _ in range(3):
        y.backward()
        assert x.grad.numpy() == 6
    assert y.inputs[0] is x
    assert isinstance(x.grad, ndl.Tensor)


def test_every_node_gets_its_gradient() -> None:
    x = ndl.Tensor([3.0])
    h = x * 2
    (h * h).backward()
    assert h.grad.numpy() == 12
    assert x.grad.numpy() == 24


def test_compute_gradient_of_variables() -> None:
    x = ndl.Tensor([3.0])
    autograd.compute_gradient_of_variables(x * x, ndl.Tensor([1.0]))
    assert x.grad.numpy() == 6


# TensorTuple ------------------------------------------------------------------------------------


def test_tuple() -> None:
    a, b = ndl.Tensor([1.0]), ndl.Tensor([2.0])
    pair = ndl.make_tuple(a, b)
    assert isinstance(pair, ndl.TensorTuple)
    assert len(pair) == 2
    assert pair[0] is a
    assert [x is y for x, y in zip(pair, (a, b), strict=True)] == [True, True]
    assert pair.tuple() == (a, b)
    assert repr(pair) == "needle.TensorTuple(needle.Tensor([1.]), needle.Tensor([2.]))"
    assert str(pair) == repr(pair)
    assert isinstance(pair.realize_cached_data(), tuple)


def test_tuple_sum_and_detach() -> None:
    pair = ndl.make_tuple(ndl.Tensor([1.0]), ndl.Tensor([2.0]))
    total = pair + pair
    assert [x.numpy().item() for x in total] == [2, 4]
    assert pair.detach().op is None
    assert not pair.detach().requires_grad


def test_split_gives_a_tuple_also_lazily() -> None:
    for autograd.LAZY_MODE in (False, True):
        x = ndl.Tensor(np.arange(6.0).reshape(3, 2))
        parts = ndl.split(x, 0)
        assert len(parts) == 3
        assert isinstance(parts[1].op, ndl.ops.TupleGetItem)
        assert [p.numpy().tolist() for p in parts] == [[0, 1], [2, 3], [4, 5]]
        sum(p.sum() for p in parts).backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.ones((3, 2)))


def test_fused_add_scalars() -> None:
    x = ndl.Tensor([1.0])
    y = ndl.fused_add_scalars(x, 1, 10)
    (y[0] * y[1]).backward()
    assert x.grad.numpy() == 13


# Over NumPy -------------------------------------------------------------------------------------


@only_np
def test_over_numpy_keeps_numpys_dtypes() -> None:
    x = ndl.Tensor(np.random.randn(3))
    assert x.dtype == np.float64
    assert type(x.cached_data) is np.ndarray
    y = x * 2
    assert type(y.cached_data) is np.ndarray
    y.sum().backward()
    assert x.grad.dtype == np.float64
    assert ndl.Tensor([6]).dtype == np.int64


@pytest.mark.skipif(OVER_NUMPY, reason="would run for ever")
def test_all_of_this_over_numpy() -> None:
    other = Path(__file__).parents[1] / "autograd"
    files = [__file__, *(str(other / f"test_{name}.py") for name in ("transforms", "checkpoint"))]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "NEEDLE_BACKEND": "np"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
