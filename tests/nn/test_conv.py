"""Convolution layers and functions against PyTorch: values, gradients, layouts, memory, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import nn
from needle.nn import functional as F
from needle.ops.network.conv import conv_by_definition, make_window
from needle.testing import assert_close, check_grads

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even:UserWarning")

DEVICES = [ndl.cpu(), ndl.cpu_numpy()]
DTYPES = ["float32", "float64"]
# Sums of up to some hundred products in another order.
TOLERANCE = {"float32": {"rtol": 2e-5, "atol": 2e-5}, "float64": {"rtol": 1e-11, "atol": 1e-11}}


def draw(*shape, seed=0, dtype="float64"):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def compare(ours, theirs, arrays, device=None, dtype="float64"):
    """Results and gradients of two functions on the same arrays; returns ours."""
    arrays = [a.astype(dtype) for a in arrays]
    tensors = [ndl.Tensor(a, device=device, dtype=dtype) for a in arrays]
    oracles = [torch.tensor(a, requires_grad=True) for a in arrays]
    found, expected = ours(*tensors), theirs(*oracles)
    assert found.dtype == dtype and (device is None or found.device == device)
    assert_close(found, expected.detach().numpy(), **TOLERANCE[dtype])
    seed = draw(*found.shape, seed=9, dtype=dtype)
    found.backward(ndl.Tensor(seed, device=device, dtype=dtype))
    expected.backward(torch.tensor(seed))
    for x, y in zip(tensors, oracles, strict=True):
        assert_close(x.grad, y.grad.numpy(), **TOLERANCE[dtype])
    return found


# Functions ----------------------------------------------------------------------------------------

# name, input, weight, options
CONVOLUTIONS = [
    ("conv1d", (2, 3, 8), (4, 3, 3), {}),
    ("conv1d", (2, 4, 9), (6, 2, 4), {"stride": 2, "padding": 3, "dilation": 2, "groups": 2}),
    ("conv1d", (1, 2, 7), (3, 2, 4), {"padding": "same", "dilation": 2}),
    ("conv1d", (3, 7), (2, 3, 3), {"padding": 1}),
    ("conv2d", (2, 3, 6, 7), (4, 3, 3, 3), {}),
    ("conv2d", (2, 3, 6, 7), (4, 3, 3, 3), {"padding": 1}),
    ("conv2d", (2, 3, 9, 8), (4, 3, 7, 7), {"padding": 3, "stride": 4}),
    ("conv2d", (2, 4, 6, 7), (6, 2, 3, 2), {"stride": (2, 3), "padding": (0, 2), "groups": 2}),
    ("conv2d", (2, 3, 9, 8), (2, 3, 3, 2), {"dilation": (2, 3), "padding": 2}),
    ("conv2d", (2, 4, 5, 5), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
    ("conv2d", (2, 3, 5, 5), (6, 1, 3, 3), {"groups": 3, "stride": 2}),
    ("conv2d", (2, 5, 4, 3), (4, 5, 1, 1), {}),
    ("conv2d", (2, 4, 4, 3), (4, 2, 1, 1), {"groups": 2}),
    ("conv2d", (2, 5, 4, 5), (4, 5, 1, 1), {"stride": 2, "padding": 1}),
    ("conv2d", (2, 3, 5, 6), (2, 3, 4, 3), {"padding": "same"}),
    ("conv2d", (2, 3, 5, 6), (2, 3, 4, 3), {"padding": "valid", "stride": 2}),
    ("conv2d", (2, 3, 3, 3), (5, 3, 3, 3), {}),
    ("conv2d", (2, 1, 1, 1), (3, 1, 3, 3), {"padding": 1}),
    ("conv2d", (0, 2, 4, 4), (3, 2, 3, 3), {}),
    ("conv2d", (3, 5, 6), (2, 3, 2, 2), {}),
    ("conv3d", (2, 2, 4, 5, 3), (3, 2, 2, 3, 2), {"padding": 1}),
    ("conv3d", (1, 4, 4, 5, 6), (4, 2, 3, 2, 2), {"stride": 2, "dilation": (1, 2, 1), "groups": 2}),
    ("conv_transpose1d", (2, 3, 5), (3, 4, 3), {}),
    ("conv_transpose1d", (2, 4, 5), (4, 2, 3), {"stride": 3, "output_padding": 2, "groups": 2}),
    ("conv_transpose2d", (2, 3, 4, 3), (3, 4, 3, 3), {"stride": 2, "padding": 1}),
    ("conv_transpose2d", (2, 3, 4, 3), (3, 4, 4, 4), {"stride": 2, "padding": 1}),
    ("conv_transpose2d", (2, 4, 3, 4), (4, 3, 3, 2),
     {"stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2), "groups": 2}),
    ("conv_transpose2d", (1, 2, 4, 4), (2, 2, 2, 3),
     {"dilation": 3, "output_padding": 2, "padding": 1}),
    ("conv_transpose2d", (2, 3, 4, 4), (3, 2, 1, 1), {}),
    ("conv_transpose2d", (4, 3, 3), (4, 1, 3, 3), {"groups": 4}),
    ("conv_transpose3d", (1, 2, 3, 2, 3), (2, 2, 2, 3, 2), {"stride": 2, "padding": (0, 1, 1)}),
]  # fmt: skip


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "x", "w", "options"), CONVOLUTIONS)
def test_functions_equal_pytorch(name, x, w, options, dtype, device):
    groups = options.get("groups", 1)
    outputs = w[1] * groups if "transpose" in name else w[0]
    arrays = [draw(*x), draw(*w), draw(outputs)]
    ours, theirs = getattr(F, name), getattr(torch.nn.functional, name)
    found = compare(
        lambda a, b, c: ours(a, b, c, **options), lambda a, b, c: theirs(a, b, c, **options),
        arrays, device, dtype,
    )  # fmt: skip
    assert found.shape[-len(w) + 1] == outputs or found.shape[0] == outputs


@pytest.mark.parametrize(("name", "x", "w", "options"), CONVOLUTIONS)
def test_arguments_have_pytorchs_order(name, x, w, options):
    order = ["stride", "padding", "dilation", "groups"]
    usual = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "output_padding": 0}
    if "transpose" in name:
        order = ["stride", "padding", "output_padding", "groups", "dilation"]
    listed = [options.get(k, usual[k]) for k in order]
    a, b = ndl.Tensor(draw(*x)), ndl.Tensor(draw(*w))
    named = getattr(F, name)(a, b, **options)
    np.testing.assert_array_equal(getattr(F, name)(a, b, None, *listed).numpy(), named.numpy())


SMALL = [c for c in CONVOLUTIONS if math.prod(c[1]) * math.prod(c[2]) < 12000 and 0 not in c[1]]


@pytest.mark.parametrize(("name", "x", "w", "options"), SMALL)
def test_gradients_to_second_order(name, x, w, options):
    function = getattr(F, name)
    arrays = [ndl.Tensor(draw(*s) / 2, dtype="float64") for s in (x, w)]
    check_grads(lambda a, b: function(a, b, **options), *arrays)


@settings(max_examples=60)
@given(st.data())
def test_conv2d_of_any_shape_equals_pytorch(data):
    def pair(low, high):
        return data.draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    groups, per_group, outputs = data.draw(st.tuples(*[st.integers(1, 3)] * 3))
    kernel, dilation, stride, padding = pair(1, 4), pair(1, 3), pair(1, 4), pair(0, 3)
    room = [d * (k - 1) + 1 - 2 * p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    height, width = (data.draw(st.integers(max(1, least), max(1, least) + 5)) for least in room)
    x = draw(data.draw(st.integers(1, 3)), groups * per_group, height, width)
    w = draw(groups * outputs, per_group, *kernel)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    compare(
        lambda a, b: F.conv2d(a, b, **options),
        lambda a, b: torch.nn.functional.conv2d(a, b, **options),
        [x, w],
    )


@pytest.mark.parametrize(
    "memory", ["rows", "channels last", "every second", "reversed", "one value"]
)
def test_inputs_may_lie_in_any_order_in_memory(memory):
    x, w = draw(2, 4, 6, 6), ndl.Tensor(draw(3, 4, 3, 3), dtype="float64")
    base = ndl.Tensor(x, dtype="float64")
    if memory == "channels last":
        base = ndl.Tensor(x.transpose(0, 2, 3, 1).copy(), dtype="float64").permute((0, 3, 1, 2))
    elif memory == "every second":
        base = ndl.Tensor(np.repeat(x, 2, 3), dtype="float64")[..., ::2]
    elif memory == "reversed":
        base = ndl.Tensor(x[:, ::-1].copy(), dtype="float64").flip(1)
    elif memory == "one value":
        base, x = ndl.Tensor([[[[2.0]]]], dtype="float64").broadcast_to(x.shape), 0 * x + 2
    expected = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(w.numpy()), padding=1)
    assert_close(F.conv2d(base, w, padding=1), expected.numpy(), 1e-11, 1e-11)
    y = ndl.Tensor([1.0], dtype="float64").broadcast_to(expected.shape)  # the gradient of a sum
    by_data = torch.nn.functional.conv_transpose2d(
        torch.ones(expected.shape, dtype=torch.float64), torch.tensor(w.numpy()), padding=1
    )
    assert_close(F.conv_transpose2d(y, w, padding=1), by_data.numpy(), 1e-11, 1e-11)


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_add_up_in_float32(dtype, groups):
    x, w = (ndl.Tensor(a, dtype=dtype) for a in (draw(2, 8, 9, 9), draw(8, 8 // groups, 3, 3)))
    exact = [ndl.Tensor(a.detach(), dtype="float64") for a in (x, w)]
    F.conv2d(x, w, padding=1, groups=groups).backward()
    F.conv2d(*exact, padding=1, groups=groups).backward()
    for ours, theirs in zip((x, w), exact, strict=True):
        scale = np.abs(theirs.grad.numpy()).max()
        error = np.abs(ours.grad.numpy() - theirs.grad.numpy()).max()
        # One rounding of a sum's parts and one of the result: 2 units in the last place.
        assert error <= scale * {"float16": 2**-10, "bfloat16": 2**-7}[dtype]


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv_equals_its_definition(groups):
    x, w = (ndl.Tensor(draw(*s), dtype="float64") for s in ((2, 7, 6, 4), (3, 2, 4 // groups, 8)))
    options = {"stride": (2, 1), "padding": ((1, 0), (2, 1)), "dilation": (1, 2)}
    found = ndl.ops.conv_channels_last(x, w, **options, groups=groups)
    exact = conv_by_definition(x, w, make_window("conv", (3, 2), **options), groups)
    assert_close(found, exact, 1e-12, 1e-12)


# Memory -------------------------------------------------------------------------------------------


def peak_of(function):
    """How many bytes more than now the function's memory takes at its highest."""
    ndl.reset_peak_memory()
    before = ndl.memory_stats()["live"]
    result = function()
    return ndl.memory_stats()["peak"] - before, result


def test_memory_of_a_large_convolution_is_bounded():
    x = ndl.Tensor(draw(8, 32, 64, 64, dtype="float32"))
    w = ndl.Tensor(draw(32, 32, 3, 3, dtype="float32"))
    size = x.size * 4  # of the output too; the windows would be nine times that
    used, y = peak_of(lambda: F.conv2d(x, w, padding=1))
    assert used <= size + 4096
    seed = ndl.Tensor(draw(*y.shape, dtype="float32"))
    used, _ = peak_of(lambda: y.backward(seed, create_graph=False))
    assert used < 3 * 1.1 * size


@pytest.mark.parametrize("order", ["channels first", "channels last"])
def test_pointwise_convolution_copies_nothing(order):
    x = ndl.Tensor(draw(4, 16, 64, 64, dtype="float32"), requires_grad=False)
    if order == "channels last":
        x = x.permute((0, 2, 3, 1)).clone().permute((0, 3, 1, 2))
    w = ndl.Tensor(draw(2, 16, 1, 1, dtype="float32"), requires_grad=False)
    used, y = peak_of(lambda: F.conv2d(x, w))
    assert used <= y.size * 4 + 4096


# Modules ------------------------------------------------------------------------------------------

MODULES = [
    ("Conv1d", (3, 4, 3), {}, (2, 3, 8)),
    ("Conv1d", (4, 6, 4), {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}, (2, 4, 9)),
    ("Conv2d", (3, 4, 3), {"padding": 1}, (2, 3, 6, 5)),
    ("Conv2d", (3, 4, (3, 2)), {"stride": (2, 1), "bias": False}, (2, 3, 6, 5)),
    ("Conv2d", (4, 4, 3), {"groups": 4, "padding": "same"}, (2, 4, 6, 5)),
    ("Conv2d", (3, 2, 3), {"padding": 2, "padding_mode": "reflect"}, (2, 3, 6, 5)),
    ("Conv2d", (3, 2, (4, 3)), {"padding": "same", "padding_mode": "replicate"}, (2, 3, 6, 5)),
    ("Conv2d", (3, 2, 3), {"padding": (1, 2), "padding_mode": "circular"}, (2, 3, 6, 5)),
    ("Conv3d", (2, 3, 2), {"padding": 1, "stride": 2}, (2, 2, 3, 4, 3)),
    ("ConvTranspose1d", (3, 4, 3), {"stride": 2, "output_padding": 1}, (2, 3, 5)),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, (2, 4, 4, 3)),
    ("ConvTranspose2d", (4, 2, 3), {"dilation": 2, "bias": False}, (4, 4, 3)),
    ("ConvTranspose3d", (2, 3, 2), {"stride": 2}, (1, 2, 3, 2, 3)),
]


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "sizes", "options", "shape"), MODULES)
def test_modules_equal_pytorch(name, sizes, options, shape, dtype, device):
    theirs = getattr(torch.nn, name)(*sizes, **options, dtype=getattr(torch, dtype))
    ours = getattr(nn, name)(*sizes, **options, dtype=dtype, device=device)
    state = {k: v.detach().numpy() for k, v in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    found = compare(ours, theirs, [draw(*shape)], device, dtype)
    assert found.shape == tuple(theirs(torch.tensor(draw(*shape, dtype=dtype))).shape)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        # Each module's parameters took part in the backward pass of `compare`.
        assert_close(p.grad, q.grad.numpy(), **TOLERANCE[dtype])
    for field in ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation",
                  "groups", "padding_mode"):  # fmt: skip
        assert getattr(ours, field) == getattr(theirs, field)
    assert repr(ours).replace(", dtype", "") == repr(theirs)


@pytest.mark.parametrize(
    ("name", "sizes", "options", "fan_in"),
    [
        ("Conv2d", (4, 6, 3), {"groups": 2}, 2 * 9),
        ("Conv1d", (4, 6, 5), {}, 4 * 5),
        ("ConvTranspose2d", (4, 6, 3), {"groups": 2}, 3 * 9),
    ],
)
def test_weights_are_drawn_first_then_the_bias(name, sizes, options, fan_in):
    np.random.seed(7)
    module = getattr(nn, name)(*sizes, **options)
    np.random.seed(7)
    bound = 1 / math.sqrt(fan_in)
    for p in (module.weight, module.bias):
        expected = np.random.rand(*p.shape) * 2 * bound - bound
        np.testing.assert_allclose(p.numpy(), expected, atol=1e-6)
    theirs = getattr(torch.nn, name)(*sizes, **options)
    for p, q in ((module.weight, theirs.weight), (module.bias, theirs.bias)):
        assert float(q.detach().abs().max()) <= bound * (1 + 1e-6)
        assert p.shape == tuple(q.shape) and p.dtype == "float32"
        assert isinstance(p, nn.Parameter)


def test_transposed_convolution_of_a_given_size():
    ours = nn.ConvTranspose2d(2, 3, 3, stride=3, padding=1)
    theirs = torch.nn.ConvTranspose2d(2, 3, 3, stride=3, padding=1)
    ours.load_state_dict({k: v.detach().numpy() for k, v in theirs.state_dict().items()})
    x = draw(2, 2, 4, 4, dtype="float32")
    for size in ((10, 12), (11, 10)):
        expected = theirs(torch.tensor(x), output_size=size)
        assert_close(ours(ndl.Tensor(x), output_size=size), expected.detach().numpy(), 1e-5, 1e-5)
    message = r"\[ConvTranspose2d\] output_size must be from \(10, 10\) to \(12, 12\) for input"
    with pytest.raises(ValueError, match=message):
        ours(ndl.Tensor(x), output_size=(13, 10))


def test_transposed_convolution_is_the_adjoint():
    x, w, y = (ndl.Tensor(draw(*s), dtype="float64") for s in ((1, 2, 9), (3, 2, 4), (1, 3, 4)))
    left = (F.conv1d(x, w, stride=2, padding=1) * y).sum()
    right = (x * F.conv_transpose1d(y, w, stride=2, padding=1, output_padding=1)).sum()
    assert_close(left, right)


def test_course_conv_is_the_same_convolution():
    x = ndl.Tensor(draw(2, 3, 7, 6, dtype="float32"))
    course = nn.Conv(3, 5, 3, stride=2)
    modern = nn.Conv2d(3, 5, 3, stride=2, padding=1)
    modern.weight.data = course.weight.detach().permute((3, 2, 0, 1))
    modern.bias.data = course.bias.detach()
    assert_close(course(x), modern(x), 1e-6, 1e-6)


def test_deepcopy_and_a_move_to_another_dtype():
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ConvTranspose2d(3, 2, 3)).to(dtype="float64")
    y = module(ndl.Tensor(draw(1, 2, 5, 5), dtype="float64"))
    assert y.dtype == "float64" and y.shape == (1, 2, 5, 5)


# Errors -------------------------------------------------------------------------------------------


def zeros(*shape):
    return ndl.zeros(*shape)


ERRORS = [
    (lambda: F.conv2d(zeros(2, 3, 8, 8), zeros(4, 5, 3, 3)),
     r"\[conv2d\] expected an input with 5 channels on axis 1 for weight \(4, 5, 3, 3\), got "
     r"\(2, 3, 8, 8\); change in_channels"),
    (lambda: F.conv2d(zeros(2, 8, 8, 3), zeros(4, 3, 3, 3)), r"are the channels last\? permute"),
    (lambda: F.conv2d(zeros(2, 3), zeros(4, 3, 3, 3)),
     r"\[conv2d\] expected an input \(batch, channels, height, width\), or one without batch, got "
     r"\(2, 3\)"),
    (lambda: F.conv2d(zeros(2, 3, 8, 8), zeros(4, 3, 3)),
     r"\[conv2d\] expected a weight with 4 axes .* got \(4, 3, 3\)"),
    (lambda: F.conv2d(zeros(2, 3, 8, 8), zeros(4, 3, 3, 3), zeros(3)),
     r"\[conv2d\] expected a bias of shape \(4,\), got \(3,\)"),
    (lambda: F.conv2d(zeros(1, 3, 2, 2), zeros(4, 3, 3, 3)),
     r"\[conv2d\] the window is larger than the padded input: window \(3, 3\) .* use a smaller"),
    (lambda: F.conv2d(zeros(1, 4, 5, 5), zeros(3, 2, 3, 3), groups=2),
     r"\[conv2d\] channels differ: .* in each of 2 groups and gives 3"),
    (lambda: F.conv2d(zeros(1, 3, 5, 5), zeros(3, 3, 3, 3), stride=(1, 2, 3)),
     r"\[conv2d\] stride must be a whole number >= 1 or 2 of them, got \(1, 2, 3\)"),
    (lambda: F.conv2d(zeros(1, 3, 5, 5), zeros(3, 3, 3, 3), padding=-1),
     r"\[conv2d\] padding must be a whole number >= 0 or 2 of them, got -1"),
    (lambda: F.conv1d(zeros(1, 3, 5), zeros(3, 3, 3), stride=2, padding="same"),
     r"\[conv1d\] padding='same' needs stride 1, got 2"),
    (lambda: F.conv_transpose2d(zeros(1, 3, 5, 5), zeros(4, 3, 3, 3)),
     r"\[conv_transpose2d\] expected an input with 4 channels on axis 1"),
    (lambda: F.conv_transpose1d(zeros(1, 3, 5), zeros(3, 3, 3), padding="same"),
     r"\[conv_transpose1d\] padding must be numbers, got 'same'"),
    (lambda: F.conv_transpose1d(zeros(1, 3, 5), zeros(3, 3, 3), stride=2, output_padding=2),
     r"\[conv_transpose1d\] output_padding must be smaller than stride or dilation"),
    (lambda: nn.Conv2d(3, 4, 3, groups=2),
     r"\[Conv2d\] groups must divide both in_channels and out_channels, got 3, 4 and groups=2"),
    (lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"),
     r"\[Conv2d\] padding_mode must be one of zeros, reflect, replicate, circular, got 'mirror'"),
    (lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"),
     r"\[Conv2d\] padding='same' needs stride 1, got 2"),
    (lambda: nn.Conv2d(3, 4, 0), r"\[Conv2d\] kernel_size must be a whole number >= 1"),
    (lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect"),
     r"\[ConvTranspose2d\] padding_mode must be one of zeros, got 'reflect'"),
    (lambda: nn.Sequential(nn.Conv2d(3, 4, 3))(zeros(1, 2, 8, 8)),
     r"expected an input with 3 channels .* \[in module 0: Conv2d given \(1, 2, 8, 8\)\]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_conv_of_something_else():
    with pytest.raises(TypeError, match=r"\[conv2d\] expected a Tensor, got ndarray"):
        F.conv2d(np.zeros((1, 1, 3, 3)), zeros(1, 1, 3, 3))
