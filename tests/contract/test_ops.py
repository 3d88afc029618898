"""The course's operators: classes, functions, shapes and gradients.

The last test runs all others again with NEEDLE_BACKEND=np.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import needle as ndl

OVER_NUMPY = ndl.BACKEND == "np"
PRECISION = 1e-6 if OVER_NUMPY else 1e-2  # np mode keeps float64


def tensor(*shape, positive=False):
    values = np.random.randn(*shape)
    return ndl.Tensor(np.abs(values) + 0.5 if positive else values)


def assert_gradient(function, *args, **kwargs):
    """The course's own check: every element moved by eps in the live buffer."""
    eps = 1e-4 if OVER_NUMPY else 1e-2
    out = function(*args, **kwargs)
    weights = np.random.randn(*out.shape)

    def loss():
        return float(np.sum(function(*args, **kwargs).numpy() * weights))

    gradients = out.op.gradient_as_tuple(ndl.Tensor(weights), out)
    assert len(gradients) == len(args)
    for x, gradient in zip(args, gradients, strict=True):
        assert gradient.shape == x.shape
        numeric = np.zeros(x.shape)
        flat = x.realize_cached_data().flat
        for j in range(numeric.size):
            flat[j] += eps
            above = loss()
            flat[j] += -2 * eps
            below = loss()
            flat[j] += eps
            numeric.flat[j] = (above - below) / (2 * eps)
        scale = np.abs(numeric).max(initial=1.0)
        np.testing.assert_allclose(gradient.numpy(), numeric, atol=PRECISION * scale)


CLASSES = {
    "EWiseAdd": (), "AddScalar": (1,), "EWiseMul": (), "MulScalar": (2,), "EWiseDiv": (),
    "DivScalar": (2,), "EWisePow": (), "PowerScalar": (2,), "Transpose": (), "Reshape": ((1,),),
    "BroadcastTo": ((1,),), "Summation": (), "MatMul": (), "Negate": (), "Log": (), "Exp": (),
    "ReLU": (), "Tanh": (), "LogSumExp": (), "LogSoftmax": (), "Stack": (0,), "Split": (0,),
    "Flip": (0,), "Dilate": ((0,), 1), "UnDilate": ((0,), 1), "MakeTensorTuple": (),
    "TupleGetItem": (0,), "FusedAddScalars": (1, 2),
}  # fmt: skip


@pytest.mark.parametrize(("name", "args"), CLASSES.items())
def test_classes(name, args):
    op = getattr(ndl, name)(*args)
    assert isinstance(op, ndl.Op)
    assert getattr(ndl.ops, name) is getattr(ndl, name)


def test_parameters_are_attributes():
    assert ndl.AddScalar(3).scalar == 3 and ndl.PowerScalar(2).scalar == 2
    assert ndl.Summation((0, 1)).axes == (0, 1) and ndl.Transpose((0, 1)).axes == (0, 1)
    assert ndl.Stack(1).axis == 1 and ndl.Split(2).axis == 2 and ndl.Flip((0,)).axes == (0,)
    assert (ndl.Dilate((0,), 2).axes, ndl.Dilate((0,), 2).dilation) == ((0,), 2)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (ndl.add, ((3, 4), (3, 4))),
        (ndl.multiply, ((3, 4), (3, 4))),
        (ndl.divide, ((3, 4), (3, 4))),
        (ndl.power, ((1, 3), (3,))),
        (ndl.matmul, ((5, 4), (4, 3))),
        (ndl.matmul, ((6, 2, 5, 4), (4, 3))),
        (ndl.matmul, ((5, 4), (2, 3, 4, 3))),
        (ndl.matmul, ((2, 5, 4), (4, 3))),
        (ndl.matmul, ((3, 1, 2, 4), (2, 4, 3))),
    ],
)
def test_gradients_of_two(function, shapes):
    assert_gradient(function, *(tensor(*s, positive=True) for s in shapes))


@pytest.mark.parametrize("exponent", [0, 2, -1.5, 0.5, 5.0])
def test_power_scalar(exponent):
    x = tensor(2, 3, positive=True)
    y = ndl.power_scalar(x, exponent)
    np.testing.assert_allclose(y.numpy(), x.numpy() ** exponent, rtol=1e-5)
    assert_gradient(ndl.power_scalar, x, scalar=exponent)


def test_scalars_may_be_arrays_with_one_element():
    x, scalar = tensor(3, 4), np.random.randn(1) + 2
    for function, expected in (
        (ndl.divide_scalar, x.numpy() / scalar), (ndl.mul_scalar, x.numpy() * scalar),
        (ndl.add_scalar, x.numpy() + scalar),
    ):  # fmt: skip
        y = function(x, scalar=scalar)
        assert y.shape == (3, 4)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)
    assert_gradient(ndl.divide_scalar, x, scalar=scalar)


@pytest.mark.parametrize("axes", [None, (0, 1), (1, 2), (0, 2), (-1, 0)])
def test_transpose_swaps_two_axes(axes):
    x = tensor(2, 3, 4)
    expected = np.swapaxes(x.numpy(), *((-1, -2) if axes is None else axes))
    np.testing.assert_array_equal(ndl.transpose(x, axes=axes).numpy(), expected)
    assert_gradient(ndl.transpose, x, axes=axes)


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((3, 1), (3, 3)),
        ((1, 3), (3, 3)),
        ((1,), (3, 3, 3)),
        ((), (3, 3, 3)),
        ((5, 4, 1), (5, 4, 3)),
    ],
)
def test_broadcast_to(shape, target):
    x = tensor(*shape)
    out = ndl.broadcast_to(x, shape=target)
    np.testing.assert_array_equal(out.numpy(), np.broadcast_to(x.numpy(), target))
    (gradient,) = out.op.gradient_as_tuple(ndl.Tensor(np.ones(target)), out)
    assert gradient.shape == shape
    assert (gradient.numpy() == np.prod(target) / max(1, np.prod(shape, dtype=int))).all()


def test_reshape():
    x = tensor(5, 4)
    np.testing.assert_array_equal(ndl.reshape(x, (4, 5)).numpy(), x.numpy().reshape(4, 5))
    assert_gradient(ndl.reshape, x, shape=(4, 5))


@pytest.mark.parametrize("axes", [None, 0, 1, (0, 1), (0,), -1])
def test_summation(axes):
    x = tensor(5, 4)
    expected = x.numpy().sum(axis=axes)
    found = ndl.summation(x, axes=axes)
    np.testing.assert_allclose(found.numpy().reshape(expected.shape), expected, rtol=1e-5)
    assert_gradient(ndl.summation, x, axes=axes)


@pytest.mark.parametrize("name", ["negate", "log", "exp", "relu", "tanh"])
def test_functions_of_one(name):
    x = tensor(3, 4, positive=True)
    expected = {
        "negate": np.negative, "log": np.log, "exp": np.exp, "tanh": np.tanh,
        "relu": lambda v: np.maximum(v, 0),
    }[name](x.numpy())  # fmt: skip
    function = getattr(ndl, name)
    np.testing.assert_allclose(function(x).numpy(), expected, rtol=1e-5)
    assert_gradient(function, x)


def test_relu_has_no_slope_at_zero():
    x = ndl.Tensor([-1.0, 0.0, 2.0])
    ndl.relu(x).backward()
    assert x.grad.numpy().tolist() == [0, 0, 1]


@pytest.mark.parametrize("axes", [None, 0, 1, (0, 1), (0, 2), 2])
def test_logsumexp(axes):
    x = tensor(3, 4, 5)
    expected = np.log(np.exp(x.numpy()).sum(axis=axes))
    found = ndl.ops.logsumexp(x, axes=axes)
    np.testing.assert_allclose(found.numpy().reshape(expected.shape), expected, rtol=1e-5)
    assert_gradient(ndl.logsumexp, x, axes=axes)


def test_logsumexp_survives_large_inputs():
    x = ndl.Tensor(np.array([[1e10, 1e9, 1e8], [1e-10, 1e9, 1e10]]))
    y = ndl.logsumexp(x, axes=(1,))
    np.testing.assert_allclose(y.numpy(), [1e10, 1e10])
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), [[1, 0, 0], [0, 0, 1]])


def test_logsoftmax_is_stable():
    values = np.array([[1e5, 1e5 - 1, 0.0], [1.0, 2.0, 3.0]])
    found = ndl.ops.logsoftmax(ndl.Tensor(values)).numpy()
    shifted = values - values.max(1, keepdims=True)
    expected = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert_gradient(ndl.logsoftmax, tensor(3, 4))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_stack_and_split(axis):
    xs = [tensor(2, 3) for _ in range(4)]
    stacked = ndl.stack(xs, axis=axis)
    np.testing.assert_array_equal(stacked.numpy(), np.stack([x.numpy() for x in xs], axis))
    parts = ndl.split(stacked, axis=axis)
    assert isinstance(parts, ndl.TensorTuple) and len(parts) == 4
    for part, x in zip(parts, xs, strict=True):
        np.testing.assert_array_equal(part.numpy(), x.numpy())
    out_grad = np.random.randn(*stacked.shape)
    given = stacked.op.gradient_as_tuple(ndl.Tensor(out_grad), stacked)
    found = list(given[0]) if isinstance(given[0], ndl.TensorTuple) else list(given)
    for i, gradient in enumerate(found):
        np.testing.assert_allclose(gradient.numpy(), np.take(out_grad, i, axis), rtol=1e-6)


@pytest.mark.parametrize("axes", [(0,), (0, 1), (1,), (2,), (0, 1, 2)])
def test_flip(axes):
    x = tensor(2, 3, 4)
    np.testing.assert_array_equal(ndl.flip(x, axes=axes).numpy(), np.flip(x.numpy(), axes))
    assert_gradient(ndl.flip, x, axes=axes)


@pytest.mark.parametrize("dilation", [0, 1, 2])
@pytest.mark.parametrize("axes", [(0,), (0, 1), (1,), (5,)])
def test_dilate(axes, dilation):
    x = tensor(2, 3)
    found = ndl.dilate(x, dilation=dilation, axes=axes)
    steps = [dilation + 1 if i in axes else 1 for i in range(2)]
    assert found.shape == (2 * steps[0], 3 * steps[1])
    kept = found.numpy()[:: steps[0], :: steps[1]]
    np.testing.assert_array_equal(kept, x.numpy())
    assert np.count_nonzero(found.numpy()) == 6
    np.testing.assert_array_equal(ndl.undilate(found, axes, dilation).numpy(), x.numpy())
    assert_gradient(ndl.dilate, x, dilation=dilation, axes=axes)


def test_tuples():
    x = tensor(3)
    both = ndl.make_tuple(x, x * 2)
    assert isinstance(both, ndl.TensorTuple) and len(both) == 2
    assert both[0] is x
    a, b = ndl.fused_add_scalars(x, 1, 2)
    np.testing.assert_allclose(b.numpy() - a.numpy(), 1, rtol=1e-5)
    assert ndl.tuple_get_item(ndl.fused_add_scalars(x, 1, 2), 1).shape == (3,)


def test_the_richer_names_differ_only_in_name():
    x = tensor(3, 4)
    for options in ({"axes": 1}, {"axis": 1}, {"dim": 1}):
        np.testing.assert_array_equal(x.sum(**options).numpy(), x.sum(1).numpy())
    assert x.sum(axis=1, keepdims=True).shape == (3, 1)


@pytest.mark.skipif(OVER_NUMPY, reason="would run for ever")
def test_all_of_this_over_numpy():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "NEEDLE_BACKEND": "np"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
