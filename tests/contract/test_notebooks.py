"""What only the course's notebooks do."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import needle as ndl
from needle import nn


def gan_parts() -> tuple[np.ndarray, nn.Module, nn.Module]:
    """A line of points (float64, as NumPy makes them), a linear generator, a discriminator."""
    data = np.random.normal(0, 1, (640, 2)) @ np.array([[1, 2], [-0.2, 0.5]]) + np.array([2, 1])
    generator = nn.Sequential(nn.Linear(2, 2))
    discriminator = nn.Sequential(
        nn.Linear(2, 20), nn.ReLU(), nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 2)
    )
    return data, generator, discriminator


def test_gan_loop_with_integer_labels_and_no_reset_of_gradients() -> None:
    data, generator, discriminator = gan_parts()
    opt_g = ndl.optim.Adam(generator.parameters(), lr=0.01)
    opt_d = ndl.optim.Adam(discriminator.parameters(), lr=0.01)
    loss_fn, batch = nn.SoftmaxLoss(), 32
    start = generator(ndl.zeros(1, 2)).numpy()[0]
    counts = []
    for i in range(100):
        X = ndl.Tensor(data[(i * batch) % 640 :][:batch])
        Z = ndl.Tensor(np.random.normal(0, 1, (batch, 2)))
        labels = ndl.ones(batch, dtype="int32")
        fake = generator(Z)
        loss_fn(discriminator(fake), labels).backward()
        opt_g.step()
        fake = generator(Z).detach()
        assert fake.op is None and not fake.requires_grad
        real = loss_fn(discriminator(X), labels)
        forged = loss_fn(discriminator(fake), ndl.zeros(batch, dtype="int32"))
        before = [p.numpy() for p in generator.parameters()]
        (real + forged).backward()
        opt_d.step()
        for p, value in zip(generator.parameters(), before, strict=True):
            np.testing.assert_array_equal(p.numpy(), value)
        if i in (20, 99):
            gc.collect()
            counts.append(ndl.autograd.TENSOR_COUNTER)
    assert counts[0] == counts[1]
    assert {str(p.dtype) for p in generator.parameters()} == {"float32"}
    made = generator(ndl.Tensor(np.random.normal(0, 1, (500, 2)))).numpy()
    assert np.isfinite(made).all()
    assert np.abs(made.mean(axis=0) - start).max() > 0.1


@pytest.mark.parametrize("optimizer", [ndl.optim.SGD, ndl.optim.Adam])
def test_float64_data_and_gradients_leave_parameters_float32(optimizer) -> None:
    layer = nn.Linear(3, 2)
    opt = optimizer(layer.parameters(), lr=0.1, weight_decay=0.01)
    x = ndl.Tensor(np.random.randn(4, 3), dtype="float64")
    layer(x).sum().backward()
    opt.step()
    assert {str(p.dtype) for p in layer.parameters()} == {"float32"}
    assert all(np.isfinite(p.numpy()).all() for p in layer.parameters())


def test_graph_as_lecture_5_looks_at_it() -> None:
    v1 = ndl.Tensor([0], dtype="float32")
    v2 = ndl.exp(v1)
    v3 = v2 + 1
    v4 = v2 * v3
    assert isinstance(v4, ndl.autograd.Value)
    assert v4.inputs[0] is v2 and v4.inputs[1] is v3
    assert v3.op.__dict__ == {"scalar": 1}
    assert repr(v1) == "needle.Tensor([0.])"
    out_grad = ndl.Tensor([1.0])
    first, second = v4.op.gradient_as_tuple(out_grad, v4)
    assert list(first.inputs) == [out_grad, v3] and list(second.inputs) == [out_grad, v2]


def test_lazy_mode_computes_nothing_until_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndl.autograd, "LAZY_MODE", True)
    x = ndl.Tensor([1.0, 2.0]) * 3
    assert x.cached_data is None
    np.testing.assert_array_equal(x.numpy(), [3.0, 6.0])
    assert x.cached_data is not None


@pytest.mark.parametrize("kernel, stride", [(1, 1), (5, 2), (7, 4), (3, 1)])
def test_convolution_modules_of_the_notebook(kernel: int, stride: int) -> None:
    layer = nn.Conv(4, 8, kernel, stride=stride, bias=False)
    assert layer.bias is None and len(layer.parameters()) == 1
    y = layer(ndl.randn(2, 4, 16, 16))
    assert y.shape == (2, 8, -(-16 // stride), -(-16 // stride))


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM])
def test_three_recurrent_layers(kind: type[nn.Module]) -> None:
    y, _ = kind(5, 6, num_layers=3)(ndl.randn(4, 2, 5))
    assert y.shape == (4, 2, 6)


def test_transformer_on_a_batch_of_8_with_11_steps() -> None:
    model = nn.Transformer(16, 20, 2, num_head=4, dim_head=8, batch_first=True)
    y, _ = model(ndl.randn(8, 11, 16))
    assert y.shape == (8, 11, 16)
