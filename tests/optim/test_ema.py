"""Averaged weights."""

from __future__ import annotations

import numpy as np
import pytest

from needle import Tensor
from needle.optim import SGD, ExponentialMovingAverage

from .problem import TOLERANCE, gradients, parameters, set_gradients, start


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("warmup", [False, True])
def test_update_is_the_formula(dtype: str, warmup: bool) -> None:
    params = parameters(start(dtype=dtype))
    optimizer = SGD(params, lr=0.1)
    ema = ExponentialMovingAverage(params, 0.9, warmup)
    expected = [p.numpy() for p in params]
    for n, grads in enumerate(gradients(20, dtype=dtype), start=1):
        set_gradients(params, grads)
        optimizer.step()
        ema.update()
        decay = min(0.9, (1 + n) / (10 + n)) if warmup else 0.9
        expected = [
            decay * average + (1 - decay) * p.numpy()
            for average, p in zip(expected, params, strict=True)
        ]
    for average, e in zip(ema.averages, expected, strict=True):
        assert average.dtype == dtype
        np.testing.assert_allclose(average.numpy(), e, **TOLERANCE[dtype])


def test_apply_swaps_in_and_out() -> None:
    w = Tensor([1.0, 2.0])
    ema = ExponentialMovingAverage([w], 0.5)
    w.data = Tensor([3.0, 4.0])
    ema.update()
    with ema.apply():
        np.testing.assert_array_equal(w.numpy(), [2.0, 3.0])
    np.testing.assert_array_equal(w.numpy(), [3.0, 4.0])
    with pytest.raises(RuntimeError, match="stop"), ema.apply():
        raise RuntimeError("stop")
    np.testing.assert_array_equal(w.numpy(), [3.0, 4.0])
    other = Tensor([0.0, 0.0])
    ema.copy_to([other])
    ema.copy_to()
    for p in (w, other):
        np.testing.assert_array_equal(p.numpy(), [2.0, 3.0])
    ema.update()
    np.testing.assert_array_equal(ema.averages[0].numpy(), [2.0, 3.0])
    assert w.requires_grad


def test_a_module_is_averaged_by_its_parameters() -> None:
    class Module:
        def __init__(self) -> None:
            self.weight = Tensor([1.0])

        def parameters(self) -> list[Tensor]:
            return [self.weight]

    module = Module()
    ema = ExponentialMovingAverage(module, 0.75)
    module.weight.data = Tensor([5.0])
    ema.update()
    ema.copy_to(module)
    assert module.weight.item() == 2.0


def test_a_loaded_average_continues() -> None:
    params = parameters(start())
    first = ExponentialMovingAverage(params, 0.9, warmup=True)
    for p in params:
        p.data = p * 2.0
    first.update()
    saved = first.state_dict()
    second = ExponentialMovingAverage(params, 0.5, warmup=True)
    second.load_state_dict(saved)
    for ema in (first, second):
        ema.update()
    assert saved["updates"] == 1 and second.state_dict()["updates"] == 2
    assert saved["decay"] == second.state_dict()["decay"] == 0.9
    for a, b in zip(first.averages, second.averages, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_mistakes_are_explained() -> None:
    with pytest.raises(ValueError, match=r"decay must be in \[0, 1\], got 1.5"):
        ExponentialMovingAverage([Tensor([1.0])], 1.5)
    with pytest.raises(ValueError, match="expected parameters, got none"):
        ExponentialMovingAverage([])
    ema = ExponentialMovingAverage([Tensor([1.0])])
    with pytest.raises(ValueError, match="of the shapes that were averaged"):
        ema.copy_to([Tensor([1.0, 2.0])])
    other = ExponentialMovingAverage([Tensor([1.0, 2.0])])
    with pytest.raises(ValueError, match="expected averages of shapes"):
        other.load_state_dict(ema.state_dict())
