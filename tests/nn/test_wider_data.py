"""Data that is wider than a layer: what comes out, as docs/coming-from-pytorch.md says."""

import numpy as np
import pytest

import needle as ndl
from needle import nn

LAYERS = {
    "Linear": (lambda: nn.Linear(4, 4), (2, 4)),
    "Conv": (lambda: nn.Conv(4, 4, 3), (2, 4, 5, 5)),
    "Conv1d": (lambda: nn.Conv1d(4, 4, 1), (2, 4, 5)),
    "Conv2d": (lambda: nn.Conv2d(4, 4, 1), (2, 4, 5, 5)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 4, 1), (2, 4, 5, 5)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), (2, 4)),
    "BatchNorm2d, eval": (lambda: nn.BatchNorm2d(4).eval(), (2, 4, 3, 3)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (2, 4)),
    "LayerNorm1d": (lambda: nn.LayerNorm1d(4), (2, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (2, 4)),
    "RMSNorm": (lambda: nn.RMSNorm(4), (2, 4)),
    "PReLU": (lambda: nn.PReLU(), (2, 4)),
    "RNN": (lambda: nn.RNN(4, 4), (3, 2, 4)),
    "LSTM": (lambda: nn.LSTM(4, 4), (3, 2, 4)),
    "GRU": (lambda: nn.GRU(4, 4), (3, 2, 4)),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, dropout=0.0), (3, 2, 4)),
    "chain": (lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.BatchNorm1d(4)), (2, 4)),
}


def result(layer, x):
    y = layer(x)
    return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("given", "expected"), [("float64", "float64"), ("int64", "float64"), ("float16", "float32")]
)
def test_results_are_of_the_wider_dtype_and_weights_stay(name, compiled, given, expected):
    make, shape = LAYERS[name]
    layer = make()
    x = ndl.tensor(np.random.default_rng(0).integers(1, 5, shape).astype(given))
    run = ndl.jit(lambda x: result(layer, x)) if compiled else lambda x: result(layer, x)
    assert run(x).dtype == expected
    y = result(layer, x)
    y.sum().backward()
    for parameter in layer.parameters():
        assert parameter.dtype == parameter.grad.dtype == "float32"
    assert {b.dtype for b in layer.buffers()} <= {"float32", "int64"}
    ndl.optim.Adam(layer.parameters()).step()
    assert {p.dtype for p in layer.parameters()} == {"float32"}


def test_numpys_arrays():
    a = np.random.default_rng(0).standard_normal((2, 4))
    layer = nn.Linear(4, 3)
    assert layer(a).dtype == "float64" and layer(a.astype(np.float32)).dtype == "float32"
    assert layer(ndl.Tensor(a)).dtype == "float32" and layer(ndl.tensor(a)).dtype == "float64"
    loader = ndl.data.DataLoader(ndl.data.NDArrayDataset(a), 2)
    assert layer(next(iter(loader))[0]).dtype == "float32"


@pytest.mark.parametrize(
    "layer", [nn.ReLU(), nn.Conv(4, 4, 1), nn.Conv2d(4, 4, 1), nn.LayerNorm(4)]
)
def test_layers_that_do_not_take_numpys_arrays(layer):
    with pytest.raises(
        (AttributeError, TypeError), match=r"given a NumPy array \(2, 4, 4, 4\), wh"
    ):
        nn.Sequential(layer)(np.ones((2, 4, 4, 4)))
