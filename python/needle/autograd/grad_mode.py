"""Whether operators record what they do: `no_grad`, `enable_grad`, `set_grad_enabled`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

from .. import _native

__all__ = ["is_grad_enabled", "set_grad_enabled", "no_grad", "inference_mode", "enable_grad"]

is_grad_enabled = _native.is_grad_enabled


class GradMode(ContextDecorator):
    """Within this context (or decorated function) operators record what they do, or do not.

    The mode belongs to the thread. One object may be entered many times, also recursively.
    """

    def __init__(self, enabled: bool):
        self._enabled = bool(enabled)
        self._before: list[bool] = []

    def _recreate_cm(self) -> GradMode:
        """A new one for every call of a decorated function: threads share the decorator."""
        return GradMode(self._enabled)

    def __enter__(self) -> None:
        self._before.append(_native.set_grad_enabled(self._enabled))

    def __exit__(self, *exception: object) -> None:
        _native.set_grad_enabled(self._before.pop())

    def __call__(self, function: Callable[..., Any]) -> Any:
        if inspect.isgeneratorfunction(function):
            return self._around_steps(function)
        return super().__call__(function)

    def _around_steps(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A generator's body runs when it is asked for the next value, not when it is called."""

        @functools.wraps(function)
        def generate(*args: Any, **kwargs: Any) -> Any:
            steps, sent = function(*args, **kwargs), None
            try:
                while True:
                    with self._recreate_cm():
                        value = steps.send(sent)
                    sent = yield value
            except StopIteration as stop:
                return stop.value
            finally:
                with self._recreate_cm():
                    steps.close()

        return generate


class set_grad_enabled(GradMode):
    """Record what operators do, or do not: from now on in this thread, in a `with` block until it
    ends, above a function while that runs."""

    def __init__(self, enabled: bool):
        super().__init__(enabled)
        self._at_first = [_native.set_grad_enabled(self._enabled)]  # until it is a context

    def __enter__(self) -> None:
        super().__enter__()
        if self._at_first:
            self._before[-1] = self._at_first.pop()

    def __call__(self, function: Callable[..., Any]) -> Any:
        if self._at_first:
            _native.set_grad_enabled(self._at_first.pop())
        return super().__call__(function)


def no_grad(function: Callable[..., object] | None = None) -> Any:
    """Record nothing: `with no_grad():`, or `@no_grad` above a function."""
    mode = GradMode(False)
    return mode if function is None else mode(function)


inference_mode = no_grad  # the name in PyTorch, where it saves more


def enable_grad(function: Callable[..., object] | None = None) -> Any:
    """Record again, inside `no_grad`: `with enable_grad():`, or `@enable_grad` above a function."""
    mode = GradMode(True)
    return mode if function is None else mode(function)
