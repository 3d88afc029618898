"""In-place methods on results that are views of memory which nobody else knows, as conv's is."""

from __future__ import annotations

import numpy as np
import pytest

import needle as ndl
import needle.nn.functional as F
from needle import nn

RNG = np.random.default_rng(0)


def leaf(*shape):
    return ndl.tensor(RNG.standard_normal(shape), requires_grad=True)


conv, conv1d, conv3d = nn.Conv2d(2, 3, 2), nn.Conv1d(2, 3, 2), nn.Conv3d(2, 3, 1)
lstm, gru = nn.LSTM(2, 3), nn.GRU(2, 3, batch_first=True)
attention = nn.MultiheadAttention(4, 2)

FRESH = {
    "Conv2d": ((1, 2, 4, 4), lambda x: conv(x.float())),
    "Conv1d": ((1, 2, 4), lambda x: conv1d(x.float())),
    "Conv3d": ((1, 2, 2, 2, 2), lambda x: conv3d(x.float())),
    "ConvTranspose2d": ((1, 2, 3, 3), lambda x: F.conv_transpose2d(x, x.permute((1, 0, 2, 3)))),
    "max_pool2d of conv": ((1, 2, 5, 5), lambda x: F.max_pool2d(conv(x.float()), 2)),
    "GroupNorm": ((2, 4), lambda x: F.group_norm(x, 2)),
    "LSTM": ((5, 1, 2), lambda x: lstm(x.float())[0]),
    "GRU": ((1, 5, 2), lambda x: gru(x.float())[0]),
    "MultiheadAttention": ((3, 1, 4), lambda x: attention(*[x.float()] * 3)[0]),
    "einsum": ((2, 3), lambda x: ndl.einsum("ij,kj->ki", x, x * 2)),
    "reshape": ((2, 3), lambda x: (x * 2).reshape((3, 2))),
    "the same shape": ((2, 3), lambda x: (x * 2).reshape((2, 3))),
    "transpose": ((2, 3), lambda x: (x * 2).transpose()),
    "two views": ((2, 3), lambda x: (x * 2).reshape((3, 2)).transpose()),
    "one row": ((2, 3), lambda x: (x * 2)[1]),
    "steps": ((4, 3), lambda x: (x * 2)[::2, 1:]),
    "reversed": ((4,), lambda x: (x * 2)[::-1]),
    "flip": ((4,), lambda x: ndl.flip(x * 2, (0,))),
    "one chunk": ((4,), lambda x: ndl.chunk(x * 2, 2)[0]),
    "squeeze": ((1, 4), lambda x: (x * 2).squeeze(0)),
}
METHODS = {
    "div_": (lambda y: y.div_(2.0), lambda a: a / 2),
    "add_": (lambda y: y.add_(1.0), lambda a: a + 1),
    "relu_": (lambda y: y.relu_(), lambda a: np.maximum(a, 0)),
    "y[0] =": (lambda y: y.__setitem__(0, 3.0), None),
    "masked_fill_": (lambda y: y.masked_fill_(y.detach() > 0, 0.0), lambda a: np.minimum(a, 0)),
    "twice": (lambda y: y.mul_(2.0).sub_(1.0), lambda a: a * 2 - 1),
}


@pytest.mark.parametrize("name", FRESH)
@pytest.mark.parametrize("method", METHODS)
def test_a_fresh_result(name, method):
    shape, make = FRESH[name]
    change, expected = METHODS[method]
    x = leaf(*shape)
    before = make(x).numpy().copy()
    y = make(x)
    change(y)
    if expected is None:
        after = before.copy()
        after[0] = 3
    else:
        after = expected(before)
    np.testing.assert_allclose(y.numpy(), after, rtol=1e-5, atol=1e-6)
    # The gradient is that of the same change on a copy, which is nobody's view.
    (y * y).sum().backward()
    found = x.grad.numpy()
    copied = make(x).clone()
    change(copied)
    (copied * copied).sum().backward()
    np.testing.assert_allclose(found, x.grad.numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", FRESH)
def test_compiled(name):
    shape, make = FRESH[name]

    def step(x):
        return make(x).div_(2.0) + 1

    x = leaf(*shape)
    eager = step(x).numpy()
    for compiled in (ndl.jit(step), ndl.jit(step, fuse=False)):
        np.testing.assert_allclose(compiled(x).numpy(), eager, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("lazy", [False, True])
def test_in_lazy_mode_too(lazy):
    ndl.autograd.LAZY_MODE = lazy
    try:
        for shape, make in FRESH.values():
            x = leaf(*shape)
            expected = make(x).numpy() / 2
            np.testing.assert_allclose(make(x).div_(2.0).numpy(), expected, rtol=1e-6)
    finally:
        ndl.autograd.LAZY_MODE = False


# Somebody else sees the memory -------------------------------------------------------------------


def held(x):
    y = x * 2
    return y.reshape((6,)), y


def held_without_history(x):
    y = x * 2
    return y.reshape((6,)), y.detach()


def held_as_another_view(x):
    y = x * 2
    return y.reshape((6,)), y.detach()[0]


def held_as_two_views(x):
    y = x * 2
    return y.reshape((6,)), y.transpose()


def held_as_an_array(x):
    y = x * 2
    return y.reshape((6,)), y.cached_data


def held_by_numpy(x):
    y = x * 2
    return y.reshape((6,)), np.from_dlpack(y.detach())


def held_as_two_chunks(x):
    return ndl.chunk(x * 2, 2)


def held_in_a_container(x):
    y = x * 2
    return y.reshape((6,)), {"kept": [y]}


def held_by_a_closure(x):
    y = x * 2
    return y.reshape((6,)), lambda: y


def held_under_the_same_shape(x):
    y = x * 2
    return y.reshape((2, 3)), y


def a_view_of_a_leaf(x):
    return x.reshape((6,)), x


def a_part_of_a_leaf(x):
    return x[0], x


def repeated(x):
    return (x * 2)[:1].broadcast_to((2, 3)), None


SEEN = [held, held_without_history, held_as_another_view, held_as_two_views, held_as_an_array,
        held_by_numpy, held_as_two_chunks, held_in_a_container, held_by_a_closure,
        held_under_the_same_shape, a_view_of_a_leaf, a_part_of_a_leaf, repeated]  # fmt: skip
WORDS = r"\[setitem\] expected a tensor with its own memory, got a view"


@pytest.mark.parametrize("make", SEEN, ids=lambda f: f.__name__)
def test_what_somebody_else_sees_is_refused(make):
    """The change would not reach it."""
    y, _kept = make(leaf(2, 3))
    before = y.numpy().copy()
    with pytest.raises(ValueError, match=WORDS):
        y.div_(2.0)
    assert (y.numpy() == before).all()


@pytest.mark.parametrize("make", [held, held_as_another_view, held_as_two_views, a_part_of_a_leaf])
def test_refused_when_compiled_too(make):
    def step(x):
        y, kept = make(x)
        y.div_(2.0)
        return y, kept

    with pytest.raises(ValueError, match=WORDS):
        ndl.jit(step)(leaf(2, 3))


def test_once_nobody_holds_it_any_more():
    y, kept = held(leaf(2, 3))
    with pytest.raises(ValueError, match=WORDS):
        y.div_(2.0)
    expected = kept.numpy().reshape(-1) / 2
    del kept
    np.testing.assert_array_equal(y.div_(2.0).numpy(), expected)
