"""Mistakes inside a model: the error names the module, the shapes and a likely fix."""

import pytest

import needle as ndl
from needle import nn


class Deep(nn.Module):
    """Layers below layers, of which one does not fit."""

    def __init__(self, bad):
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)])
        self.heads = {"image": nn.Sequential(nn.Identity(), bad)}

    def forward(self, x):
        for block in self.blocks:
            x = block(x) if x.ndim == 2 else x
        return self.heads["image"](x)


MISTAKES = [
    (nn.Linear(5, 2), (3, 4), r"last dimension of the input to be 5, got \(3, 4\) with weight "
     r"\(5, 2\); change in_features"),
    (nn.Conv2d(3, 2, 3), (2, 4, 8, 8), r"3 channels on axis 1 for weight \(2, 3, 3, 3\), got "
     r"\(2, 4, 8, 8\); change in_channels"),
    (nn.Conv2d(3, 2, 3), (2, 8, 8, 3), r"are the channels last\? permute them"),
    (nn.Conv2d(1, 1, 5), (1, 1, 3, 3), r"the window is larger than the padded input"),
    (nn.BatchNorm2d(8), (2, 4, 3, 3), r"\(batch, 8, H, W\), got \(2, 4, 3, 3\); the channels are"),
    (nn.LayerNorm(5), (3, 4), r"last dimensions are \(5,\), got \(3, 4\); change normalized_shape"),
    (nn.GroupNorm(2, 8), (2, 4, 3), r"expected 8 channels \(axis 1 .*\), got \(2, 4, 3\)"),
    (nn.LSTM(5, 2), (7, 2, 4), r"expected inputs \(batch, 5\), got \(7, 2, 4\); change input_size"),
    (nn.TransformerEncoderLayer(8, 2), (3, 2, 4), r"\(8, 8, 8\) features, got \(3, 2, 4\)"),
    (nn.PixelShuffle(2), (2, 6, 3, 3), r"\(\.\.\., C r r, H, W\) with r = 2, got \(2, 6, 3, 3\)"),
    (nn.MaxPool2d(5), (1, 1, 3, 3), r"window \(5, 5\).* spatial shape \(3, 3\)"),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "shape", "match"), MISTAKES)
def test_shape_errors_name_the_module_the_shapes_and_a_fix(layer, shape, match):
    with pytest.raises(ValueError, match=match) as caught:
        Deep(layer)(ndl.zeros(*shape))
    kind = type(layer).__name__
    kinds = {"TransformerEncoderLayer": ".self_attn: MultiheadAttention"}
    assert f"[in module heads.image.1{kinds.get(kind, f': {kind}')} given " in str(caught.value)


def test_errors_inside_a_list_of_blocks():
    with pytest.raises(ValueError, match=r"\[in module blocks\.0\.0: Linear given \(3, 7\)\]"):
        Deep(nn.Identity())(ndl.zeros(3, 7))


def test_embedding_ids_out_of_range():
    layer = nn.Embedding(10, 4)
    for ids, wrong in (([3, 11], 11), ([-1, 3], -1), ([3, -(1 << 62)], -(1 << 62))):
        expected = rf"\[embedding\] expected ids from 0 to 9, got {wrong};"
        with pytest.raises(IndexError, match=expected):
            layer(ndl.tensor(ids))


USES_OF_IDS = {
    "embedding": (lambda ids: nn.Embedding(3, 4)(ids), "got a number that is not whole"),
    "one_hot": (lambda ids: ndl.one_hot(3, ids), "whole numbers, got fractions"),
    "cross_entropy": (
        lambda ids: nn.functional.cross_entropy(ndl.ones(2, 3), ids, ignore_index=-1),
        "a number that is not whole",
    ),
    "SoftmaxLoss": (lambda ids: nn.SoftmaxLoss()(ndl.ones(2, 3), ids), "that is not whole"),
    "nll_loss": (lambda ids: nn.functional.nll_loss(ndl.ones(2, 3), ids), "that is not whole"),
}


@pytest.mark.parametrize("name", USES_OF_IDS)
def test_ids_may_be_floats_but_no_fractions(name):
    use, message = USES_OF_IDS[name]
    assert use(ndl.tensor([0.0, 2.0])).shape == use(ndl.tensor([0, 2])).shape
    with pytest.raises(IndexError, match=message):
        use(ndl.tensor([0.0, 1.5]))
    with pytest.raises(IndexError):
        ndl.jit(use)(ndl.tensor([0.0, 1.5]))
