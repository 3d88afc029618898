"""The models of the command line: shapes, sizes, and what makes each what it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

import needle as ndl
from needle import models, optim
from needle.nn import functional as F


def size_of(model) -> int:
    return sum(p.size for p in model.parameters())


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("name", ["mlp-resnet", "cnn", "resnet9"])
def test_image_models(name, shape):
    model = models.image_model(name, shape, 10)
    scores = model(ndl.randn(2, *shape))
    assert scores.shape == (2, 10)
    scores.sum().backward(create_graph=False)
    assert all(p.grad is not None and p.grad.shape == p.shape for p in model.parameters())


def test_resnet18():
    model = models.ResNet18(3)
    assert size_of(model) == 11_173_962, "He et al. with a 3 x 3 stem and 10 classes"
    small = models.ResNet18(3, width=4).eval()
    assert small(ndl.randn(2, 3, 32, 32)).shape == (2, 10)
    assert small.stem(ndl.randn(1, 3, 32, 32)).shape == (1, 4, 32, 32)
    assert small.blocks(ndl.randn(1, 4, 32, 32)).shape == (1, 32, 4, 4)


@pytest.mark.parametrize("name", models.TEXT_MODELS)
def test_text_models_look_back_only(name):
    """Changing a symbol changes no score before it, and some score at it."""
    model = models.text_model(name, 11, 6, width=16).eval()
    ids = np.random.randint(11, size=(2, 6))
    changed = ids.copy()
    changed[:, 3] = (changed[:, 3] + 1) % 11
    before, after = model(ndl.tensor(ids)).numpy(), model(ndl.tensor(changed)).numpy()
    assert before.shape == (2, 6, 11)
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert (np.abs(before[:, 3:] - after[:, 3:]).max((0, 2)) > 1e-6).all()


def test_gpt_attention_is_the_definition():
    block = models.GPTBlock(width=12, heads=3, layers=1, dropout=0.0)
    x = ndl.randn(2, 5, 12)
    q, k, v = np.split(x.numpy() @ block.qkv.weight.numpy(), 3, axis=-1)
    heads = [a.reshape(2, 5, 3, 4).transpose(0, 2, 1, 3) for a in (q, k, v)]
    scores = heads[0] @ heads[1].transpose(0, 1, 3, 2) / math.sqrt(4)
    scores = np.where(np.tri(5, dtype=bool), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    mixed = (shares @ heads[2]).transpose(0, 2, 1, 3).reshape(2, 5, 12)
    expected = mixed @ block.projection.weight.numpy()
    np.testing.assert_allclose(block.attend(x).numpy(), expected, rtol=2e-4, atol=1e-6)


def test_gpt_sizes():
    """V E + T E for the vectors; 12 E² + 4 E per block; 2 E for the last norm; V E if not tied."""
    vocabulary, block, width, layers = 20, 8, 16, 2
    expected = (vocabulary + block) * width + layers * (12 * width**2 + 4 * width) + 2 * width
    tied = models.GPT(vocabulary, block, width, layers, heads=4)
    free = models.GPT(vocabulary, block, width, layers, heads=4, tied=False)
    assert size_of(tied) == expected and size_of(free) == expected + vocabulary * width
    first = float(F.cross_entropy(tied(ndl.tensor([[1, 2, 3]])).reshape((3, 20)),
                                  ndl.tensor([2, 3, 4])).item())  # fmt: skip
    assert first == pytest.approx(math.log(20), abs=0.2), "untrained, every symbol is as likely"
    with pytest.raises(ValueError, match=r"\[GPT\] expected at most 8 symbols, got 9"):
        tied(ndl.zeros(1, 9, dtype="int64"))


@pytest.mark.parametrize("name", ["lstm", "gpt"])
def test_text_models_learn_a_rule(name):
    model = models.text_model(name, 5, 8, width=32)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    start = np.random.randint(5, size=(16, 1))
    ids = (start + np.arange(9)) % 5
    x, y = ndl.tensor(ids[:, :-1]), ndl.tensor(ids[:, 1:].reshape(-1))
    for _ in range(40):
        loss = F.cross_entropy(model(x).reshape((-1, 5)), y)
        optimizer.reset_grad()
        loss.backward(create_graph=False)
        optimizer.step()
    assert loss.item() < 0.1


def test_unknown_names():
    with pytest.raises(ValueError, match=r"expected one of mlp-resnet, cnn, .*got 'vgg'"):
        models.image_model("vgg", (1, 8, 8), 10)
    with pytest.raises(ValueError, match="expected one of lstm, transformer, gpt, got 'cnn'"):
        models.text_model("cnn", 10, 8)
