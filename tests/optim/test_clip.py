"""Gradient clipping against PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from needle import Tensor, nn, optim

from .problem import TOLERANCE, gradients, parameters, set_gradients, start


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("norm_type", [2.0, 1, 3.5, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_clip_grad_norm_is_pytorchs(max_norm: float, norm_type: float, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    for grads in gradients(3, dtype=dtype):
        ours = parameters(start(dtype=dtype))
        set_gradients(ours, grads)
        theirs = [torch.zeros(p.shape, dtype=getattr(torch, dtype)) for p in ours]
        for p, g in zip(theirs, grads, strict=True):
            p.grad = torch.tensor(g)
        norm = optim.clip_grad_norm_(ours, max_norm, norm_type)
        expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
        assert norm.shape == ()
        np.testing.assert_allclose(norm.numpy(), expected.numpy(), **TOLERANCE[dtype])
        for a, e in zip(ours, theirs, strict=True):
            assert a.grad.dtype == dtype
            np.testing.assert_allclose(a.grad.numpy(), e.grad.numpy(), **TOLERANCE[dtype])


def test_clip_grad_value_clips_every_element() -> None:
    params = parameters(start())
    (grads,) = gradients(1)
    set_gradients(params, [*grads[:-1], None])
    held = params[0].grad
    optim.clip_grad_value_(params, 0.1)
    for p, g in zip(params[:-1], grads, strict=False):
        np.testing.assert_array_equal(p.grad.numpy(), g.clip(-0.1, 0.1))
    assert params[-1].grad is None
    np.testing.assert_array_equal(held.numpy(), grads[0])


def test_one_tensor_mixed_dtypes_and_nothing_to_clip() -> None:
    a, b = Tensor(np.zeros(2), dtype="float32"), Tensor(np.zeros(2), dtype="float64")
    assert float(optim.clip_grad_norm_([a, b], 1.0)) == 0.0
    a.grad, b.grad = Tensor([3.0, 0.0]), Tensor([0.0, 4.0], dtype="float64")
    assert float(optim.clip_grad_norm_(iter([a, b]), 1.0)) == 5.0
    assert (a.grad.dtype, b.grad.dtype) == ("float32", "float64")
    np.testing.assert_allclose(a.grad.numpy(), [0.6, 0.0], rtol=1e-6)
    assert float(optim.clip_grad_norm_(b, 0.4)) == pytest.approx(0.8, rel=1e-6)


def test_a_norm_that_is_not_finite_is_an_error_on_request() -> None:
    w = Tensor(np.zeros(2))
    w.grad = Tensor([math.inf, 1.0])
    assert float(optim.clip_grad_norm_(w, 1.0)) == math.inf
    w.grad = Tensor([math.inf, 1.0])
    with pytest.raises(ValueError, match="the norm of the gradients is inf"):
        optim.clip_grad_norm_(w, 1.0, error_if_nonfinite=True)
    with pytest.raises(ValueError, match="norm_type must be above 0"):
        optim.clip_grad_norm_(w, 1.0, norm_type=0)


def test_the_names_in_nn_utils_are_the_same_functions() -> None:
    assert nn.utils.clip_grad_norm_ is optim.clip_grad_norm_
    assert nn.utils.clip_grad_value_ is optim.clip_grad_value_


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_norm_of_halves_has_room_for_squares(dtype: str) -> None:
    w = Tensor(np.zeros(2), dtype=dtype)
    w.grad = Tensor([300.0, 400.0], dtype=dtype)
    assert float(optim.clip_grad_norm_(w, 1.0)) == 500.0
    assert w.grad.dtype == dtype
    np.testing.assert_allclose(w.grad.astype("float32").numpy(), [0.6, 0.8], rtol=1e-2)


def test_a_large_norm_leaves_something_of_halves() -> None:
    """1 / ‖g‖ is less than the smallest float16 here."""
    p = Tensor(np.zeros(1 << 16), dtype="float16")
    p.grad = Tensor(np.full(1 << 16, 6e4), dtype="float16")
    optim.clip_grad_norm_([p], 1.0)
    assert p.grad.dtype == "float16"
    np.testing.assert_allclose(p.grad.numpy(), 1 / 256, rtol=1e-3)
