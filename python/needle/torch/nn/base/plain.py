"""Layers that are a function and its options: a class lists the options as fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter as Argument, Signature
from typing import Any, ClassVar, dataclass_transform

from ....tracing import active
from .module import Module

KIND = Argument.POSITIONAL_OR_KEYWORD


class _Noting:
    """The fields of a layer as attributes, whose reads a tracer notes."""

    def __init__(self, layer: Module):
        self.layer = layer

    def __getitem__(self, name: str) -> Any:
        return getattr(self.layer, name)


@dataclass_transform()
class Plain(Module):
    """A layer whose forward is `function(*inputs, **fields)`; fields have defaults, or none."""

    _function: ClassVar[Callable[..., Any]]
    _fields: ClassVar[tuple[str, ...]] = ()
    _signature: ClassVar[Signature] = Signature()
    __constants__: ClassVar[list[str]] = []
    __annotations__: dict[str, Any]

    def __init_subclass__(cls, function: Callable[..., Any] | None = None) -> None:
        super().__init_subclass__()
        if function is None:  # a class of the user's, or another form of a layer
            return
        cls._function = staticmethod(function)
        own = [name for name in inspect.get_annotations(cls) if name[0] != "_"]
        cls._fields = (*(f for f in cls._fields if f not in own), *own)
        cls.__constants__ = list(cls._fields)
        arguments = [
            Argument(name, KIND, default=getattr(cls, name, Argument.empty)) for name in cls._fields
        ]
        cls._signature = Signature(arguments)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}.__init__() {error}") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    def forward(self, *inputs: Any) -> Any:
        """The function of the inputs, with the fields as options."""
        own = self.__dict__ if active() is None else _Noting(self)
        return self._function(*inputs, **{name: own[name] for name in self._fields})

    def extra_repr(self) -> str:
        """The fields; `inplace` where it is true."""
        shown = [n for n in self._fields if n != "inplace" or self.inplace]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
