"""NumPy's functions called with our arrays: they get NumPy arrays, and return NumPy arrays.

Without this, `np.sum(x)` would call x.sum with arguments that only NumPy's arrays take, and the
type of a result would depend on whether NumPy tries a method of x first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np


def call_numpy(
    kind: type,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    lists: tuple[type[Iterable[Any]], ...] = (list, tuple),
) -> Any:
    """function(*args, **kwargs) with NumPy arrays in place of all objects of type `kind`.

    The arrays share memory and cannot be written: NumPy's writes would go unnoticed."""
    found = False

    def plain(x: Any) -> Any:
        nonlocal found
        if isinstance(x, kind):
            found = True
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
    return function(*values, **named)
