"""nn.utils, the module paths of PyTorch's scripts, and what nn.Transformer says to them."""

from __future__ import annotations

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.nn.utils.rnn import pad_sequence
from needle.optim.lr_scheduler import CosineAnnealingLR


def test_pad_sequence():
    torch = pytest.importorskip("torch")
    arrays = [np.ones((n, 2), "f4") * n for n in (2, 4, 1)]
    for options in (
        {}, {"batch_first": True, "padding_value": -1.0}, {"padding_side": "left"},
    ):  # fmt: skip
        theirs = torch.nn.utils.rnn.pad_sequence([torch.tensor(a) for a in arrays], **options)
        ours = pad_sequence([ndl.tensor(a) for a in arrays], **options)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    ids = pad_sequence([ndl.tensor([1, 2]), ndl.tensor([3])], batch_first=True)
    assert ids.tolist() == [[1, 2], [3, 0]] and ids.dtype == "int64"
    with pytest.raises(ValueError, match=r"\[pad_sequence\] expected tensors \(L, .* fit"):
        pad_sequence([ndl.ones(2, 3), ndl.ones(2, 4)])
    with pytest.raises(ValueError, match=r"\[pad_sequence\] padding_side must be"):
        pad_sequence([ndl.ones(2)], padding_side="up")


def test_schedules_are_where_pytorch_has_them():
    assert (
        CosineAnnealingLR
        is ndl.optim.lr_scheduler.CosineAnnealingLR
        is (ndl.optim.CosineAnnealingLR)
    )


def test_the_name_of_the_courses_transformer():
    with pytest.raises(TypeError, match=r"\[Transformer\] this is the course's, .* got d_mod"):
        nn.Transformer(d_model=16, nhead=2)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == [[0, -np.inf, -np.inf], [0, 0, -np.inf], [0, 0, 0]]
