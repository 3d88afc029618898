"""Pooling, resizing, windows and borders against PyTorch: values, gradients, indices, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import needle as ndl
from needle import nn
from needle.nn import functional as F
from needle.testing import assert_close, check_grads

from .test_conv import DEVICES, DTYPES, compare, draw

torch = pytest.importorskip("torch")
T = torch.nn.functional


def distinct(*shape):
    """Values at least 1/8 apart: a small step does not change which is the largest."""
    n = math.prod(shape)
    return (np.random.default_rng(n).permutation(n) / 8 - n / 16).reshape(shape)


# Pooling ------------------------------------------------------------------------------------------

MAX = [
    ("max_pool1d", (2, 3, 8), {"kernel_size": 2}),
    ("max_pool1d", (3, 9), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("max_pool2d", (2, 3, 6, 8), {"kernel_size": 2}),
    ("max_pool2d", (2, 3, 7, 6), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("max_pool2d", (2, 3, 7, 6), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    ("max_pool2d", (2, 3, 7, 6), {"kernel_size": 3, "stride": 1, "padding": 1}),
    ("max_pool2d", (2, 2, 7, 6), {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 0)}),
    ("max_pool2d", (2, 2, 9, 8), {"kernel_size": 3, "stride": 3, "padding": 1, "dilation": 2,
                                  "ceil_mode": True}),
    ("max_pool2d", (3, 6, 6), {"kernel_size": 2, "stride": 3}),
    ("max_pool3d", (2, 2, 4, 5, 4), {"kernel_size": 2, "stride": (1, 2, 2)}),
    ("max_pool3d", (1, 2, 4, 5, 4), {"kernel_size": 3, "padding": 1, "ceil_mode": True}),
    ("max_pool2d", (2, 2, 2, 5), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
]  # fmt: skip

AVERAGE = [
    ("avg_pool1d", (2, 3, 8), {"kernel_size": 2}),
    ("avg_pool1d", (3, 9), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("avg_pool2d", (2, 3, 6, 8), {"kernel_size": 2}),
    ("avg_pool2d", (2, 3, 7, 6), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("avg_pool2d", (2, 3, 7, 6), {"kernel_size": 3, "stride": 2, "padding": 1,
                                  "count_include_pad": False}),
    ("avg_pool2d", (2, 3, 7, 6), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ("avg_pool2d", (2, 3, 8, 6), {"kernel_size": (3, 4), "stride": 3, "padding": (0, 2),
                                  "ceil_mode": True, "count_include_pad": False}),
    ("avg_pool2d", (2, 3, 6, 6), {"kernel_size": 3, "divisor_override": 4}),
    ("avg_pool2d", (3, 6, 6), {"kernel_size": 2, "stride": 3}),
    ("avg_pool3d", (2, 2, 4, 5, 4), {"kernel_size": 2, "stride": (1, 2, 2), "padding": 1}),
    ("avg_pool1d", (2, 3, 1), {"kernel_size": 3, "ceil_mode": True}),
    ("avg_pool2d", (2, 2, 2, 5), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
]  # fmt: skip

ADAPTIVE = [
    ("adaptive_avg_pool1d", (2, 3, 8), {"output_size": 4}),
    ("adaptive_avg_pool1d", (3, 7), {"output_size": 3}),
    ("adaptive_avg_pool2d", (2, 3, 6, 8), {"output_size": 1}),
    ("adaptive_avg_pool2d", (2, 3, 7, 10), {"output_size": (3, 4)}),
    ("adaptive_avg_pool2d", (2, 3, 7, 6), {"output_size": (None, 4)}),
    ("adaptive_avg_pool2d", (2, 3, 3, 4), {"output_size": 7}),
    ("adaptive_max_pool1d", (2, 3, 8), {"output_size": 4}),
    ("adaptive_max_pool1d", (3, 7), {"output_size": 3}),
    ("adaptive_max_pool2d", (2, 3, 6, 8), {"output_size": 2}),
    ("adaptive_max_pool2d", (2, 3, 7, 10), {"output_size": (3, 4)}),
    ("adaptive_max_pool2d", (2, 3, 7, 6), {"output_size": (None, 4)}),
    ("adaptive_max_pool2d", (2, 3, 3, 4), {"output_size": 5}),
    ("adaptive_max_pool2d", (1, 2, 9, 18), {"output_size": (1, 2)}),
    ("adaptive_avg_pool2d", (1, 2, 9, 18), {"output_size": (1, 2)}),
]


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "shape", "options"), [*MAX, *AVERAGE, *ADAPTIVE])
def test_pooling_equals_pytorch(name, shape, options, dtype, device):
    ours, theirs = getattr(F, name), getattr(T, name)
    compare(lambda x: ours(x, **options), lambda x: theirs(x, **options),
            [draw(*shape)], device, dtype)  # fmt: skip


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize(
    ("name", "shape", "options"), [*MAX, *(c for c in ADAPTIVE if "max" in c[0])]
)
def test_indices_and_ties_are_pytorchs(name, shape, options, device):
    """Few different values: the first of equals counts, and alone gets the gradient."""
    values = np.random.default_rng(1).integers(0, 3, shape).astype("float64")
    x = ndl.Tensor(values, dtype="float64", device=device)
    y = torch.tensor(values, requires_grad=True)
    found, index = getattr(F, name)(x, **options, return_indices=True)
    expected, places = getattr(T, name)(y, **options, return_indices=True)
    np.testing.assert_array_equal(found.numpy(), expected.detach().numpy())
    np.testing.assert_array_equal(index.numpy(), places.numpy())
    assert index.dtype == "int64" and not index.requires_grad
    seed = draw(*found.shape)
    found.backward(ndl.Tensor(seed, dtype="float64", device=device))
    expected.backward(torch.tensor(seed))
    assert_close(x.grad, y.grad.numpy())


@pytest.mark.parametrize("name", ["max_pool2d", "adaptive_max_pool2d"])
def test_nan_is_the_largest_and_gets_the_gradient(name):
    values = draw(1, 1, 5, 5)
    values[0, 0, 1, 1] = np.nan
    x = ndl.Tensor(values, dtype="float64")
    y = F.max_pool2d(x, 2, 1) if name == "max_pool2d" else F.adaptive_max_pool2d(x, 4)
    assert np.isnan(y.numpy()[0, 0, :2, :2]).all() and np.isnan(y.numpy()).sum() == 4
    y.backward()
    assert x.grad.numpy()[0, 0, 1, 1] == 4


def test_padding_is_below_everything():
    low = np.full((1, 1, 3, 3), -np.inf)
    x, y = ndl.Tensor(low, dtype="float64"), torch.tensor(low, requires_grad=True)
    found, index = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    expected, places = T.max_pool2d(y, 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(found.numpy(), expected.detach().numpy())
    np.testing.assert_array_equal(index.numpy(), places.numpy())
    found.backward()
    expected.backward(torch.ones_like(expected))
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())
    whole = ndl.Tensor(np.full((1, 1, 4), -128), dtype="int8")
    assert F.max_pool1d(whole, 3, 2, 1).numpy().tolist() == [[[-128, -128]]]


@pytest.mark.parametrize("name, shape, options", [*MAX, *AVERAGE, *ADAPTIVE])
def test_gradients_to_second_order(name, shape, options):
    x = ndl.Tensor(distinct(*shape), dtype="float64")
    function = getattr(F, name)
    check_grads(lambda x: function(x, **options), x, eps=1e-2)
    # The squared result has a second derivative that is not zero.
    check_grads(lambda x: function(x, **options) ** 2, x, eps=1e-2)


@settings(max_examples=40)
@given(st.data())
def test_pooling_of_any_shape_equals_pytorch(data):
    def pair(low, high):
        return data.draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    kernel, stride, shape = pair(1, 4), pair(1, 4), pair(1, 9)
    padding = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    assume(all(n + 2 * p >= k for n, p, k in zip(shape, padding, kernel, strict=True)))
    ceil_mode, include = data.draw(st.booleans()), data.draw(st.booleans())
    values = draw(2, 2, *shape)
    compare(
        lambda x: F.max_pool2d(x, kernel, stride, padding, 1, ceil_mode),
        lambda x: T.max_pool2d(x, kernel, stride, padding, 1, ceil_mode), [values],
    )  # fmt: skip
    compare(
        lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil_mode, include),
        lambda x: T.avg_pool2d(x, kernel, stride, padding, ceil_mode, include), [values],
    )  # fmt: skip


def test_averages_of_ones_are_ones():
    x = ndl.ones(1, 1, 7, 7)
    for function in (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, 3),
        lambda x: F.interpolate(x, 5, mode="bilinear"),
    ):
        assert (function(x).numpy() == 1).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_averages_of_half_types_do_not_overflow(dtype):
    x = ndl.full((1, 1, 8, 8), 6e4, dtype=dtype)
    for y in (F.avg_pool2d(x, 4), F.adaptive_avg_pool2d(x, 3), ndl.global_avg_pool(x)):
        assert y.dtype == dtype and (y.numpy() == x.numpy()[0, 0, 0, 0]).all()


# Resizing -----------------------------------------------------------------------------------------

SIZES = [
    {"size": (3, 4)}, {"size": 14}, {"size": (7, 12)}, {"size": 1}, {"scale_factor": 2},
    {"scale_factor": 3}, {"scale_factor": 0.5}, {"scale_factor": (0.7, 1.9)},
    {"scale_factor": 1.05}, {"scale_factor": 2.1},
    {"scale_factor": 2.1, "recompute_scale_factor": True},
]  # fmt: skip
MODES = [
    ("nearest", None), ("nearest-exact", None), ("area", None), ("bilinear", None),
    ("bilinear", False), ("bilinear", True),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("mode", "align_corners"), MODES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_interpolate_equals_pytorch(size, mode, align_corners, dtype):
    options = {**size, "mode": mode, "align_corners": align_corners}
    device = ndl.cpu_numpy() if dtype == "float64" else ndl.cpu()
    compare(lambda x: F.interpolate(x, **options), lambda x: T.interpolate(x, **options),
            [draw(2, 3, 7, 6)], device, dtype)  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((2, 3, 7), {"size": 4}),
        ((2, 3, 7), {"scale_factor": 2.5, "mode": "linear"}),
        ((2, 3, 7), {"size": (9,), "mode": "linear", "align_corners": True}),
        ((1, 2, 3, 4, 5), {"size": (4, 4, 4), "mode": "trilinear"}),
        ((1, 2, 3, 4, 5), {"scale_factor": 2, "mode": "trilinear", "align_corners": True}),
        ((1, 2, 3, 4, 5), {"scale_factor": (1, 2, 0.5)}),
    ],
)
def test_interpolate_in_one_and_three_dimensions(shape, options):
    compare(lambda x: F.interpolate(x, **options), lambda x: T.interpolate(x, **options),
            [draw(*shape)])  # fmt: skip
    x = ndl.Tensor(draw(*shape), dtype="float64")
    check_grads(lambda x: F.interpolate(x, **options) ** 2, x)


@pytest.mark.parametrize("options", [{"scale_factor": 2}, {"size": (3, 11)}], ids=str)
def test_interpolation_keeps_channels_last(options):
    """As convolutions leave them; gradients lie like the images."""
    images = ndl.tensor(draw(2, 9, 11, 5)).transpose((1, 3)).transpose((2, 3))
    x = images.detach()
    x.requires_grad = True
    plain = ndl.tensor(x.numpy(), requires_grad=True)
    y, z = (F.interpolate(v, mode="bilinear", **options) for v in (x, plain))
    assert y.cached_data.strides[1] == 1
    np.testing.assert_array_equal(y.numpy(), z.numpy())
    for v, result in ((x, y), (plain, z)):
        (result * result).sum().backward()
        assert v.grad.shape == v.shape
    np.testing.assert_array_equal(x.grad.numpy(), plain.grad.numpy())


@pytest.mark.parametrize("options", [{"scale_factor": 2}, {"size": (3, 11)}], ids=str)
def test_compiled_interpolation_equals_eager(options):
    def step(x):
        y = F.interpolate(x * 2, mode="bilinear", **options).tanh()
        return y, ndl.grad(lambda x: F.interpolate(x, mode="bilinear", **options).exp().sum())(x)

    x = ndl.tensor(draw(2, 3, 7, 6))
    for mine, other in zip(ndl.jit(step)(x), step(x), strict=True):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())


def test_interpolation_keeps_infinities_to_themselves():
    values = np.zeros((1, 1, 1, 6))
    values[..., 0] = np.inf
    y = F.interpolate(ndl.Tensor(values, dtype="float64"), (1, 9), mode="bilinear").numpy()
    assert np.isfinite(y[..., 2:]).all()


# Windows and borders ------------------------------------------------------------------------------

WINDOWS = [
    {"kernel_size": 3}, {"kernel_size": (2, 3), "stride": 2}, {"kernel_size": 2, "dilation": 2},
    {"kernel_size": 3, "padding": (1, 2), "stride": (2, 1), "dilation": (1, 2)},
]  # fmt: skip


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_unfold_and_fold_equal_pytorch(options, dtype, device):
    x = draw(2, 3, 7, 6)
    columns = compare(lambda x: F.unfold(x, **options), lambda x: T.unfold(x, **options),
                      [x], device, dtype)  # fmt: skip
    compare(lambda x: F.fold(x, (7, 6), **options), lambda x: T.fold(x, (7, 6), **options),
            [columns.numpy()], device, dtype)  # fmt: skip


def test_unfold_and_fold_without_a_batch():
    x = ndl.Tensor(draw(3, 6, 6), dtype="float64")
    columns = F.unfold(x, 2, stride=2)
    assert columns.shape == (12, 9)
    assert_close(F.fold(columns, 6, 2, stride=2), x)
    check_grads(lambda x: F.fold(F.unfold(x, 3) ** 2, (6, 6), 3), x)


@pytest.mark.parametrize(
    ("pad", "mode", "value"),
    [
        ((1, 2), "constant", None),
        ((1, 0, 2, 3), "constant", 1.5),
        ((-1, 2, 0, -2), "constant", 0.5),
        ((0, 0, 0, 0, 1, 2), "constant", None),
        ((1, 2, 3, 0), "reflect", None),
        ((1, 2, 3, 0), "replicate", None),
        ((1, 2, 3, 0), "circular", None),
        ((), "constant", None),
    ],
)
def test_pad_equals_pytorch(pad, mode, value):
    compare(lambda x: F.pad(x, pad, mode, value), lambda x: T.pad(x, pad, mode, value),
            [draw(2, 3, 5, 6)])  # fmt: skip


# Modules ------------------------------------------------------------------------------------------

MODULES = [
    ("MaxPool1d", (2,), {}, (2, 3, 8)),
    ("MaxPool1d", (3, 2, 1), {"ceil_mode": True}, (2, 3, 8)),
    ("MaxPool2d", (2,), {}, (2, 3, 6, 8)),
    ("MaxPool2d", (3, 2, 1, 1), {}, (2, 3, 6, 8)),
    ("MaxPool3d", (2,), {"stride": 1}, (2, 2, 3, 4, 4)),
    ("AvgPool1d", (2,), {}, (2, 3, 8)),
    ("AvgPool2d", (3, 2, 1, True, False), {}, (2, 3, 6, 8)),
    ("AvgPool2d", (2,), {"divisor_override": 3}, (2, 3, 6, 8)),
    ("AvgPool3d", (2,), {}, (2, 2, 3, 4, 4)),
    ("AdaptiveAvgPool1d", (3,), {}, (2, 3, 8)),
    ("AdaptiveAvgPool2d", ((2, None),), {}, (2, 3, 6, 8)),
    ("AdaptiveMaxPool1d", (3,), {}, (2, 3, 8)),
    ("AdaptiveMaxPool2d", ((4, 2),), {}, (2, 3, 6, 8)),
    ("Upsample", (), {"scale_factor": 2}, (2, 3, 4, 5)),
    ("Upsample", ((7, 6),), {"mode": "bilinear", "align_corners": True}, (2, 3, 4, 5)),
]


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize(("name", "sizes", "options", "shape"), MODULES)
def test_modules_equal_pytorch(name, sizes, options, shape, device):
    ours, theirs = getattr(nn, name)(*sizes, **options), getattr(torch.nn, name)(*sizes, **options)
    compare(ours, theirs, [draw(*shape)], device, "float32")
    assert ours.parameters() == [] and ours.state_dict() == {}
    assert repr(ours).startswith(f"{name}(") and "=" in repr(ours)


def test_indices_of_modules():
    x = draw(1, 2, 6, 6, dtype="float32")
    for name, size in (("MaxPool2d", 2), ("AdaptiveMaxPool2d", 4)):
        _, ours = getattr(nn, name)(size, return_indices=True)(ndl.Tensor(x))
        _, theirs = getattr(torch.nn, name)(size, return_indices=True)(torch.tensor(x))
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_global_pooling():
    x = draw(2, 3, 4, 5, dtype="float32")
    assert_close(nn.GlobalAvgPool()(ndl.Tensor(x)), x.mean((2, 3)), 1e-5, 1e-6)
    np.testing.assert_array_equal(nn.GlobalMaxPool()(ndl.Tensor(x)).numpy(), x.max((2, 3)))


# Errors -------------------------------------------------------------------------------------------


def zeros(*shape):
    return ndl.zeros(*shape)


ERRORS = [
    (lambda: F.max_pool2d(zeros(2, 3), 2),
     r"\[max_pool2d\] expected an input \(batch, channels, height, width\), or one without batch"),
    (lambda: F.max_pool2d(zeros(1, 1, 4, 4), 5),
     r"\[max_pool\] the window is larger than the padded"),
    (lambda: F.max_pool2d(zeros(1, 1, 4, 4), 3, padding=2),
     r"\[max_pool\] padding must be at most half of the window, got \(2, 2\) for window \(3, 3\)"),
    (lambda: F.avg_pool1d(zeros(1, 1, 4), 0),
     r"\[avg_pool\] kernel_size must be a whole number >= 1"),
    (lambda: F.adaptive_avg_pool2d(zeros(1, 1, 4, 4), (1, 2, 3)),
     r"\[adaptive_avg_pool\] output_size must be a whole number >= 1 or 2 of them"),
    (lambda: F.interpolate(zeros(1, 1, 4, 4)),
     r"\[interpolate\] give one of size and scale_factor"),
    (lambda: F.fold(zeros(2), 4, 2), r"\[fold\] expected \(batch, columns, windows\), got \(2,\)"),
    (lambda: F.pad(zeros(2, 3), (1,)), r"\[pad\] expected \(before, after\) pairs for at most 2"),
    (lambda: F.pad(zeros(2, 3), (1, 1), "reflect", 1.0), r"\[pad\] a value is for mode 'constant'"),
    (lambda: nn.Sequential(nn.MaxPool2d(9))(zeros(1, 1, 4, 4)), r"\[in module 0: MaxPool2d given"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
