"""Functions of networks under `torch`, with the order of arguments that they have there."""

from __future__ import annotations

import numpy as np
import pytest

import needle.torch as torch

real = pytest.importorskip("torch")


def normals(t, *shape):
    return t.arange(float(np.prod(shape))).reshape(*shape).sin()


CALLS = {
    "conv2d": lambda t: t.conv2d(normals(t, 2, 3, 6, 6), normals(t, 4, 3, 3, 3), None, 2, 1),
    "conv_transpose1d": lambda t: t.conv_transpose1d(
        normals(t, 2, 3, 5), normals(t, 3, 4, 3), None, 2, 1, 1, 1, 1
    ),
    "layer_norm": lambda t: t.layer_norm(normals(t, 2, 4), (4,), normals(t, 4), normals(t, 4)),
    "group_norm": lambda t: t.group_norm(normals(t, 2, 4, 3), 2, normals(t, 4), normals(t, 4)),
    "batch_norm": lambda t: t.batch_norm(
        normals(t, 5, 3), normals(t, 3), normals(t, 3), t.zeros(3), t.ones(3), True, 0.1, 1e-5, True
    ),
    "embedding": lambda t: t.embedding(normals(t, 5, 2), t.tensor([[0, 4], [1, 1]])),
    "max_pool2d": lambda t: t.max_pool2d(normals(t, 1, 2, 6, 6), 2),
    "pixel_shuffle": lambda t: t.pixel_shuffle(normals(t, 1, 8, 2, 2), 2),
    "rms_norm": lambda t: t.rms_norm(normals(t, 2, 4), (4,)),
    "pairwise_distance": lambda t: t.pairwise_distance(normals(t, 3, 2), t.ones(3, 2)),
}


@pytest.mark.parametrize("name", CALLS)
def test_values(name):
    ours, theirs = (CALLS[name](t).numpy() for t in (torch, real))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_dropout():
    found = []
    for t in (torch, real):
        t.manual_seed(1)
        found.append(t.dropout(t.ones(20), 0.5, True).numpy())
        assert t.equal(t.dropout(t.ones(3), 0.5, False), t.ones(3))
    np.testing.assert_array_equal(*found)
