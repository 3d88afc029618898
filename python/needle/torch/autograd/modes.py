"""`no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`: contexts and decorators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.grad_mode import GradMode, is_grad_enabled as is_grad_enabled, set_grad_enabled


class no_grad(GradMode):
    """Record nothing."""

    def __init__(self) -> None:
        super().__init__(False)

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        if callable(function):
            return GradMode(False)(function)
        return super().__new__(cls)


class enable_grad(GradMode):
    """Record again, within `no_grad`."""

    def __init__(self) -> None:
        super().__init__(True)

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        if callable(function):
            return GradMode(True)(function)
        return super().__new__(cls)


class inference_mode(GradMode):
    """Record nothing, unless mode is False."""

    def __init__(self, mode: bool = True):
        super().__init__(not mode)

    def __new__(cls, mode: Any = True) -> Any:
        if callable(mode):
            return GradMode(False)(mode)
        return super().__new__(cls)


__all__ = ["enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]
