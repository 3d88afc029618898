"""Gradients compared with differences, and faults found where they arise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.anomaly import detect_anomaly as engine_anomaly
from .reverse import grad, listed


class detect_anomaly:
    """Within this context, a NaN in a backward pass is an error that names the operator."""

    def __init__(self, check_nan: bool = True):
        self.inner: Any = engine_anomaly() if check_nan else None

    def __enter__(self) -> None:
        if self.inner is not None:
            self.inner.__enter__()

    def __exit__(self, *exception: Any) -> None:
        if self.inner is not None:
            self.inner.__exit__(*exception)


class set_detect_anomaly:
    """The same from now on, or as a context."""

    current: Any = None

    def __init__(self, mode: bool, check_nan: bool = True):
        self.stop()
        if mode:
            type(self).current = detect_anomaly(check_nan)
            self.current.__enter__()

    def stop(self) -> None:
        """Look no longer."""
        if self.current is not None:
            self.current.__exit__(None, None, None)
            type(self).current = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _numeric(function: Callable[..., Any], inputs: list[Any], x: Any, eps: float) -> Any:
    """The derivatives of all results by all elements of x, by differences."""
    array = x.detach().numpy()
    rows = []
    for i in np.ndindex(array.shape):
        old = array[i]
        ends = []
        for step in (eps, -eps):
            array[i] = old + step
            ends.append([y.detach().numpy().copy() for y in listed(function(*inputs))])
        array[i] = old
        rows.append(
            np.concatenate([((a - b) / (2 * eps)).reshape(-1) for a, b in zip(*ends, strict=True)])
        )
    return np.stack(rows) if rows else np.zeros((0, 0))


def _analytic(outputs: list[Any], x: Any) -> Any:
    columns = []
    for y in outputs:
        for i in range(y.numel()):
            seed = y.detach().new_zeros(y.numel())
            seed[i] = 1
            (g,) = grad([y], [x], [seed.reshape(tuple(y.shape))], True, allow_unused=True)
            columns.append(np.zeros(x.numel()) if g is None else g.numpy().reshape(-1).copy())
    return np.stack(columns, 1) if columns else np.zeros((x.numel(), 0))


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, raise_exception: bool = True, **rest: Any,
) -> bool:  # fmt: skip
    """Are the gradients of a function those that differences give?"""
    given = listed(inputs)
    outputs = [y for y in listed(func(*given)) if y.requires_grad]
    for which, x in enumerate(given):
        if not getattr(x, "requires_grad", False):
            continue
        expected = _numeric(
            lambda *a: [y for y in listed(func(*a)) if y.is_floating_point()], given, x, eps
        )
        found = _analytic(outputs, x)
        if found.shape != expected.shape or not np.allclose(found, expected, rtol, atol):
            if not raise_exception:
                return False
            raise RuntimeError(
                f"Jacobian mismatch for input {which}:\nnumerical:{expected}\nanalytical:{found}"
            )
    return True


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, **rest: Any
) -> bool:
    """The same of the gradients."""
    given = listed(inputs)
    wanted = [x for x in given if getattr(x, "requires_grad", False)]

    def derivative(*args: Any) -> Any:
        outputs = [y for y in listed(func(*args)) if y.requires_grad]
        seeds = (
            [y.detach() * 0 + 1 for y in outputs] if grad_outputs is None else listed(grad_outputs)
        )
        return grad(outputs, wanted, seeds, create_graph=True, allow_unused=True)

    return gradcheck(derivative, given, **rest)
