"""Recurrent layers with PyTorch's weights: layers, directions, dropout, states."""

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.ndarray.kernels.sequence import CELLS
from needle.ops.network import recurrent as R
from needle.testing import assert_close, check_grads

from .convert import compare_modules, draw, in_floats, on_devices

T, B, I, H = 4, 3, 5, 6  # noqa: E741
KINDS = ["RNN", "LSTM", "GRU"]
kinds = pytest.mark.parametrize("kind", KINDS)

OPTIONS = [
    {},
    {"num_layers": 3},
    {"bias": False},
    {"bidirectional": True},
    {"bidirectional": True, "num_layers": 2},
    {"batch_first": True},
    {"batch_first": True, "bidirectional": True, "num_layers": 2, "bias": False},
]


def states(kind, layers, batch=B):
    """The arrays of a first state."""
    return [draw(layers, batch, H, seed=i + 1) for i in range(2 if kind == "LSTM" else 1)]


def with_state(module, x, *state):
    return module(x, state if len(state) == 2 else state[0])


@kinds
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", ["float64"])
def test_layers(kind, options, dtype):
    x = draw(*((B, T, I) if options.get("batch_first") else (T, B, I)))
    make = lambda n: getattr(n, kind)(I, H, **options)  # noqa: E731
    compare_modules(make, [x], dtype)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    compare_modules(make, [x, *states(kind, count)], dtype, call=with_state)


@kinds
@in_floats
@on_devices
def test_dtypes_and_devices(kind, dtype, device):
    compare_modules(lambda n: getattr(n, kind)(I, H, 2), [draw(T, B, I)], dtype, device)


def test_relu():
    compare_modules(lambda n: n.RNN(I, H, 2, nonlinearity="relu"), [draw(T, B, I)])


@kinds
def test_without_a_batch(kind):
    make = lambda n: getattr(n, kind)(I, H, 2)  # noqa: E731
    compare_modules(make, [draw(T, I)])
    first = [s[:, 0] for s in states(kind, 2)]
    compare_modules(make, [draw(T, I), *first], call=with_state)


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(kind, bias):
    make = lambda n: getattr(n, kind)(I, H, bias)  # noqa: E731
    compare_modules(make, [draw(B, I)])
    first = [s[0] for s in states(kind.removesuffix("Cell"), 1)]
    compare_modules(make, [draw(B, I), *first], call=with_state)


@kinds
def test_layer_equals_its_cells_step_by_step(kind):
    layer = getattr(nn, kind)(I, H)
    cell = getattr(layer, f"{kind.lower()}_cells")[0]
    x = ndl.Tensor(draw(T, B, I))
    state = None
    outputs = []
    for t in range(T):
        state = cell(x[t], state)
        outputs.append(state[0] if kind == "LSTM" else state)
    assert_close(layer(x)[0], ndl.stack(outputs, 0), rtol=1e-5)


class Work(ndl.Observer):
    """Counts computed operators and elements."""

    layers = elements = 0

    def computed(self, op, inputs, result):
        self.layers += isinstance(op, R.RecurrentLayer)
        self.elements += result.size if isinstance(result, ndl.Tensor) else 0

    def __enter__(self):
        ndl.autograd.graph.observers.append(self)
        return self

    def __exit__(self, *exception):
        ndl.autograd.graph.observers.remove(self)


@kinds
def test_a_layer_is_one_operator(kind):
    layer = getattr(nn, kind)(I, H, 2)
    with Work() as work:
        layer(ndl.Tensor(draw(T, B, I)))
    assert work.layers == 2


def layer_inputs(cell, sizes, **options):
    """x, wx, h0, w, c0 of an LSTM, and both biases."""
    (steps, batch, inputs, size), info = sizes, CELLS[cell]
    wide = info.gates * size
    shapes = [(steps, batch, inputs), (inputs, wide), (batch, size), (size, wide)]
    shapes += [(batch, size)] * info.has_c + [(wide,)] * 2
    return [ndl.tensor(draw(*s, seed=i), **options) for i, s in enumerate(shapes)]


def run_layer(cell, *inputs):
    c0 = inputs[4] if CELLS[cell].has_c else None
    return R.recurrent_layer(cell, *inputs[:4], c0, inputs[-2:])


@pytest.mark.parametrize("cell", R.STEPS)
@in_floats
@on_devices
def test_layer_equals_its_composite(cell, dtype, device):
    inputs = layer_inputs(cell, (T, B, I, H), dtype=dtype, device=device, requires_grad=True)
    fused, whole = run_layer(cell, *inputs), R.layer_by_definition(cell, *inputs)
    assert len(fused) == len(whole)
    gradients = []
    for results in (fused, whole):
        weighted = ((y * ndl.tensor(draw(*y.shape, seed=9), dtype, device)).sum() for y in results)
        sum(weighted).backward()
        gradients.append([x.grad for x in inputs])
    for a, b in zip((*fused, *gradients[0]), (*whole, *gradients[1]), strict=True):
        assert_close(a, b, rtol=1e-5, atol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("cell", R.STEPS)
def test_layer_gives_the_gradients_that_are_wanted(cell):
    """Each input alone gets the gradient that it gets beside the others."""
    inputs = layer_inputs(cell, (3, 2, 4, 5), requires_grad=True)
    sum(y.sum() for y in run_layer(cell, *inputs)).backward()
    for i, x in enumerate(inputs):
        alone = [y if y is x else y.detach() for y in inputs]
        expected, x.grad = x.grad, None
        sum(y.sum() for y in run_layer(cell, *alone)).backward()
        assert_close(x.grad, expected, rtol=1e-6)
        assert all(y.grad is None for y in alone if y is not x), i


@pytest.mark.parametrize("cell", R.STEPS)
def test_layer_is_differentiable_twice(cell):
    def states(*x):
        return ndl.concatenate([y.reshape((-1,)) for y in run_layer(cell, *x)], 0)

    check_grads(states, *layer_inputs(cell, (3, 2, 3, 2)))


@kinds
@pytest.mark.parametrize("missing", ["bias_ih", "bias_hh"])
def test_a_bias_may_be_taken_away(kind, missing):
    layer = getattr(nn, kind)(I, H)
    cell = getattr(layer, f"{kind.lower()}_cells")[0]
    x = ndl.Tensor(draw(T, B, I))
    kept = getattr(cell, missing)
    kept.data = ndl.zeros_like(kept)
    expected = layer(x)[0]
    setattr(cell, missing, None)
    assert_close(layer(x)[0], expected, rtol=0)


@kinds
def test_zero_state_still_uses_the_state_weights(kind):
    layer = getattr(nn, kind)(I, H, 2)
    layer(ndl.Tensor(draw(1, B, I)))[0].sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


@kinds
def test_weights_replaced_by_tensors_are_used(kind):
    layer = getattr(nn, kind)(I, H)
    cell = getattr(layer, f"{kind.lower()}_cells")[0]
    x = ndl.Tensor(draw(T, B, I))
    before = layer(x)[0].numpy()
    for name in ("W_ih", "W_hh", "bias_ih", "bias_hh"):
        setattr(cell, name, ndl.Tensor(getattr(cell, name).numpy() * 2))
    after = layer(x)[0]
    assert np.abs(after.numpy() - before).max() > 1e-3
    after.sum().backward()
    for name in ("W_ih", "W_hh", "bias_ih", "bias_hh"):
        assert getattr(cell, name).grad is not None


@kinds
def test_dropout_between_layers_in_training(kind):
    layer = getattr(nn, kind)(I, H, 2, dropout=0.5)
    x = ndl.Tensor(draw(T, B, I))
    np.random.seed(0)
    first = layer(x)[0].numpy()
    state = np.random.get_state()[1:3]
    np.random.seed(0)
    np.random.rand(T, B, H)  # one draw for the output of the first layer, none for the last
    assert np.random.get_state()[2] == state[1]
    assert np.abs(layer(x)[0].numpy() - first).max() > 1e-3
    layer.eval()
    np.testing.assert_array_equal(layer(x)[0].numpy(), layer(x)[0].numpy())


@kinds
def test_backward_costs_linear_time(kind):
    """No gradient of a step has the size of the sequence."""
    layer = getattr(nn, kind)(2, 2)
    costs = []
    for steps in (50, 100):
        out = layer(ndl.Tensor(draw(steps, 1, 2)))[0].sum()
        with Work() as work:
            out.backward(create_graph=False)
        costs.append(work.elements)
    assert costs[1] < 2.2 * costs[0]


@kinds
def test_repr(kind):
    shown = repr(getattr(nn, kind)(I, H, 2, bidirectional=True))
    assert f"{kind}(5, 6, num_layers=2, bidirectional=True" in shown
    assert f"({kind.lower()}_cells.3): {kind}Cell(12, 6, bias=True)" in shown


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: nn.RNN(I, H, 0), r"\[RNN\] expected num_layers >= 1, got 0"),
        (lambda: nn.GRU(I, H, dropout=2), r"\[GRU\] expected dropout in 0 to 1, got 2"),
        (lambda: nn.RNN(I, H, nonlinearity="gelu"), r"nonlinearity must be 'tanh' or 'relu'"),
        (lambda: nn.LSTM(I, H)(ndl.ones(1, T, B, I)), r"\[LSTM\] expected \(time, batch, 5\)"),
        (lambda: nn.LSTM(I, H)(ndl.ones(0, B, I)), r"at least one time step, got \(0, 3, 5\)"),
        (lambda: nn.LSTM(I, H)(ndl.ones(T, B, 4)), r"\[LSTMCell\] expected inputs \(batch, 5\)"),
        (
            lambda: nn.GRU(I, H)(ndl.ones(T, B, I), ndl.ones(1, 2, H)),
            r"\[GRU\] expected states .* = \(1, 3, 6\), got \(1, 2, 6\)",
        ),
        (
            lambda: nn.RNNCell(I, H)(ndl.ones(B, I), ndl.ones(1, H)),
            r"\[RNNCell\] expected states \(batch, hidden\) = \(3, 6\), got \(1, 6\)",
        ),
        (
            lambda: nn.LSTMCell(I, H)(ndl.ones(B, I), ndl.ones(2, H)),
            r"\[LSTMCell\] expected the pair \(h, c\) as state, got Tensor",
        ),
        (
            lambda: nn.LSTM(I, H)(ndl.ones(T, B, I), (ndl.ones(1, B, H),)),
            r"\[LSTM\] expected the pair \(h, c\) as state, got \(Tensor\)",
        ),
        (
            lambda: nn.GRU(I, H)(ndl.ones(T, I), (ndl.ones(1, H), ndl.ones(1, H))),
            r"\[GRU\] expected one tensor as state, got tuple",
        ),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()
