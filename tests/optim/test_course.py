"""The course's SGD and Adam, and what it asks of every optimizer."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import needle as ndl
from needle import Tensor, autograd, optim

from .problem import (
    TOLERANCE,
    assert_all_close,
    gradients,
    parameters,
    run,
    set_gradients,
    start,
)

OPTIMIZERS = [
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.Adagrad,
    optim.Adadelta,
    optim.RMSprop,
    optim.Adafactor,
    optim.Lion,
    optim.Muon,
]
every_optimizer = pytest.mark.parametrize("kind", OPTIMIZERS)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("momentum, decay", [(0.0, 0.0), (0.9, 0.0), (0.9, 0.1), (0.0, 0.1)])
def test_sgd_is_the_courses(momentum: float, decay: float, dtype: str) -> None:
    values = start(dtype=dtype)
    steps = list(gradients(50, dtype=dtype))
    sgd = optim.SGD(parameters(values), 0.1, momentum, decay)
    expected = [value.copy() for value in values]
    averages = [np.zeros_like(value) for value in values]
    for grads in steps:
        for i, grad in enumerate(grads):
            g = grad + decay * expected[i]
            averages[i] = momentum * averages[i] + (1 - momentum) * g
            expected[i] = expected[i] - 0.1 * averages[i]
    expected = [np.asarray(value, dtype) for value in expected]
    assert_all_close(run(sgd, steps), expected, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_is_the_courses(decay: float, dtype: str) -> None:
    values = start(dtype=dtype)
    steps = list(gradients(50, dtype=dtype))
    adam = optim.Adam(parameters(values), 0.02, 0.8, 0.95, 1e-6, decay)
    expected = [value.copy() for value in values]
    m, v = ([np.zeros_like(value) for value in values] for _ in range(2))
    for t, grads in enumerate(steps, start=1):
        for i, grad in enumerate(grads):
            g = grad + decay * expected[i]
            m[i] = 0.8 * m[i] + (1 - 0.8) * g
            v[i] = 0.95 * v[i] + (1 - 0.95) * g * g
            m_hat, v_hat = m[i] / (1 - 0.8**t), v[i] / (1 - 0.95**t)
            expected[i] = expected[i] - 0.02 * m_hat / (np.sqrt(v_hat) + 1e-6)
    expected = [np.asarray(value, dtype) for value in expected]
    assert_all_close(run(adam, steps), expected, **TOLERANCE[dtype])


def test_course_defaults() -> None:
    adam = optim.Adam(parameters(start())).groups[0]
    assert [adam[k] for k in ("lr", "beta1", "beta2", "eps", "weight_decay")] == [
        0.01,
        0.9,
        0.999,
        1e-8,
        0.0,
    ]
    sgd = optim.SGD(parameters(start())).groups[0]
    assert [sgd[k] for k in ("lr", "momentum", "weight_decay")] == [0.01, 0.0, 0.0]


@every_optimizer
def test_parameters_without_a_gradient_are_skipped(kind: type[optim.Optimizer]) -> None:
    values = start()
    params = parameters(values)
    optimizer = kind(params)
    skipping = [[g if i % 2 else None for i, g in enumerate(gs)] for gs in gradients(3)]
    after = run(optimizer, skipping)
    for i, (value, new) in enumerate(zip(values, after, strict=True)):
        assert np.array_equal(value, new) == (i % 2 == 0)


@every_optimizer
def test_a_parameter_that_starts_late_moves_as_if_it_started_alone(
    kind: type[optim.Optimizer],
) -> None:
    values = start()
    steps = list(gradients(8))
    both = kind(parameters(values))
    run(both, [[*gs[:1], *[None] * 4] for gs in steps[:3]])
    together = run(both, steps[3:])
    alone = run(kind(parameters(values[1:])), [gs[1:] for gs in steps[3:]])
    for a, e in zip(together[1:], alone, strict=True):
        np.testing.assert_array_equal(a, e)
    first = run(kind(parameters(values[:1])), [gs[:1] for gs in steps])
    np.testing.assert_array_equal(together[0], first[0])


@every_optimizer
def test_gradients_are_not_changed(kind: type[optim.Optimizer]) -> None:
    params = parameters(start())
    optimizer = kind(params, weight_decay=0.1)
    (grads,) = gradients(1)
    set_gradients(params, grads)
    held = [p.grad for p in params]
    optimizer.step()
    for tensor, p, g in zip(held, params, grads, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), g)
        np.testing.assert_array_equal(p.grad.numpy(), g)


@every_optimizer
def test_updates_keep_the_dtype(kind: type[optim.Optimizer]) -> None:
    """A np.float64 rate and float64 gradients must not widen float32 parameters."""
    params = parameters(start(dtype="float32"))
    optimizer = kind(params, lr=np.sqrt(np.float64(0.01)), weight_decay=np.float64(0.1))
    after = run(optimizer, list(gradients(3, dtype="float64")))
    assert {value.dtype for value in after} == {np.dtype("float32")}
    assert all(np.isfinite(value).all() for value in after)


@every_optimizer
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_dtypes_move(kind: type[optim.Optimizer], dtype: str) -> None:
    params = [Tensor(value, dtype=dtype) for value in start()]
    before = [p.numpy().astype("float64") for p in params]
    # Adadelta begins with steps of √(eps / (1 - ρ)), a three hundredth.
    optimizer = kind(params, lr=30 if kind is optim.Adadelta else 0.1)
    for grads in gradients(2):
        set_gradients(params, grads)
        optimizer.step()
    for p, old in zip(params, before, strict=True):
        assert p.dtype == dtype
        new = p.numpy().astype("float64")
        assert np.isfinite(new).all() and not np.array_equal(old, new)


@pytest.mark.parametrize("kind", [kind for kind in OPTIMIZERS if kind.elementwise])
@pytest.mark.parametrize("decay", [0.0, 0.013])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_dtypes_round_once(kind: type[optim.Optimizer], decay: float, dtype: str) -> None:
    """The first step is float32's, rounded; with a gradient of 0 too, where eps alone divides."""
    value = np.array([1.5, -2.25, 0.75, 3.0, -0.5])
    gradient = np.array([0.5, -3.0, 0.0, 0.125, 2.0])
    found = []
    for used in ("float32", dtype):
        p = Tensor(value, dtype=used)
        p.grad = Tensor(gradient, dtype=used)
        kind([p], lr=0.0137, weight_decay=decay).step()
        found.append(p.data.astype(dtype).numpy())
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", [kind for kind in OPTIMIZERS if kind.elementwise])
def test_wide_gradients_of_small_dtypes(kind: type[optim.Optimizer]) -> None:
    """A float32 gradient steps a half as the same gradient in halves does."""
    found = []
    for dtype in ("float16", "float32"):
        p = Tensor(np.array([1.5, -2.25, 0.75]), dtype="float16")
        p.grad = Tensor(np.array([0.5, 0.0, -2.0]), dtype=dtype)
        kind([p], lr=0.0137).step()
        found.append(p.numpy())
    np.testing.assert_array_equal(*found)


@every_optimizer
def test_step_cuts_the_history_of_gradients(kind: type[optim.Optimizer]) -> None:
    w = Tensor(np.ones((3, 2)))
    optimizer = kind([w])
    (w * w * w).sum().backward()
    assert w.grad.requires_grad
    optimizer.step()
    assert w.grad.is_leaf() and not w.grad.requires_grad
    assert w.is_leaf() and w.requires_grad


@every_optimizer
def test_memory_is_flat(kind: type[optim.Optimizer]) -> None:
    w, b = Tensor(np.ones((3, 2))), Tensor(np.ones(2))
    x = Tensor(np.ones((4, 3)), requires_grad=False)
    optimizer = kind([w, b])

    def train(steps: int) -> int:
        for _ in range(steps):
            optimizer.reset_grad()
            y = (x @ w + b).tanh()
            (y * y).sum().backward()
            optimizer.step()
        del y
        gc.collect()
        return autograd.TENSOR_COUNTER

    assert train(3) == train(20)


def test_reset_grad_forgets_gradients() -> None:
    params = parameters(start())
    optimizer = optim.SGD(params)
    for reset in (optimizer.reset_grad, optimizer.zero_grad):
        set_gradients(params, next(gradients(1)))
        reset()
        assert all(p.grad is None for p in params)
        optimizer.step()


def test_closure_runs_with_gradients_and_its_loss_is_returned() -> None:
    w = Tensor([1.0, 2.0])
    optimizer = optim.SGD([w], lr=0.5)

    def closure() -> Tensor:
        optimizer.reset_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with ndl.no_grad():
        assert float(optimizer.step(closure)) == 5.0
    np.testing.assert_array_equal(w.numpy(), [0.0, 0.0])


def test_clip_grad_norm_of_the_course() -> None:
    params = parameters(start())
    optimizer = optim.SGD(params)
    (grads,) = gradients(1)
    set_gradients(params, grads)
    norm = np.sqrt(sum((g**2).sum() for g in grads))
    np.testing.assert_allclose(float(optimizer.clip_grad_norm()), norm, rtol=1e-12)
    for p, g in zip(params, grads, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), g * min(1, 0.25 / (norm + 1e-6)), rtol=1e-12)


@every_optimizer
def test_lazy_mode_gives_the_same(
    kind: type[optim.Optimizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = list(gradients(5))
    eager = run(kind(parameters(start())), steps)
    monkeypatch.setattr(autograd, "LAZY_MODE", True)
    for a, e in zip(run(kind(parameters(start())), steps), eager, strict=True):
        np.testing.assert_array_equal(a, e)


NUMPY_TENSORS = """
import numpy as np, needle as ndl
for kind in (ndl.optim.SGD, ndl.optim.Adam):
    for dtype in ("float32", "float64"):
        w = ndl.Tensor(np.ones((3, 2)), dtype=dtype)
        b = ndl.Tensor(np.ones(2), dtype=dtype)
        optimizer = kind([w, b], lr=np.float64(0.1), weight_decay=0.01)
        first = None
        for _ in range(30):
            optimizer.reset_grad()
            loss = ((w + b) * (w + b)).sum()
            first = first or float(loss.numpy())
            loss.backward()
            optimizer.step()
        assert type(w.cached_data) is np.ndarray and w.cached_data.dtype == dtype
        assert w.shape == (3, 2) and float(loss.numpy()) < 0.2 * first, (kind, dtype, loss)
"""


def test_with_numpys_arrays_as_tensors() -> None:
    """NEEDLE_BACKEND=np, the mode of the course's early homework."""
    program = "import needle.optim\n" + NUMPY_TENSORS
    environment = {**os.environ, "NEEDLE_BACKEND": "np"}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
