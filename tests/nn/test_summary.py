"""summary: counts, shapes, the table; and that the model stays as it was."""

import numpy as np
import pytest

import needle as ndl
from needle import nn

from .test_module import Model


def test_summary_counts():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2, bias=False))
    found = ndl.summary(model, (16, 4))
    assert found.parameters == 4 * 8 + 8 + 8 * 2 == found.trainable
    assert found.flops == 2 * 16 * (4 * 8 + 8 * 2)
    assert found.bytes == 4 * found.parameters
    assert [layer.output_shapes for layer in found.layers] == [
        [(16, 2)],
        [(16, 8)],
        [(16, 8)],
        [(16, 2)],
    ]
    # x W (16, 8), + b (16, 8), relu (16, 8), x W (16, 2)
    assert found.activation_bytes == 4 * 16 * (8 + 8 + 8 + 2)


def test_summary_leaves_the_model_as_it_was(capsys):
    model = Model()
    model.blocks[0].freeze()
    model.blocks[1].eval()
    state = {n: t.numpy() for n, t in model.state_dict().items()}
    np.random.seed(0)
    found = ndl.summary(model, (6, 4))
    assert np.random.rand() == np.random.RandomState(0).rand()
    assert model.training and not model.blocks[1].fc1.training and model.blocks[0].training
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), state[name])
    assert not any(m.__dict__.get("_hooks") for _, m in model.named_modules())
    assert found.trainable == found.parameters - sum(p.size for p in model.blocks[0].parameters())
    assert capsys.readouterr().out == ""


def test_summary_of_several_inputs_and_ids():
    layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    found = ndl.summary(layer, [(2, 5, 8), (2, 7, 8)])
    assert found.input_shapes == [(2, 5, 8), (2, 7, 8)]
    attention = 2 * 2 * 5 * 8 * (5 + 5 + 7 + 7)  # q kᵀ and p v, to itself and to the memory
    projections = 2 * 2 * 8 * 8 * (4 * 5 + 2 * 5 + 2 * 7)
    feed_forward = 2 * 2 * 5 * 8 * 16 * 2
    assert found.flops == attention + projections + feed_forward
    table = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10))
    assert ndl.summary(table, (3, 7), dtype="int64").layers[0].output_shapes == [(3, 7, 10)]


def test_summary_of_a_convolution():
    found = ndl.summary(nn.Conv(3, 8, 3, stride=2), (2, 3, 8, 8))
    assert found.flops == 2 * (2 * 8 * 4 * 4) * (3 * 3 * 3)


def test_summary_table():
    text = str(ndl.summary(Model(), (6, 4)))
    lines = text.splitlines()
    assert lines[0].split() == ["layer", "output", "parameters", "FLOPs"]
    assert lines[2].startswith("Model ") and lines[3].startswith("  blocks.0: Block")
    assert any(line.startswith("    fc1: Linear") for line in lines)
    assert "(6, 2), (6, 3)" in lines[2]
    assert "parameters 160" in text and "memory: weights 760 B" in text
    assert repr(ndl.summary(Model(), (6, 4))) == text


def test_summary_of_a_model_that_fails_cleans_up():
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(4, 8))
    with pytest.raises(ValueError, match=r"\[in module 1: Linear given \(2, 8\)\]"):
        ndl.summary(model, (2, 4))
    assert model.training and not ndl.autograd.graph.observers
    assert not any(m.__dict__.get("_hooks") for _, m in model.named_modules())
