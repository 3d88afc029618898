"""Fused operators equal the composites that they name, in values and in gradients."""

import numpy as np
import pytest

import needle as ndl
from needle.ops.network.activation import GeluGradient, GeluTanhGradient, SiluGradient
from needle.ops.network.loss import CrossEntropyGradient
from needle.ops.network.softmax import LogSoftmaxGradient, LogSumExpGradient, SoftmaxGradient
from needle.ops.normalization.batch_norm import (
    BatchNormGradient,
    batch_norm,
    batch_norm_by_definition,
)
from needle.ops.normalization.group_norm import (
    GroupNormGradient,
    group_norm,
    group_norm_by_definition,
)
from needle.ops.normalization.layer_norm import (
    AffineNormGradient,
    LayerNormGradient,
    affine_norm,
    affine_norm_by_definition,
)
from needle.ops.unary import ReLUGradient, SigmoidGradient, TanhGradient
from needle.testing import assert_close, check_grads


def tensors(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [ndl.tensor(rng.standard_normal(shape), dtype="float64") for shape in shapes]


def positive(shape):
    return ndl.tensor(np.random.default_rng(9).uniform(0.5, 2, shape), dtype="float64")


GROUPED = (2, 3, 2, 5)  # samples, groups, channels of each, places
X, ROWS, COLUMNS = (3, 5, 4), (3, 5, 1), (3, 1, 4)
IDS = ndl.tensor(np.arange(15).reshape(ROWS) % 4, dtype="int64")

CASES = {
    "softmax": (SoftmaxGradient((2,)), tensors(X, X)),
    "softmax of the middle axis": (SoftmaxGradient((1,)), tensors(X, X)),
    "softmax of all axes": (SoftmaxGradient((0, 1, 2)), tensors(X, X)),
    "log softmax": (LogSoftmaxGradient((0, 2)), tensors(X, X)),
    "log sum exp": (LogSumExpGradient((1,)), tensors(COLUMNS, X, COLUMNS)),
    "gelu": (GeluGradient(), tensors(X, X)),
    "gelu tanh": (GeluTanhGradient(), tensors(X, X)),
    "silu": (SiluGradient(), tensors(X, X)),
    "tanh": (TanhGradient(), tensors(X, X)),
    "sigmoid": (SigmoidGradient(), tensors(X, X)),
    "relu": (ReLUGradient(), tensors(X, X)),
    "layer_norm": (
        LayerNormGradient((0, 2), 1e-5, True),
        [*tensors(X, X), positive((1, 5, 1)), *tensors((1, 5, 1), (1, 5, 1))],
    ),
    "layer_norm, not centred": (
        LayerNormGradient((2,), 1e-5, False),
        [*tensors(X, X), positive(ROWS), *tensors(ROWS, ROWS)],
    ),
    "norm of a batch": (
        BatchNormGradient((0, 2), 1e-5),
        [*tensors(X, X, *[(1, 5, 1)] * 2), positive((1, 5, 1)), *tensors((1, 5, 1), (1, 5, 1))],
    ),
    "norm of a batch, channels last": (
        BatchNormGradient((0, 1), 1e-5),
        [*tensors(X, X, *[(1, 1, 4)] * 2), positive((1, 1, 4)), *tensors((1, 1, 4), (1, 1, 4))],
    ),
    "affine norm": (AffineNormGradient(1, 1e-5, True, True, True), tensors(X, X, (4,))),
    "affine norm of two axes": (
        AffineNormGradient(2, 1e-5, True, True, True),
        tensors(X, X, (5, 4)),
    ),
    "rms norm": (AffineNormGradient(1, 1e-5, False, True, False), tensors(X, X, (4,))),
    "norm of groups": (GroupNormGradient(1e-5), tensors(GROUPED, GROUPED, (1, 3, 2, 1))),
    "norm without weight": (AffineNormGradient(1, 1e-5, True, False, False), tensors(X, X)),
}


def as_list(result):
    return [result] if isinstance(result, ndl.Tensor) else list(result)


@pytest.mark.parametrize("name", CASES)
def test_equals_its_definition(name):
    op, inputs = CASES[name]
    found = op(*inputs)
    found = [found] if isinstance(found, ndl.Tensor) else list(found.tuple())
    for actual, expected in zip(found, as_list(op.definition(*inputs)), strict=True):
        assert_close(actual, expected)


@pytest.mark.parametrize("name", [n for n in CASES if "norm" not in n])
def test_gradients(name):
    op, inputs = CASES[name]
    check_grads(op, *inputs)


def test_cross_entropy_gradient():
    x, g = tensors((3, 5, 4), ROWS)
    op = CrossEntropyGradient(2)
    assert_close(op(x, IDS, g), op.definition(x, IDS, g))
    check_grads(lambda x, g: op(x, IDS, g), x, g)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_affine_norm(dtype, centred):
    for weighted in (True, False):
        x, w, b = (t.astype(dtype).detach() for t in tensors((6, 40), (40,), (40,)))
        parts = [w if weighted else None, b if centred else None]
        actual = affine_norm(x, 1, 1e-5, centred, *parts)
        expected = affine_norm_by_definition(x, 1, 1e-5, centred, *parts)
        assert_close(actual, expected)
    y, v, c = tensors((3, 8), (8,), (8,))
    check_grads(lambda y, v, c: affine_norm(y, 1, 1e-5, True, v, c), y, v, c)


@pytest.mark.parametrize(("axes", "shape"), [((0, 2), (1, 5, 1)), ((0, 1), (1, 1, 4))])
def test_batch_norm(axes, shape):
    x, w, b = tensors(X, shape, shape)
    found = batch_norm(x, axes, 1e-3, w, b)
    for actual, expected in zip(found, batch_norm_by_definition(x, axes, 1e-3, w, b), strict=True):
        assert_close(actual, expected)
    check_grads(lambda x, w, b: batch_norm(x, axes, 1e-3, w, b), x, w, b)


def test_group_norm():
    x, w, b = tensors(GROUPED, (1, 3, 2, 1), (1, 3, 2, 1))
    assert_close(group_norm(x, 1e-3, w, b), group_norm_by_definition(x, 1e-3, w, b))
    check_grads(lambda x, w, b: group_norm(x, 1e-3, w, b), x, w, b)


def test_group_norm_with_channels_innermost():
    """Its statistics are those of channels, joined."""
    x, w, b = tensors((2, 5, 3, 2), (1, 3, 2, 1), (1, 3, 2, 1))

    def turned(x, w, b):
        return group_norm(x.permute((0, 2, 3, 1)), 1e-3, w, b)

    expected = group_norm_by_definition(x.permute((0, 2, 3, 1)) + 100.0, 1e-3, w, b)
    assert_close(turned(x + 100.0, w, b), expected)
    check_grads(turned, x, w, b)


def test_one_tensor_as_both_inputs():
    (x,) = tensors((3, 4))
    check_grads(lambda x: SoftmaxGradient((1,))(x, x), x)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("shape", [(300, 64), (16, 8, 12, 20), (12, 7, 2100)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_lie_across_memory(shape, dtype, compiled):
    """Large enough that rows are copied to lie along memory."""
    x = np.random.default_rng(3).standard_normal(shape).astype(dtype)
    for axis in range(len(shape)):
        shifted = np.exp(x.astype("f8") - x.max(axis, keepdims=True))
        expected = shifted / shifted.sum(axis, keepdims=True)

        def f(x, axis=axis):
            return ndl.nn.functional.softmax(x, axis), ndl.logsumexp(x * 2, axis)

        found, sums = (ndl.jit(f) if compiled else f)(ndl.tensor(x, dtype))
        assert_close(found.numpy(), expected, rtol=1e-5)
        assert_close(sums.numpy(), np.log(np.exp(2.0 * x).sum(axis)), rtol=1e-5)
        assert found.shape == shape
