"""Linear layers whose weights are stored in int8 and bfloat16."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import nn

DTYPES = ("int8", "bfloat16")
in_dtypes = pytest.mark.parametrize("dtype", DTYPES)


def numbers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def layer_of(weight, bias=None, dtype="int8"):
    bias = None if bias is None else nn.Parameter(ndl.tensor(bias[None]))
    return nn.QuantizedLinear.from_weight(ndl.tensor(weight), bias, dtype)


@given(
    lead=st.sampled_from([(0,), (1,), (3,), (8,), (9,), (2, 5), (40,)]),
    sizes=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    dtype=st.sampled_from(DTYPES),
    device=st.sampled_from([ndl.cpu(), ndl.cpu_numpy()]),
    transposed=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_computes_with_the_dequantized_weights(lead, sizes, dtype, device, transposed):
    inner, outer = sizes
    weight, bias, x = numbers(inner, outer), numbers(outer, seed=1), numbers(*lead, inner, seed=2)
    given_weight = ndl.tensor(weight.T.copy()).T if transposed else ndl.tensor(weight)
    parameter = nn.Parameter(ndl.tensor(bias[None]))
    layer = nn.QuantizedLinear.from_weight(given_weight, parameter, dtype).to(device)
    found = layer(ndl.tensor(x, device=device))
    exact = layer.dequantized().numpy().astype(np.float64)
    assert found.shape == (*lead, outer) and found.dtype == "float32"
    bound = 1e-5 * (1 + np.abs(x).astype(np.float64) @ np.abs(exact))
    assert (np.abs(found.numpy() - (x.astype(np.float64) @ exact + bias)) <= bound).all()


def test_int8_weights_are_half_a_step_off_at_most():
    weight = numbers(300, 50) * 10.0 ** np.arange(-25, 25, dtype=np.float32)
    weight[:, 3] = 0
    layer = layer_of(weight)
    scale = layer.scale.numpy()
    expected = np.abs(weight).max(0) / 127
    expected[3] = 1
    np.testing.assert_allclose(scale[0], expected, rtol=1e-6)
    error = np.abs(layer.dequantized().numpy().astype(np.float64) - weight)
    assert (error <= 0.5001 * scale).all()
    assert layer.weight.dtype == "int8" and np.abs(layer.weight.numpy()).max() == 127


def test_bfloat16_weights_are_rounded():
    weight = numbers(30, 20)
    layer = layer_of(weight, dtype="bfloat16")
    assert layer.scale is None and layer.weight.dtype == "bfloat16"
    assert (np.abs(layer.dequantized().numpy() - weight) <= 2.0**-8 * np.abs(weight)).all()


def test_an_output_that_needs_no_rounding_is_exact():
    whole = np.random.default_rng(0).integers(-127, 128, (64, 9)).astype(np.float32)
    whole[0] = 127
    x = np.random.default_rng(1).integers(-3, 4, (2, 64)).astype(np.float32)
    np.testing.assert_array_equal(layer_of(whole)(ndl.tensor(x)).numpy(), x @ whole)


class Network(nn.Module):
    """Linear layers in attributes, lists, tuples and dicts; one of them under two names."""

    def __init__(self):
        self.first = nn.Linear(12, 16)
        self.body = nn.Sequential(nn.Tanh(), nn.Residual(nn.Linear(16, 16)), nn.LayerNorm(16))
        self.list = nn.ModuleList([nn.Linear(16, 16), nn.Linear(16, 16, bias=False)])
        self.pair = (nn.Linear(16, 8), nn.ReLU())
        self.heads = {"a": nn.Linear(8, 5), "b": nn.Linear(8, 5)}
        self.again = self.heads["b"]

    def forward(self, x):
        x = self.body(self.first(x))
        for layer in self.list:
            x = layer(x)
        for layer in self.pair:
            x = layer(x)
        return self.heads["a"](x) + self.heads["b"](x) + self.again(x)


@in_dtypes
def test_quantize_replaces_every_linear_layer(dtype):
    ndl.manual_seed(0)
    model, x = Network().eval(), ndl.tensor(numbers(4, 12))
    expected = model(x).numpy()
    assert nn.quantize(model, dtype) is model
    kinds = [type(m) for _, m in model.named_modules()]
    assert nn.Linear not in kinds and kinds.count(nn.QuantizedLinear) == 7
    assert model.again is model.heads["b"]
    assert np.abs(model(x).numpy() - expected).max() < 0.03 * np.abs(expected).max()
    assert f"dtype={dtype}" in repr(model)


def test_quantize_can_leave_layers_out():
    model = nn.quantize(Network(), "int8", only=lambda name, layer: name.startswith("heads"))
    assert type(model.heads["a"]) is nn.QuantizedLinear and type(model.first) is nn.Linear
    assert type(nn.quantize(nn.Linear(3, 4))) is nn.QuantizedLinear

    class Mine(nn.Linear):
        """Its forward may be another."""

    assert type(nn.quantize(nn.Sequential(Mine(3, 4)))[0]) is Mine


@in_dtypes
@pytest.mark.parametrize("rows", [1, 5, 20])
def test_compiled_equals_eager(dtype, rows):
    model = nn.quantize(Network().eval(), dtype)
    x = ndl.tensor(numbers(rows, 12))
    step = ndl.jit(model)
    for _ in range(2):
        np.testing.assert_allclose(step(x).numpy(), model(x).numpy(), rtol=1e-6, atol=1e-6)
    model.load_state_dict(nn.quantize(Network(), dtype).state_dict())  # seen without retracing
    np.testing.assert_allclose(step(x).numpy(), model(x).numpy(), rtol=1e-6, atol=1e-6)
    assert step.cache_info().misses == 1


@in_dtypes
def test_state_goes_through_a_file(dtype, tmp_path):
    model, x = nn.quantize(Network(), dtype), ndl.tensor(numbers(4, 12))
    path = tmp_path / "model.safetensors"
    ndl.save(model.state_dict(), path)
    other = nn.quantize(Network(), dtype)
    assert np.abs(other(x).numpy() - model(x).numpy()).max() > 0
    other.load_state_dict(ndl.load(path))
    np.testing.assert_array_equal(other(x).numpy(), model(x).numpy())
    assert other.first.weight.dtype == dtype
    fresh = nn.QuantizedLinear(12, 16, dtype=dtype)
    fresh.load_state_dict(model.first.state_dict())
    np.testing.assert_array_equal(fresh(x).numpy(), model.first(x).numpy())


@in_dtypes
def test_gradients_reach_inputs_and_biases(dtype):
    layer = layer_of(numbers(6, 4), numbers(4, seed=1), dtype)
    x = ndl.Tensor(numbers(3, 6, seed=2))
    layer(x).sum().backward()
    expected = np.broadcast_to(layer.dequantized().numpy().sum(1), (3, 6))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-5)
    assert [p is layer.bias for p in layer.parameters()] == [True]
    np.testing.assert_array_equal(layer.bias.grad.numpy(), np.full((1, 4), 3.0))


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match=r"\[QuantizedLinear\] dtype must be one of .* float16"):
        nn.QuantizedLinear(3, 4, dtype="float16")
    with pytest.raises(ValueError, match=r"last dimension of the input to be 3, got \(2, 5\)"):
        nn.QuantizedLinear(3, 4)(ndl.zeros(2, 5))


def test_columns_that_have_no_scale_become_zero():
    weight = numbers(6, 4) * np.float32([1, 0, 1e-44, 1e-34])
    layer = layer_of(weight)
    assert not layer.weight.numpy()[:, 1:3].any() and layer.scale.numpy().all()
    off = np.abs(layer.dequantized().numpy() - weight)
    assert (off <= np.abs(weight).max(0) / 253 + 1e-43).all()


def test_half_weights_are_scaled_in_float32():
    weight = (numbers(5, 3) * 1e-5).astype(np.float16)
    off = np.abs(layer_of(weight).dequantized().numpy() - weight)
    assert (off <= np.abs(weight).astype("f4").max(0) / 250).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_without_a_largest_are_refused(value):
    weight = numbers(4, 3)
    weight[1, 2] = value
    with pytest.raises(ValueError, match="expected finite weights"):
        layer_of(weight)


@in_dtypes
def test_layers_without_inputs_or_outputs(dtype):
    for inner, outer in [(0, 3), (3, 0)]:
        layer = nn.quantize(nn.Linear(inner, outer), dtype)
        assert layer(ndl.ones(2, inner)).shape == (2, outer)


def test_float_weights_do_not_become_int8_by_a_cast():
    state = nn.Sequential(nn.Linear(4, 3)).state_dict()
    model = nn.quantize(nn.Sequential(nn.Linear(4, 3)))
    before = model.state_dict()["0.weight"].numpy()
    with pytest.raises(ValueError, match=r"dtype of 0.weight: expected int8, got float32"):
        model.load_state_dict(state)
    report = model.load_state_dict(state, strict=False)
    assert [name for name, _, _ in report.mismatched] == ["0.weight"]
    np.testing.assert_array_equal(model.state_dict()["0.weight"].numpy(), before)
