"""Compiled objects, such as models: called through programs, and else still the object.

A compiled model can stand wherever the model can: in another module, an optimizer, `isinstance`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType, partial, type)


class LikeItsObject:
    """What Python looks up in a class rather than in an object, passed on to `_function`."""

    _function: Any

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """For isinstance; type(self) is still the compiled object's."""
        kind: type = self._function.__class__
        return kind

    def __setattr__(self, name: str, value: object) -> None:
        is_own = name.startswith("_") or hasattr(type(self), name)
        if is_own:
            object.__setattr__(self, name, value)
        else:
            setattr(self._function, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._function, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *dir(self._function)})

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Only functions become methods."""
        return self

    def __bool__(self) -> bool:
        return bool(self._function)

    def __len__(self) -> int:
        return len(self._function)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._function)

    def __contains__(self, item: object) -> bool:
        return item in self._function

    def __getitem__(self, index: Any) -> Any:
        return self._function[index]
