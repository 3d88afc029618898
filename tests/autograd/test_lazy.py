"""Lazy mode: shapes without computing, computing only what is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import autograd
from needle.backend import cpu_numpy
from needle.testing import assert_close

from .helpers import leaf, plain

pytestmark = pytest.mark.usefixtures("lazy")


class Counted(ndl.TensorOp):
    """y = 2x, counting how often it is computed with real data"""

    def __init__(self) -> None:
        self.times = 0

    def compute(self, a: Any) -> Any:
        from needle.backend.null import is_null

        self.times += not is_null(a.device)
        return a + a

    def gradient(self, out_grad: ndl.Tensor, node: ndl.Tensor) -> Any:
        return out_grad * 2


def test_nothing_is_computed_before_data_is_needed() -> None:
    op = Counted()
    y = op(leaf([[1.0, 2.0]]))
    assert y.cached_data is None
    assert (y.shape, y.dtype, y.ndim, y.size, len(y)) == ((1, 2), "float64", 2, 2, 1)
    assert op.times == 0
    assert y.tolist() == [[2.0, 4.0]]
    assert y.numpy().sum() == 6
    assert op.times == 1


def test_only_what_is_asked_for() -> None:
    used, unused = Counted(), Counted()
    x = leaf([1.0])
    a, _ = used(x), unused(x)
    assert (a + 1).item() == 3
    assert (used.times, unused.times) == (1, 0)


def test_results_without_gradient_keep_their_operator() -> None:
    y = plain([1.0]) + 1
    assert isinstance(y.op, ndl.ops.AddScalar)
    assert not y.requires_grad


def test_device_without_computing() -> None:
    x = ndl.Tensor([1.0], device=cpu_numpy())
    y = ndl.where(x > 0, x, 0.0).exp()
    assert y.device == cpu_numpy()
    assert y.cached_data is None
    assert y.item() == pytest.approx(np.e)


def test_device_of_tuple_elements() -> None:
    x = ndl.Tensor(np.ones((2, 3)), device=cpu_numpy())
    parts = ndl.split(x, 0)
    assert len(parts) == 2
    assert parts[1].device == cpu_numpy()
    assert parts[1].shape == (3,)
    assert parts.cached_data is None


def test_device_of_moved_data() -> None:
    x = ndl.Tensor([1.0], device=cpu_numpy())
    y = x.to(ndl.cpu())
    assert y.device == ndl.cpu()
    assert y.cached_data is None
    assert y.realize_cached_data().device == ndl.cpu()


def test_mixed_devices_are_refused_before_computing() -> None:
    a, b = ndl.Tensor([1.0]), ndl.Tensor([1.0], device=cpu_numpy())
    y = a + b
    with pytest.raises(ValueError, match=r"\[add\] expected arrays on one device, got cpu"):
        _ = y.shape


def test_shapes_that_depend_on_data_are_computed() -> None:
    x = leaf([1.0, -1.0, 2.0])
    y = x[x > 0]
    assert y.shape == (2,)
    assert (y + 1).tolist() == [2.0, 3.0]


def test_wrong_shapes_are_reported_when_the_shape_is_asked_for() -> None:
    y = leaf([1.0, 2.0]) + leaf([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"\[add\]"):
        _ = y.shape


def test_backward_is_lazy_too() -> None:
    op = Counted()
    x = leaf([1.0, 2.0])
    y = (op(x) * x).sum()
    y.backward()
    assert op.times == 0
    assert x.grad.cached_data is None
    assert x.grad.shape == (2,)
    assert_close(x.grad, [4.0, 8.0])
    assert op.times == 1


def test_second_derivative() -> None:
    x = leaf([2.0])
    (x * x * x).backward()
    x.grad.backward()
    assert x.grad.item() == 12


def test_transforms() -> None:
    x = plain([1.0, 2.0])
    value, slope = ndl.value_and_grad(lambda x: (x**3).sum())(x)
    assert value.cached_data is None
    assert not slope.requires_grad
    assert_close(slope, [3.0, 12.0])
    assert value.item() == 9
    assert_close(ndl.jvp(lambda x: x * x, (x,), (x,))[1], [2.0, 8.0])
    assert_close(ndl.hessian(lambda x: (x**3).sum())(x), [[6.0, 0.0], [0.0, 12.0]])


def test_no_grad() -> None:
    x = leaf([1.0])
    with ndl.no_grad():
        y = x * 2
    assert not y.requires_grad
    with pytest.raises(ValueError, match=r"\[backward\] .*without a graph"):
        y.backward()
    assert x.grad is None


def test_deep_chain() -> None:
    x = leaf([1.0])
    y = x
    for _ in range(100_000):
        y = y + 1
    assert y.shape == (1,)
    assert y.device == x.device
    y.backward()
    assert y.item() == 100_001
    assert x.grad.item() == 1


def test_modes_may_be_mixed() -> None:
    x = leaf([1.0])
    y = x * 2
    autograd.LAZY_MODE = False
    z = y * 3
    assert z.cached_data is not None
    z.backward()
    assert x.grad.item() == 6


def test_pending_values_see_data_as_it_was() -> None:
    x = plain([1.0, 2.0])
    y = x * 10
    x[0] = 5.0
    assert y.tolist() == [10.0, 20.0]
    assert (x * 10).tolist() == [50.0, 20.0]


def test_detached_and_assigned_data() -> None:
    x = leaf([1.0])
    y = x * 2
    assert y.detach().op is None
    x.data = plain([7.0])
    assert x.item() == 7
