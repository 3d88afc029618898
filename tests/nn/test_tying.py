"""Weights that two layers share: both must read them in the same order."""

import re

import numpy as np
import pytest

import needle as ndl
from needle import nn


def layers(size, other):
    """Layers of one width, each with the attribute that is a matrix."""
    return {
        "Linear": (nn.Linear(size, other), "weight", "(in, out)"),
        "Embedding": (nn.Embedding(other, size), "weight", "(out, in)"),
        "RNNCell": (nn.RNNCell(size, other), "W_ih", "(in, out)"),
        "Conv": (nn.Conv(size, other, 1), "weight", "(k, k, in, out)"),
        "Conv2d": (nn.Conv2d(size, other, 1), "weight", "(out, in)"),
        "ConvTranspose2d": (nn.ConvTranspose2d(other, size, 1), "weight", "(out, in)"),
    }


@pytest.mark.parametrize("size", [(4, 4), (4, 6)])
@pytest.mark.parametrize("how", ["setattr", "register_parameter"])
@pytest.mark.parametrize("taker", layers(4, 4))
@pytest.mark.parametrize("giver", layers(4, 4))
def test_tying_weights(giver, taker, size, how):
    """One parameter in two layers, if both read it in the same order; a square one, too."""
    source, given, has = layers(*size)[giver]
    target, taken, expected = layers(*size)[taker]
    weight, before = getattr(source, given), getattr(target, taken)
    tie = setattr if how == "setattr" else nn.Module.register_parameter
    if has == expected:
        tie(target, taken, weight)
        assert getattr(target, taken) is weight
        return
    words = re.escape(
        f"[{taker}] expected a {taken} that is {expected}, got the parameter of a lay"
    )
    with pytest.raises(ValueError, match=rf"{words}.*F\.linear\(x, embedding\.weight\)"):
        tie(target, taken, weight)
    assert getattr(target, taken) is before


def test_the_way_to_tie_that_the_error_names():
    class Model(nn.Module):
        def __init__(self):
            self.embedding = nn.Embedding(5, 5)  # square: nothing else tells the layouts apart
            self.tied = self.embedding.weight  # under a name of the model's own

        def forward(self, ids):
            return nn.functional.linear(self.embedding(ids), self.embedding.weight)

    model, ids = Model(), ndl.tensor([1, 3])
    rows = model.embedding.weight.numpy()
    np.testing.assert_allclose(model(ids).numpy(), rows[[1, 3]] @ rows.T, rtol=1e-5)
    assert len(model.parameters()) == 1
    model(ids).sum().backward()
    assert model.tied.grad is not None
