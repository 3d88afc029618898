"""The course's modules: what its homework relies on, line by line."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.testing import assert_close

LARGEST = np.finfo(np.float32).max


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype("float32")


def tensor(*shape: int, seed: int = 0) -> ndl.Tensor:
    return ndl.Tensor(draw(*shape, seed=seed))


def random_state() -> tuple[int, int]:
    """Where NumPy's generator stands."""
    _, keys, position, *_ = np.random.get_state()
    return int(keys[0]), int(position)


def assert_draws(run, *shapes: tuple[int, ...], normal: bool = False) -> None:
    """`run` moves NumPy's generator exactly as drawing these shapes does."""
    np.random.seed(5)
    run()
    after = random_state()
    np.random.seed(5)
    for shape in shapes:
        (np.random.randn if normal else np.random.rand)(*shape)
    assert random_state() == after


# Module -----------------------------------------------------------------------------------------


def test_parameter_is_a_tensor():
    assert issubclass(nn.Parameter, ndl.Tensor)
    assert nn.Parameter(ndl.ones(2)).requires_grad


def test_parameters_of_nested_attributes_in_order():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(2, 3)
            self.table = {"a": [nn.Linear(3, 4, bias=False)], "b": (nn.Parameter(ndl.ones(1)),)}
            self.last = nn.Linear(4, 1)

        def forward(self, x):
            return x

    shapes = [p.shape for p in Net().parameters()]
    assert isinstance(Net().parameters(), list)
    assert shapes == [(2, 3), (1, 3), (3, 4), (1,), (4, 1), (1, 1)]
    assert [type(c) for c in Net()._children()] == [nn.Linear] * 3


def test_weight_first_bias_second():
    weight, bias = nn.Sequential(nn.Linear(2, 2)).parameters()
    assert weight.shape == (2, 2) and bias.shape == (1, 2)


def test_training_flag_reaches_lists_and_dicts():
    class Net(nn.Module):
        def __init__(self):
            self.layers = [nn.Dropout(), {"x": nn.BatchNorm1d(2)}]

    net = Net()
    assert net.training
    net.eval()
    assert not net.training and not net.layers[0].training and not net.layers[1]["x"].training
    net.train()
    assert net.layers[1]["x"].training


def test_attributes_may_become_plain_tensors():
    cell = nn.LSTMCell(3, 4)
    cell.W_ih = ndl.Tensor(draw(3, 16))
    h, _ = cell(tensor(2, 3))
    h.sum().backward()
    assert cell.W_ih.grad.shape == (3, 16)


# Layers -----------------------------------------------------------------------------------------


def test_identity():
    x = tensor(2, 3)
    assert nn.Identity()(x) is x


def test_linear():
    layer = nn.Linear(3, 5)
    assert layer.weight.shape == (3, 5) and layer.bias.shape == (1, 5)
    assert layer.weight.dtype == "float32" and nn.Linear(3, 5, bias=False).bias is None
    x = tensor(2, 4, 3)
    assert_close(layer(x), x.numpy() @ layer.weight.numpy() + layer.bias.numpy(), rtol=1e-5)
    layer.bias.data = ndl.Tensor(draw(5))  # of another shape
    assert_close(layer(x[0]), x.numpy()[0] @ layer.weight.numpy() + draw(5), rtol=1e-5)


def test_linear_draws():
    """rand(in, out), then rand(out, 1) as a row."""
    np.random.seed(0)
    layer = nn.Linear(3, 5)
    np.random.seed(0)
    weight = (2 * np.random.rand(3, 5) - 1) * math.sqrt(6 / 3)
    bias = (2 * np.random.rand(5, 1) - 1) * math.sqrt(6 / 5)
    assert_close(layer.weight, weight.astype("float32"))
    assert_close(layer.bias, bias.astype("float32").reshape(1, 5))


def test_flatten():
    assert nn.Flatten()(tensor(2, 3, 4)).shape == (2, 12)
    assert nn.Flatten()(tensor(2, 3)).shape == (2, 3)


def test_relu_sigmoid_residual():
    x = tensor(4, 3)
    assert_close(nn.ReLU()(x), np.maximum(x.numpy(), 0))
    assert_close(nn.Sigmoid()(x), 1 / (1 + np.exp(-x.numpy())))
    assert_close(nn.Residual(nn.ReLU())(x), np.maximum(x.numpy(), 0) + x.numpy())


def test_sequential_modules():
    layers = nn.Linear(2, 3), nn.ReLU()
    chain = nn.Sequential(*layers)
    assert isinstance(chain.modules, tuple) and chain.modules[0] is layers[0]


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32"])
def test_softmax_loss(dtype):
    logits, ids = draw(6, 5), np.array([0, 4, 1, 1, 3, 2])
    loss = nn.SoftmaxLoss()(ndl.Tensor(logits), ndl.Tensor(ids, dtype=dtype))
    expected = np.log(np.exp(logits).sum(1)) - logits[np.arange(6), ids]
    assert loss.dtype == "float32" and loss.size == 1
    assert_close(loss, expected.mean(), rtol=1e-6)


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm1d])
def test_norms_draw_nothing(kind):
    assert_draws(lambda: kind(4))
    layer = kind(4)
    assert layer.weight.shape == layer.bias.shape == (4,)
    assert (layer.weight.numpy() == 1).all() and (layer.bias.numpy() == 0).all()


def test_batch_norm_running_statistics():
    layer = nn.BatchNorm1d(3)
    assert not isinstance(layer.running_mean, nn.Parameter) and len(layer.parameters()) == 2
    assert (layer.running_mean.numpy() == 0).all() and (layer.running_var.numpy() == 1).all()
    x = 2 + 3 * draw(8, 3)
    out = layer(ndl.Tensor(x))
    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    assert_close(out, expected, rtol=1e-4, atol=1e-5)
    assert_close(layer.running_mean, 0.1 * x.mean(0), rtol=1e-5)
    assert_close(layer.running_var, 0.9 + 0.1 * x.var(0), rtol=1e-5)  # biased
    layer.weight = ndl.Tensor([1.0, 2.0, 3.0])
    layer.bias = ndl.Tensor([0.0, 1.0, 2.0])
    layer.eval()
    y = draw(2, 3)
    deviation = np.sqrt(layer.running_var.numpy() + 1e-5)
    expected = (y - layer.running_mean.numpy()) / deviation * [1, 2, 3] + [0, 1, 2]
    assert_close(layer(ndl.Tensor(y)), expected.astype("float32"), rtol=1e-5)


def test_batch_norm_2d_is_1d_over_places():
    flat, layer = nn.BatchNorm1d(3), nn.BatchNorm2d(3)
    x = tensor(2, 3, 4, 5)
    rows = x.permute((0, 2, 3, 1)).reshape((40, 3))
    expected = flat(rows).reshape((2, 4, 5, 3)).permute((0, 3, 1, 2))
    assert_close(layer(x), expected, rtol=1e-5, atol=1e-6)
    assert_close(layer.running_var, flat.running_var, rtol=1e-5)


def test_layer_norm():
    x = draw(4, 6)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    assert_close(nn.LayerNorm1d(6)(ndl.Tensor(x)), expected, rtol=1e-4, atol=1e-5)


def test_dropout():
    x = tensor(50, 20)
    layer = nn.Dropout(0.3)
    assert_draws(lambda: nn.Dropout(0.3))
    assert_draws(lambda: layer(x), (50, 20))
    np.random.seed(1)
    out = layer(x)
    np.random.seed(1)
    kept = np.random.rand(50, 20) <= 0.7
    assert_close(out, x.numpy() * kept / 0.7, rtol=1e-6)
    layer.eval()
    assert_draws(lambda: layer(x))
    np.testing.assert_array_equal(layer(x).numpy(), x.numpy())
    assert nn.Dropout().p == 0.5


def test_conv():
    layer = nn.Conv(3, 8, 3, stride=2)
    assert layer.weight.shape == (3, 3, 3, 8) and layer.bias.shape == (8,)
    assert layer(tensor(2, 3, 9, 8)).shape == (2, 8, 5, 4)
    assert nn.Conv(3, 8, 5)(tensor(2, 3, 9, 8)).shape == (2, 8, 9, 8)
    pair = nn.Conv(3, 8, (3, 3), (2, 2), bias=False)
    assert pair.kernel_size == 3 and pair.stride == 2 and pair.bias is None
    assert_draws(lambda: nn.Conv(3, 8, 3), (3, 3, 3, 8), (8,))


# Sequences --------------------------------------------------------------------------------------

CELLS = [(nn.RNNCell, 1), (nn.LSTMCell, 4)]


@pytest.mark.parametrize(("kind", "gates"), CELLS)
def test_cell_weights(kind, gates):
    """W_ih, W_hh, bias_ih, bias_hh, all even between ±1/√h, drawn in this order."""
    np.random.seed(2)
    cell = kind(3, 4)
    np.random.seed(2)
    for name, shape in [
        ("W_ih", (3, 4 * gates)),
        ("W_hh", (4, 4 * gates)),
        ("bias_ih", (4 * gates,)),
        ("bias_hh", (4 * gates,)),
    ]:
        drawn = np.random.rand(*shape) - 0.5  # times 2 / √4
        assert_close(getattr(cell, name), drawn.astype("float32"), atol=1e-6)
    assert kind(3, 4, bias=False).bias_ih is None


def test_rnn_cell():
    for nonlinearity, f in (("tanh", np.tanh), ("relu", lambda z: np.maximum(z, 0))):
        cell = nn.RNNCell(3, 4, True, nonlinearity)
        x, h = draw(2, 3), draw(2, 4)
        z = x @ cell.W_ih.numpy() + cell.bias_ih.numpy()
        z = z + h @ cell.W_hh.numpy() + cell.bias_hh.numpy()
        assert_close(cell(ndl.Tensor(x), ndl.Tensor(h)), f(z), rtol=1e-5, atol=1e-6)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def test_lstm_cell_gates():
    cell = nn.LSTMCell(3, 4)
    x, h, c = draw(2, 3), draw(2, 4), draw(2, 4, seed=1)
    z = x @ cell.W_ih.numpy() + cell.bias_ih.numpy() + h @ cell.W_hh.numpy() + cell.bias_hh.numpy()
    i, f, g, o = np.split(z, 4, axis=1)
    memory = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    found = cell(ndl.Tensor(x), (ndl.Tensor(h), ndl.Tensor(c)))
    assert isinstance(found, tuple)
    assert_close(found[0], sigmoid(o) * np.tanh(memory), rtol=1e-5, atol=1e-6)
    assert_close(found[1], memory, rtol=1e-5, atol=1e-6)
    zero = ndl.zeros(2, 4)
    for a, b in zip(cell(ndl.Tensor(x)), cell(ndl.Tensor(x), (zero, zero)), strict=True):
        assert_close(a, b)


def test_rnn():
    network = nn.RNN(3, 4, 2, True, "tanh", None, "float32")
    assert [type(c) for c in network.rnn_cells] == [nn.RNNCell] * 2
    assert network.rnn_cells[1].W_ih.shape == (4, 4)
    output, h = network(tensor(5, 2, 3), tensor(2, 2, 4))
    assert output.shape == (5, 2, 4) and h.shape == (2, 2, 4)
    assert_close(output[4], h[1])


def test_rnn_draws_cell_by_cell():
    np.random.seed(3)
    network = nn.RNN(3, 4, 2)
    np.random.seed(3)
    cells = [nn.RNNCell(3, 4), nn.RNNCell(4, 4)]
    for a, b in zip(network.rnn_cells, cells, strict=True):
        for p, q in zip(a.parameters(), b.parameters(), strict=True):
            np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_lstm():
    network = nn.LSTM(3, 4, 2, True, None, "float32")
    assert [type(c) for c in network.lstm_cells] == [nn.LSTMCell] * 2
    output, state = network(tensor(5, 2, 3))
    assert type(state) is tuple and [s.shape for s in state] == [(2, 2, 4)] * 2
    again, _ = network(tensor(5, 2, 3), (ndl.zeros(2, 2, 4), ndl.zeros(2, 2, 4)))
    assert_close(output, again)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM])
def test_every_parameter_has_a_gradient_after_one_step(kind):
    network = kind(3, 4, 2)
    output, _ = network(tensor(1, 2, 3))
    output.sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_embedding():
    np.random.seed(4)
    table = nn.Embedding(7, 3)
    np.random.seed(4)
    assert_close(table.weight, np.random.randn(7, 3).astype("float32"))
    ids = np.array([[0.0, 6.0], [2.0, 2.0]])
    out = table(ndl.Tensor(ids))
    np.testing.assert_array_equal(out.numpy(), table.weight.numpy()[ids.astype(int)])
    assert isinstance(table.weight, nn.Parameter)


# Transformers -----------------------------------------------------------------------------------


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("causal", [False, True])
def test_multi_head_attention(causal):
    layer = nn.MultiHeadAttention(dropout=0.0, causal=causal)
    assert layer.parameters() == []
    q, k, v = (draw(2, 3, 5, 4, seed=i) for i in range(3))
    result, probs = layer(*(ndl.Tensor(a) for a in (q, k, v)))
    logits = q @ k.swapaxes(-1, -2) / 2
    if causal:
        logits = logits + np.triu(np.full((5, 5), -LARGEST), 1)
    assert_close(probs, softmax(logits), rtol=1e-5, atol=1e-6)
    assert_close(result, softmax(logits) @ v, rtol=1e-5, atol=1e-6)


def test_returned_probabilities_are_dropped_out():
    layer = nn.MultiHeadAttention(dropout=0.4)
    q, k, v = (tensor(2, 3, 5, 4, seed=i) for i in range(3))
    np.random.seed(6)
    result, probs = layer(q, k, v)
    np.random.seed(6)
    kept = np.random.rand(2, 3, 5, 5) <= 0.6
    assert ((probs.numpy() == 0) == ~kept).all()
    assert_close(result, probs.numpy() @ v.numpy(), rtol=1e-5, atol=1e-6)


def test_attention_helpers():
    layer = nn.MultiHeadAttention()
    mask = layer.create_causal_mask(3, 5, ndl.cpu()).numpy()
    np.testing.assert_array_equal(mask, np.triu(-LARGEST * np.ones((1, 1, 3, 5), "float32"), 3))
    a, b = tensor(2, 3, 5, 4), tensor(2, 3, 6, 4, seed=1)
    assert_close(layer.matmul(a, b), a.numpy() @ b.numpy().swapaxes(-1, -2), rtol=1e-5, atol=1e-6)
    assert_close(layer.softmax(a), softmax(a.numpy()), rtol=1e-5)


def normalized(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention_layer(layer, q, k=None, v=None, causal=True):
    """The layer's result in NumPy."""
    k, v = q if k is None else k, q if v is None else v
    heads = []
    for x, projection in ((q, "q"), (k, "k"), (v, "v")):
        weight = getattr(layer, f"{projection}_projection").weight.numpy()
        projected = normalized(x) @ weight
        heads.append(projected.reshape(*x.shape[:2], layer.num_head, layer.dim_head).swapaxes(1, 2))
    logits = heads[0] @ heads[1].swapaxes(-1, -2) / math.sqrt(layer.dim_head)
    if causal:
        rows, columns = logits.shape[-2:]
        logits = logits + np.triu(np.full((rows, columns), -LARGEST), columns - rows + 1)
    out = (softmax(logits) @ heads[2]).swapaxes(1, 2).reshape(*q.shape[:2], -1)
    return out @ layer.out_projection.weight.numpy()


def test_attention_layer():
    layer = nn.AttentionLayer(6, 2, 4, causal=False, k_features=5, v_features=7, out_features=3)
    shapes = [p.shape for p in layer.parameters() if len(p.shape) == 2]
    assert shapes == [(6, 8), (5, 8), (7, 8), (8, 3)]
    assert all(not m.bias for m in layer._children() if isinstance(m, nn.Linear))
    q, k, v = draw(2, 5, 6), draw(2, 4, 5), draw(2, 4, 7)
    out = layer(*(ndl.Tensor(a) for a in (q, k, v)))
    assert_close(out, attention_layer(layer, q, k, v, causal=False), rtol=1e-4, atol=1e-5)
    own = nn.AttentionLayer(6, 2, 4)
    assert_close(own(ndl.Tensor(q)), attention_layer(own, q), rtol=1e-4, atol=1e-5)
    assert_draws(lambda: nn.AttentionLayer(6, 2, 4), (6, 8), (6, 8), (6, 8), (8, 6))


def transformer_layer(layer, x):
    x = x + attention_layer(layer.attention, x)
    first, second = (m for m in layer.mlp.fn.modules if isinstance(m, nn.Linear))
    hidden = np.maximum(normalized(x) @ first.weight.numpy() + first.bias.numpy(), 0)
    return x + hidden @ second.weight.numpy() + second.bias.numpy()


def test_transformer_layer():
    layer = nn.TransformerLayer(6, 2, 4, 10)
    x = draw(2, 5, 6)
    assert_close(layer(ndl.Tensor(x)), transformer_layer(layer, x), rtol=1e-4, atol=1e-5)
    shapes = [(6, 8), (6, 8), (6, 8), (8, 6), (6, 10), (10, 1), (10, 6), (6, 1)]
    assert_draws(lambda: nn.TransformerLayer(6, 2, 4, 10), *shapes)
    dropping = nn.TransformerLayer(6, 2, 4, 10, dropout=0.2)
    drawn = [(2, 2, 5, 5), (2, 5, 6), (10, 10), (10, 6)]
    assert_draws(lambda: dropping(ndl.Tensor(x)), *drawn)


@pytest.mark.parametrize("batch_first", [True, False])
def test_transformer(batch_first):
    np.random.seed(7)
    model = nn.Transformer(
        6, 10, 2, num_head=2, dim_head=4, batch_first=batch_first, sequence_len=9
    )
    np.random.seed(7)
    positions = np.random.randn(9, 6).astype("float32")  # before the layers
    assert_close(nn.TransformerLayer(6, 2, 4, 10).attention.q_projection.weight,
                 model.layers[0].attention.q_projection.weight)  # fmt: skip
    x = draw(2, 5, 6)
    expected = x + positions[:5]
    for layer in model.layers:
        expected = transformer_layer(layer, expected)
    given = x if batch_first else x.swapaxes(0, 1)
    out, state = model(ndl.Tensor(given), None)
    found = out.numpy() if batch_first else out.numpy().swapaxes(0, 1)
    assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert state.shape == out.shape and (state.numpy() == 0).all()


# Over NumPy -------------------------------------------------------------------------------------

NUMPY_MODE = """
import numpy as np, needle as ndl
from needle import nn
np.random.seed(0)
x = ndl.Tensor(np.random.randn(8, 5), dtype="float32")
model = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5),
                      nn.LayerNorm1d(6), nn.Residual(nn.Linear(6, 6)), nn.Linear(6, 3))
loss = nn.SoftmaxLoss()(model(x), ndl.Tensor(np.arange(8) % 3, dtype="uint8"))
loss.backward()
assert type(loss.cached_data) is np.ndarray and loss.dtype == "float32", loss.dtype
assert all(type(p.grad.cached_data) is np.ndarray for p in model.parameters())
assert all(p.grad.dtype == p.dtype == "float32" for p in model.parameters())
assert nn.Linear(4, 2)(ndl.Tensor(np.random.randn(3, 4, 4), dtype="float32")).shape == (3, 4, 2)
for network in (nn.RNN(5, 4, 2), nn.LSTM(5, 4), nn.GRU(5, 4, bidirectional=True)):
    network(x.reshape((4, 2, 5)))[0].sum().backward()
    assert all(p.grad is not None for p in network.parameters())
encoder = nn.TransformerEncoderLayer(4, 2, 8)
encoder(ndl.Tensor(np.random.randn(3, 2, 4), dtype="float32"), is_causal=True).sum().backward()
assert all(p.grad is not None for p in encoder.parameters())
"""


def test_modules_over_numpy():
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", NUMPY_MODE],
        env={**os.environ, "NEEDLE_BACKEND": "np"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stderr == "" and process.returncode == 0
