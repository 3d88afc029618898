"""Programs that become the epilogue of a product, and those that must not."""

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.compiler.fusion.epilogues import as_matrix
from needle.compiler.ir.graph import FlatValue, Operand
from needle.dtype import float32

from .compiled import kernels, tensor

BIAS, MATRIX, COLUMN = tensor(8), tensor(10, 8), tensor(10, 1)


def test_text():
    w, bias = tensor(6, 8), tensor(8)
    f = ndl.jit(lambda x: (x @ w + bias).relu())
    f(tensor(10, 6))
    assert (
        str(f.graph["epilogues"])
        == """\
%0: float32[60] input
%1: float32[48] state
%3: float32[8] state
%5: float32[10, 8] = matmul_then fused(%0, %1, %3)
  %0 = load 0                full float32
  %1 = load 1                full float32
  %2 = add %0, %1            full float32
  %3 = relu %2               full float32
  store 0, %3                full float32
return %5"""
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x @ w + BIAS,  # one call alone
        lambda x, w: x @ w * 2.0,
        lambda x, w: MATRIX + x @ w,  # the product is not the first input
        lambda x, w: COLUMN - x @ w,
        lambda x, w: (x.reshape(2, 5, 6) @ w).relu(),  # other axes
    ],
)
def test_becomes_an_epilogue(function):
    assert kernels(function, tensor(10, 6), tensor(6, 8)) == ["matmul_then"]


def test_linear_with_residual_is_one_call():
    linear = nn.Linear(12, 12)
    assert kernels(lambda x: x + linear(x), tensor(2, 5, 12)) == ["matmul_then"]


def test_text_with_row_sums():
    w, bias = tensor(6, 8), tensor(8)
    f = ndl.jit(lambda x: (x @ w + bias).square().sum(axis=1) * 0.5)
    f(tensor(10, 6))
    assert (
        str(f.graph["epilogues"])
        == """\
%0: float32[60] input
%1: float32[48] state
%3: float32[8] state
%7: float32[10, 1] = matmul_then fused(%0, %1, %3)
  %0 = load 0                full float32
  %1 = load 1                full float32
  %2 = add %0, %1            full float32
  %3 = square %2             full float32
  %4 = row_sum %3            row float32
  %5 = constant 0.5          scalar float32
  %6 = multiply %4, %5       row float32
  store 0, %6                row float32
return %7"""
    )
    assert f.kernels[0].flops == 2 * 10 * 6 * 8


def distances(x, w):
    difference = x @ w - 1.0
    return difference.square().sum(axis=-1), difference * 2.0


@pytest.mark.parametrize(
    "function",
    [
        distances,  # the sums of rows beside their elements
        lambda x, w: (x @ w).max(axis=1),
        lambda x, w: (x @ w * ndl.ones(10, 1)).sum(axis=1).sqrt(),
        lambda x, w: (x.reshape(2, 5, 6) @ w).relu().sum(axis=-1) + ndl.ones(2, 5),
    ],
)
def test_row_sums_become_an_epilogue(function):
    x, w = tensor(10, 6), tensor(6, 8)
    compiled = ndl.jit(function)
    found, expected = compiled(x, w), function(x, w)
    assert [k.name for k in compiled.kernels] == ["matmul_then fused"]
    for ours, theirs in zip(ndl.tree.leaves(found), ndl.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: (x @ w).exp().sum(axis=1),  # long functions
        lambda x, w: (y := (x @ w) * 2.0) - y.sum(axis=1, keepdims=True),  # elements wait for sums
        lambda x, w: (x @ w * 2.0).sum(axis=0),  # columns
        lambda x, w: (x @ w * 2.0).sum(),  # rows of two axes
    ],
)
def test_other_sums_stay_programs(function):
    compiled = ndl.jit(function)
    compiled(tensor(10, 6), tensor(6, 8))
    assert [k.name for k in compiled.kernels][:2] == ["matmul", "run fused"]


def test_row_sums_in_files(tmp_path):
    w = tensor(6, 8)
    f = ndl.jit(lambda x: distances(x, w))
    x = tensor(10, 6)
    ndl.export(f, x, path=tmp_path / "f.needle")
    for ours, theirs in zip(ndl.load_exported(tmp_path / "f.needle")(x), f(x), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_a_product_that_others_read_stays():
    w = tensor(6, 8)
    assert kernels(lambda x: ((y := x @ w), y + 1.0), tensor(10, 6)) == ["matmul", "add"]
    assert (
        kernels(lambda x: ((x @ w) * (y := x @ w)).sum(1) + y[:, 0], tensor(10, 6))[0] == "matmul"
    )


def test_what_others_read_of_the_program_is_stored_too():
    w, v = tensor(6, 8), tensor(8, 7)

    def f(x):
        y = x @ w + 1.0
        return y, (y * 2.0) @ v

    assert kernels(f, tensor(10, 6)) == ["matmul_then", "matmul"]


def test_rows_and_long_functions_stay_programs():
    w = tensor(6, 8)
    assert kernels(lambda x: nn.functional.softmax(x @ w, -1), tensor(10, 6)) == ["matmul", "run"]
    assert kernels(lambda x: (x @ w).tanh() * 2.0, tensor(10, 6)) == ["matmul", "run"]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "layer",
    [
        lambda bias: nn.Conv2d(3, 8, 3, padding=1, bias=bias),
        lambda bias: nn.Conv2d(8, 12, 3, stride=2, groups=2, bias=bias),
        lambda bias: nn.Conv2d(8, 8, 3, groups=8, bias=bias),  # one channel per group
        lambda bias: nn.Conv2d(8, 20, 1, bias=bias),
        lambda bias: nn.Conv1d(4, 7, 5, dilation=2, bias=bias),
    ],
)
def test_convolution_with_bias_and_relu_is_one_call(layer, bias):
    conv = layer(bias)
    x = tensor(2, conv.in_channels, *[11] * len(conv.kernel_size))
    assert kernels(lambda x: conv(x).relu(), x) == ["conv_then"]
    np.testing.assert_array_equal(
        ndl.jit(lambda x: conv(x).relu())(x).numpy(), conv(x).relu().numpy()
    )


def test_batch_norm_and_residual_after_a_large_convolution():
    first, conv, norm = nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)
    norm(tensor(4, 16, 5, 5))  # statistics
    norm.eval()

    def block(x):
        y = first(x)
        return (norm(conv(y)) + y).relu()

    assert kernels(block, tensor(8, 3, 64, 64)) == ["conv_then", "run", "conv_then"]
    assert kernels(block, tensor(8, 3, 8, 8)) == ["conv_then", "conv", "run", "run"]


def test_a_convolution_that_others_read_stays():
    conv = nn.Conv2d(3, 8, 3, bias=False)
    f = lambda x: ((y := conv(x)), y.relu())  # noqa: E731
    assert kernels(f, tensor(2, 3, 9, 9)) == ["conv", "relu"]
    in_other_order = lambda x: conv(x) + x[:, :1, 1:-1, 1:-1]  # noqa: E731
    assert kernels(in_other_order, tensor(2, 3, 9, 9)) == ["conv", "add"]


def test_other_orders_and_types_stay_calls():
    w = tensor(6, 8)
    turned = kernels(lambda x: (x @ w).flip(0) + tensor_of_ones(10, 8), tensor(10, 6))
    assert turned == ["matmul", "add"]
    doubles = ndl.tensor(np.ones((6, 8)))
    assert kernels(lambda x: x @ doubles + 1.0, ndl.tensor(np.ones((10, 6)))) == [
        "matmul", "add",
    ]  # fmt: skip


def tensor_of_ones(*shape):
    return ndl.tensor(np.ones(shape, np.float32))


def test_training_step():
    """Gradients of a layer whose product is only kept as the program's result."""
    model = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 7))
    x = tensor(12, 9)

    def step(x):
        for p in model.parameters():
            p.grad = None
        loss = (model(x) ** 2).mean()
        loss.backward(create_graph=False)
        return (loss, *(p.grad for p in model.parameters()))

    expected = [t.numpy() for t in step(x)]
    compiled = ndl.jit(step)
    for ours, theirs in zip(compiled(x), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-6)
    assert "matmul_then" in str(compiled.graph["epilogues"])


@pytest.mark.parametrize(
    ("shape", "strides", "space", "expected"),
    [
        ((4, 6), (6, 1), (4, 6), ((4, 6), (6, 1))),
        ((24,), (1,), (24,), ((4, 6), (6, 1))),
        ((2, 2, 6), (12, 6, 1), (2, 2, 6), ((4, 6), (6, 1))),
        ((2, 2, 3, 2), (12, 6, 2, 1), (2, 2, 3, 2), ((4, 6), (6, 1))),
        ((6,), (1,), (2, 2, 6), ((1, 6), (0, 1))),
        ((2, 2, 1), (2, 1, 1), (2, 2, 6), ((4, 1), (1, 0))),
        ((), (), (4, 6), ((1, 1), (0, 0))),
        ((2, 1, 6), (6, 0, 1), (2, 2, 6), None),  # rows repeat unevenly
        ((4, 3, 2), (6, 1, 3), (4, 3, 2), None),
        ((3, 8), (8, 1), (3, 8), None),  # no common cut
    ],
)
def test_as_matrix(shape, strides, space, expected):
    found = as_matrix(Operand(FlatValue(0, 99, float32), shape, strides, 5), space, (4, 6))
    assert (found and (found.shape, found.strides, found.offset)) == (expected and (*expected, 5))
