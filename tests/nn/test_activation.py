"""Activations against PyTorch: values, gradients, second derivatives, settings, extremes."""

import math

import numpy as np
import pytest

import needle as ndl
import needle.nn.functional as F
from needle import nn
from needle.testing import check_grads

from .convert import assert_near, compare, compare_modules, draw, in_floats, on_devices, torch

TF = torch.nn.functional

FUNCTIONS = [
    ("relu", {}), ("relu6", {}), ("elu", {}), ("elu", {"alpha": 0.5}), ("selu", {}),
    ("leaky_relu", {}), ("leaky_relu", {"negative_slope": 0.3}), ("silu", {}), ("mish", {}),
    ("gelu", {}), ("gelu", {"approximate": "tanh"}), ("softplus", {}),
    ("softplus", {"beta": 2.0, "threshold": 1.0}), ("hardsigmoid", {}), ("hardswish", {}),
    ("hardtanh", {}), ("hardtanh", {"min_val": -0.5, "max_val": 2.0}), ("logsigmoid", {}),
    ("softsign", {}), ("glu", {"dim": 0}), ("glu", {}), ("softmax", {"dim": -1}),
    ("softmax", {"dim": 0}), ("log_softmax", {"dim": 1}), ("sigmoid", {}), ("tanh", {}),
]  # fmt: skip
functions = pytest.mark.parametrize(
    ("name", "options"), FUNCTIONS, ids=[f"{n}{list(o.values())}" for n, o in FUNCTIONS]
)


# PyTorch has 1/6 as a float32 number there.
ROUNDED = {("hardsigmoid", "float64"): 1e-7}


def compare_functions(name, options, x, dtype, device=None):
    ours, theirs = getattr(F, name), getattr(TF, name)
    compare(
        lambda x: ours(x, **options),
        lambda x: theirs(x, **options),
        [x],
        dtype,
        device,
        tolerance=ROUNDED.get((name, dtype)),
    )


@functions
@in_floats
@on_devices
def test_function(name, options, dtype, device):
    compare_functions(name, options, 3 * draw(4, 6), dtype, device)


def test_logsigmoid_far_below_zero_has_all_digits():
    compare_functions("logsigmoid", {}, np.linspace(-50.0, 50.0, 101).reshape(1, 101), "float64")


def test_glu_of_nothing():
    x = ndl.zeros(4, 0, requires_grad=True)
    assert F.glu(x).shape == (4, 0) and nn.GLU()(x).shape == (4, 0)


IN_PLACE = "ReLU ReLU6 ELU SELU LeakyReLU Hardtanh Hardsigmoid Hardswish SiLU Mish".split()


@pytest.mark.parametrize("name", IN_PLACE)
def test_inplace_is_taken_and_leaves_the_input_alone(name):
    x = ndl.tensor(3 * draw(4, 6), requires_grad=True)
    function = getattr(F, {"LeakyReLU": "leaky_relu"}.get(name, name.lower()))
    for y in (getattr(nn, name)(inplace=True)(x * 1), function(x * 1, inplace=True)):
        np.testing.assert_array_equal(y.numpy(), getattr(nn, name)()(x).numpy())
    kept = x * 1
    function(kept, inplace=True)
    np.testing.assert_array_equal(kept.numpy(), x.numpy())
    assert repr(getattr(nn, name)(inplace=True)) == repr(getattr(nn, name)())


def test_inplace_by_position():
    x = ndl.tensor(draw(4, 6))
    assert nn.ReLU(True)(x).min().item() == 0
    assert nn.LeakyReLU(0.2, True).negative_slope == 0.2 and nn.ELU(0.5, True).alpha == 0.5
    assert nn.Dropout(0.25, True).p == 0.25 and nn.Dropout2d(0.25, inplace=True).p == 0.25
    assert F.dropout(x, 0.5, False, True) is x


@functions
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(name, options, dtype):
    x = draw(4, 6)
    ours = getattr(F, name)(ndl.tensor(x, dtype), **options)
    exact = getattr(TF, name)(
        torch.tensor(ndl.tensor(x, dtype).numpy().astype(np.float64)), **options
    )
    assert ours.dtype == dtype
    assert_near(ours.astype("float64"), exact, name, {"float16": 6e-3, "bfloat16": 5e-2}[dtype])


@functions
def test_second_derivative(name, options):
    smooth = draw(2, 4) + 0.01  # none of these is on a corner of a piecewise function
    check_grads(lambda x: getattr(F, name)(x, **options), ndl.tensor(smooth))


@functions
def test_extremes_are_finite(name, options):
    """No NaN in values or gradients where exp would overflow."""
    x = np.array([[-1e4, -200.0, -50.0, 0.0], [50.0, 200.0, 1e4, 0.0]])
    compare_functions(name, options, x, "float32")
    compare_functions(name, options, x, "float64")


@pytest.mark.parametrize(
    ("name", "corners"),
    [("relu6", [0.0, 6.0]), ("hardtanh", [-1.0, 1.0]), ("hardsigmoid", [-3.0, 3.0]),
     ("hardswish", [-3.0, 3.0]), ("relu", [0.0]), ("leaky_relu", [0.0]), ("elu", [0.0])],
)  # fmt: skip
def test_derivatives_at_corners(name, corners):
    compare_functions(name, {}, np.array(corners), "float32")


MODULES = [
    lambda n: n.ReLU(), lambda n: n.ReLU6(), lambda n: n.Sigmoid(), lambda n: n.Tanh(),
    lambda n: n.GELU(), lambda n: n.GELU("tanh"), lambda n: n.SiLU(), lambda n: n.Mish(),
    lambda n: n.Softplus(), lambda n: n.Softplus(0.5, 3.0), lambda n: n.ELU(), lambda n: n.ELU(2.0),
    lambda n: n.SELU(), lambda n: n.LeakyReLU(), lambda n: n.LeakyReLU(0.2), lambda n: n.Hardtanh(),
    lambda n: n.Hardsigmoid(), lambda n: n.Hardswish(), lambda n: n.GLU(), lambda n: n.GLU(0),
    lambda n: n.Softmax(1), lambda n: n.LogSoftmax(0), lambda n: n.LogSigmoid(),
    lambda n: n.Softsign(), lambda n: n.PReLU(), lambda n: n.PReLU(3, 0.1),
]  # fmt: skip


@pytest.mark.parametrize("make", MODULES, ids=[repr(m(nn)) for m in MODULES])
def test_module(make):
    compare_modules(make, [2 * draw(4, 3, 6)], "float32")


@in_floats
@on_devices
@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2, 5), (3,), (), (0, 3)])
def test_prelu(shape, dtype, device):
    channels = shape[1] if len(shape) > 1 else 1
    for count in {1, channels}:
        weight = draw(count, seed=1)
        compare(F.prelu, TF.prelu, [draw(*shape), weight], dtype, device)


def test_prelu_at_corners_and_of_infinite_numbers():
    ends = np.array([0.0, -0.0, np.inf, 1e30, -1e30])
    compare(F.prelu, TF.prelu, [ends, np.array([0.25])], "float32")


def test_prelu_second_derivative_and_compiled():
    x, weight = ndl.tensor(draw(2, 3, 4) + 0.01), ndl.tensor(draw(3))
    check_grads(F.prelu, x, weight)
    grads = ndl.grad(lambda x, w: F.prelu(x, w).square().sum(), argnums=(0, 1))
    for found, expected in zip(ndl.jit(grads)(x, weight), grads(x, weight), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_prelu_in_half_precision(dtype):
    x = ndl.tensor(draw(4, 3), dtype)
    y = nn.PReLU(3, dtype=dtype)(x)
    expected = np.where(x.numpy() > 0, x.numpy(), 0.25 * x.numpy())
    assert y.dtype == dtype
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-2)


def test_repr_shows_settings():
    assert repr(nn.PReLU(3)) == "PReLU(num_parameters=3)"
    assert repr(nn.Softplus()) == "Softplus(beta=1.0, threshold=20.0)"
    assert repr(nn.ReLU().eval()) == "ReLU()"


def test_fused_operators_equal_their_composites():
    x = ndl.tensor(draw(5, 7))
    composites = {
        "none": x * ((x * math.sqrt(0.5)).erf() + 1) / 2,
        "tanh": x * ((math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)).tanh() + 1) / 2,
    }
    for approximate, composite in composites.items():
        ndl.testing.assert_close(F.gelu(x, approximate), composite)
    ndl.testing.assert_close(F.softplus(x), (x.exp() + 1).log())


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: F.gelu(x, "erf"), ValueError, r"\[gelu\] approximate must be .*'erf'"),
        (lambda x: F.softplus(x, 0), ValueError, r"\[softplus\] expected beta other than 0"),
        (lambda x: F.glu(x, 0), ValueError, r"\[glu\] expected an even size along dim 0"),
        (lambda x: F.softmax(x, 3), ValueError, r"\[softmax\] axis 3 is out of range"),
        (lambda x: F.gelu([1.0]), TypeError, r"\[gelu\] expected a Tensor, got list"),
        (lambda x: F.prelu([1.0], x), TypeError, r"\[prelu\] expected a Tensor, got list"),
        (
            lambda x: F.prelu(x, x[0, :3]),
            ValueError,
            r"\[prelu\] expected a weight of 1 or 4 elements for input \(3, 4\), got \(3,\)",
        ),
        (lambda x: F.prelu(x[0], x[0]), ValueError, r"a weight of 1 element for input \(4,\)"),
        (lambda x: nn.PReLU(0), ValueError, r"\[PReLU\] expected num_parameters >= 1, got 0"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call(ndl.tensor(draw(3, 4)))


def test_gumbel_softmax_draws_classes():
    ndl.manual_seed(3)
    logits = ndl.tensor(np.log([0.1, 0.2, 0.7]).astype("float32") + np.zeros((20000, 1), "float32"))
    logits.requires_grad = True
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.numpy().sum(-1), 1, rtol=1e-5)
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True)
    assert set(np.unique(hard.numpy().round(6))) == {0, 1}
    np.testing.assert_allclose(hard.numpy().mean(0), [0.1, 0.2, 0.7], atol=0.01)
    (hard * ndl.tensor([1.0, 2.0, 3.0])).sum().backward()  # the soft draws' gradient
    assert np.isfinite(logits.grad.numpy()).all() and np.abs(logits.grad.numpy()).max() > 0.1


def test_gumbel_softmax_is_finite_at_the_ends_of_its_numbers():
    class Ends:
        def uniform(self, shape, low, high, dtype, device):
            return ndl.tensor(np.array([0.0, 1 - 2**-24], dtype)).cached_data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("needle.compat.inplace_methods.default_generator", Ends)
        assert np.isfinite(F.gumbel_softmax(ndl.zeros(2)).numpy()).all()
