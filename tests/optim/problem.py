"""Seeded gradients for several parameters, the same for Needle, PyTorch and NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from needle import Tensor

SHAPES = ((5, 3), (3, 7), (4,), (), (2, 3, 4))
TOLERANCE = {"float64": {"rtol": 1e-10, "atol": 1e-12}, "float32": {"rtol": 2e-5, "atol": 2e-6}}


def start(shapes: Sequence[tuple[int, ...]] = SHAPES, dtype: str = "float64") -> list[np.ndarray]:
    """First values of the parameters."""
    rng = np.random.default_rng(3)
    return [np.asarray(rng.standard_normal(shape), dtype) for shape in shapes]


def gradients(
    steps: int, shapes: Sequence[tuple[int, ...]] = SHAPES, dtype: str = "float64"
) -> Iterator[list[np.ndarray]]:
    """One gradient for each parameter, step by step; scales differ between steps."""
    rng = np.random.default_rng(7)
    for _ in range(steps):
        scale = 10.0 ** rng.uniform(-2, 1)
        yield [np.asarray(scale * rng.standard_normal(shape), dtype) for shape in shapes]


def parameters(values: Sequence[np.ndarray]) -> list[Tensor]:
    """Needle's parameters with these values and their dtypes."""
    return [Tensor(value, dtype=str(value.dtype)) for value in values]


def set_gradients(params: Sequence[Tensor], grads: Sequence[np.ndarray | None]) -> None:
    """Give each parameter its gradient (None: none)."""
    for p, g in zip(params, grads, strict=True):
        p.grad = None if g is None else Tensor(g, dtype=str(g.dtype))


def run(optimizer: Any, steps: Sequence[list[np.ndarray | None]]) -> list[np.ndarray]:
    """Feed gradients to an optimizer; the parameters' values afterwards."""
    for grads in steps:
        set_gradients(optimizer.params, grads)
        optimizer.step()
    return [p.numpy() for p in optimizer.params]


def run_torch(
    make: Any, values: Sequence[np.ndarray], steps: Sequence[list[np.ndarray | None]]
) -> list[np.ndarray]:
    """The same with an optimizer of PyTorch, made from its parameters by `make`."""
    import torch

    params = [torch.nn.Parameter(torch.tensor(value)) for value in values]
    optimizer = make(params)
    for grads in steps:
        for p, g in zip(params, grads, strict=True):
            p.grad = None if g is None else torch.tensor(g)
        optimizer.step()
    return [p.detach().numpy() for p in params]


def assert_all_close(
    actual: Sequence[np.ndarray], expected: Sequence[np.ndarray], **tolerance: float
) -> None:
    """Equal dtypes and shapes, close values."""
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        np.testing.assert_allclose(a, e, **tolerance)
