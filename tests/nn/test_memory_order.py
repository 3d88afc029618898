"""Where tensors lie in memory: it changes speed, never numbers, and stays as it is."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle import nn


def in_order(a, order):
    """The same elements, with the axes of memory in another order."""
    memory = np.ascontiguousarray(a.transpose(order))
    return ndl.tensor(memory).permute(tuple(np.argsort(order)))


@settings(deadline=None, max_examples=40)
@given(
    shape=st.tuples(*[st.integers(1, 9)] * 4).filter(lambda s: s[0] * s[2] * s[3] > 1),
    order=st.permutations(range(4)),
    mean=st.sampled_from([0.0, 100.0]),
    seed=st.integers(0, 99),
)
def test_batch_statistics_in_every_order(shape, order, mean, seed):
    rng = np.random.default_rng(seed)
    x, g = rng.standard_normal((2, *shape)) + mean
    axes = (0, 2, 3)
    deviation = x - x.mean(axes, keepdims=True)
    var = (deviation**2).mean(axes, keepdims=True)
    scale = 1 / np.sqrt(var + 1e-3)
    y = deviation * scale
    by_y = (g * y).mean(axes, keepdims=True)
    expected = scale * (g - g.mean(axes, keepdims=True) - y * by_y)

    t = in_order(x, order).requires_grad_(True)
    found = nn.functional.batch_norm(t, training=True, eps=1e-3, correction=0)
    found.backward(ndl.tensor(g), create_graph=False)
    np.testing.assert_allclose(found.numpy(), y, atol=1e-9)
    np.testing.assert_allclose(t.grad.numpy(), expected, atol=1e-8 * max(1.0, mean))


@pytest.mark.parametrize("mean", [0.0, 300.0])
def test_variance_of_channels_far_from_zero(mean):
    x = np.random.default_rng(0).standard_normal((64, 8, 8, 16)).astype(np.float32) + mean
    t = ndl.tensor(x.astype(np.float32)).permute((0, 3, 1, 2))
    y = nn.functional.batch_norm(t, training=True).numpy()
    exact = x.astype(np.float64).transpose(0, 3, 1, 2)
    exact = exact - exact.mean((0, 2, 3), keepdims=True)
    exact /= np.sqrt((exact**2).mean((0, 2, 3), keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, exact, atol=2e-4)


LAYERS = [
    lambda: nn.Conv2d(3, 8, 3),
    lambda: nn.Conv1d(4, 6, 5),
    lambda: nn.Conv2d(8, 8, 3, groups=8),
    lambda: nn.ConvTranspose2d(3, 5, 2),
]


@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("compiled", [False, True])
def test_filters_and_moments_lie_as_their_gradients(make, compiled):
    layer = make()
    layer.load_state_dict({k: v.clone() for k, v in layer.state_dict().items()})
    optimizer = ndl.optim.Adam(layer.parameters(), lr=0.01)
    x = ndl.randn(2, layer.in_channels, *[7] * layer.rank)

    def train(x):
        optimizer.zero_grad()
        layer(x).square().mean().backward(create_graph=False)
        optimizer.step()

    step = ndl.jit(train) if compiled else train
    for _ in range(3):
        step(x)
    weight = layer.weight
    state = optimizer.state[weight]
    for t in (weight, weight.grad, state["exp_avg"], state["exp_avg_sq"]):
        array = t.realize_cached_data()
        inner_to_outer = sorted(range(array.ndim), key=lambda i: (array.strides[i], i))
        assert inner_to_outer[0] == (0 if array.shape[0] > 1 else 1)
        assert array.strides == weight.realize_cached_data().strides
    if compiled:
        assert step.cache_info().misses == 1


def test_an_update_brings_filters_into_the_order_of_their_gradients():
    layer = nn.Conv2d(3, 8, 3)
    layer.weight.data = ndl.tensor(layer.weight.numpy())  # (O, C, K, K) in memory
    optimizer = ndl.optim.SGD(layer.parameters(), lr=0.01)
    layer(ndl.ones(1, 3, 5, 5)).sum().backward(create_graph=False)
    before, gradient = layer.weight.numpy(), layer.weight.grad.numpy()
    optimizer.step()
    array = layer.weight.realize_cached_data()
    assert array.strides == layer.weight.grad.realize_cached_data().strides
    np.testing.assert_allclose(layer.weight.numpy(), before - 0.01 * gradient, rtol=1e-6)
