"""NumPy's functions called with our arrays: they get NumPy arrays, and return NumPy arrays.

Without this, `np.sum(x)` would call x.sum with arguments that only NumPy's arrays take, and the
type of a result would depend on whether NumPy tries a method of x first.

A tensor that requires a gradient is refused where numbers would be computed from it: they have no
graph, and no gradient would reach the tensor. What has no gradient anyway (shapes, positions,
comparisons) and what copies by name (`np.array(x)`, `np.copy(x)`) is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

# Their floating results hold no number that was computed from elements.
WITHOUT_ARITHMETIC = (np.copy, np.empty_like, np.zeros_like, np.ones_like, np.full_like)


def is_floating(result: object) -> bool:
    """Does a result, or one of several, hold floating-point numbers?"""
    if isinstance(result, (tuple, list)):
        return any(is_floating(x) for x in result)
    return isinstance(result, (np.ndarray, np.generic)) and result.dtype.kind in "fc"


def check_graph(name: str, recorded: bool, result: object) -> None:
    """Refuse a result of NumPy's for which an operand's graph would be lost."""
    if recorded and is_floating(result):
        raise ValueError(  # NumPy takes a TypeError of __array_wrap__ for a wrong signature
            f"[{name}] NumPy's result has no graph, but a tensor given to it requires a gradient; "
            "use needle's operators, or give x.detach() where no gradient is wanted."
        )


def call_numpy(
    kind: type,
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    lists: tuple[type[Iterable[object]], ...] = (list, tuple),
    is_recorded: Callable[[object], bool] = lambda x: False,
) -> Any:
    """function(*args, **kwargs) with NumPy arrays in place of all objects of type `kind`.

    The arrays share memory and cannot be written: NumPy's writes would go unnoticed. If a gradient
    is recorded for one of the objects, results that lose it are refused."""
    found = recorded = False

    def plain(x: object) -> object:
        nonlocal found, recorded
        if isinstance(x, kind):
            found = True
            recorded = recorded or is_recorded(x)
            array = np.asarray(x).view()
            array.flags.writeable = False
            return array
        if isinstance(x, lists):
            items = [plain(item) for item in x]
            return tuple(items) if isinstance(x, tuple) else items
        return x

    values, named = [plain(x) for x in args], {name: plain(x) for name, x in kwargs.items()}
    if not found:
        raise TypeError(
            f"[{function.__name__}] expected {kind.__name__}s alone or in lists and tuples, got "
            f"{', '.join(type(x).__name__ for x in args)}; convert them with np.asarray."
        )
    recorded = recorded and function not in WITHOUT_ARITHMETIC
    check_graph(function.__name__, recorded, named.get("out"))  # before it is written
    result = function(*values, **named)
    check_graph(function.__name__, recorded, result)
    return result
