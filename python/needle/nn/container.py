"""Modules that hold modules.

What a container holds is one tuple, with a name for each. Every way to change it (by item, by
attribute, `add_module`) makes a new tuple: what is registered is what runs, in that order, and a
compiled function notices."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, ClassVar, Self

from ..autograd import Tensor
from .module import Module, Parameter, check_name, named_leaves

__all__ = ["Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Residual"]


class Modules(tuple[Any, ...]):
    """What a container holds, in order; called, as in PyTorch, these and all modules below them."""

    names: tuple[str, ...]

    def __new__(cls, items: Iterable[object] = (), names: Iterable[str] | None = None) -> Self:
        self = super().__new__(cls, items)
        self.names = tuple(map(str, range(len(self))) if names is None else names)
        return self

    def __call__(self) -> list[Module]:
        return ModuleList(m for m in self if isinstance(m, Module)).modules()[1:]


class _Container(Module):
    """Modules under names of their own, among other attributes that a subclass may set.

    A name is an attribute, too: `getattr(chain, "0")` is a module, and setting it replaces it. A
    module that is set under another name comes last."""

    held: ClassVar[str] = "_items"  # the attribute that holds them
    holds: ClassVar[type] = Module  # what an attribute must be to be held
    _items = Modules()

    def _named(self) -> dict[str, Any]:
        items: Modules = getattr(self, self.held)
        return dict(zip(items.names, items, strict=True))

    def _hold(self, named: Mapping[str, object]) -> None:
        values = [self._checked(name, value) for name, value in named.items()]
        super().__setattr__(self.held, Modules(values, named))

    def _checked(self, name: str, value: object) -> Module | None:
        """A value that is to be held, if it can be."""
        if value is not None and not isinstance(value, Module):
            got = value.__name__ if isinstance(value, type) else type(value).__name__
            made = "; make one of it" if isinstance(value, type) else ""
            raise TypeError(
                f"[{type(self).__name__}] expected a module as {name!r}, got {got}{made}."
            )
        return value

    def add_module(self, name: str, module: object) -> None:
        """Add one at the end, under a name; a module of this name is replaced."""
        named = self._named()
        if name not in named:
            check_name(self, name)
            self.__dict__.pop(name, None)  # a None that was set there before
        self._hold({**named, name: module})

    register_module = add_module

    def __getattr__(self, name: str) -> Any:
        found = self._named()
        if name not in found:
            raise AttributeError(f"{type(self).__name__} has no module or attribute {name!r}")
        return found[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == self.held:
            names = self._named() if len(value) == len(self._named()) else None
            self._hold(dict(zip(Modules(value, names).names, value, strict=True)))
        elif name in self._named():
            self._hold({**self._named(), name: value})
        elif isinstance(value, self.holds) and not hasattr(getattr(type(self), name, 0), "__set__"):
            self.add_module(name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        named = self._named()
        if name in named:
            del named[name]
            self._hold(named)
        else:
            super().__delattr__(name)

    def _named_items(self) -> Iterator[tuple[str, Any]]:
        for name, value in self.__dict__.items():
            own = self._named().items() if name == self.held else ((name, value),)
            for key, item in own:
                yield from named_leaves(key, item)

    def __len__(self) -> int:
        return len(getattr(self, self.held))


class _Listed(_Container):
    """Modules by position; their names are 0, 1, ... unless they were given others."""

    def _hold_all(self, values: Iterable[object]) -> None:
        self._hold({str(i): value for i, value in enumerate(values)})

    def _part(self, named: dict[str, object]) -> Any:
        """A container of some of what this one holds."""
        kind: Any = next(c for c in type(self).__mro__ if c.__module__ == __name__)
        made = kind.__new__(kind)
        made._hold(named)
        return made

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._part(dict([*self._named().items()][index]))
        return getattr(self, self.held)[operator.index(index)]

    def __setitem__(self, index: int | slice, value: Any) -> None:
        names = [*self._named()]
        if isinstance(index, slice):
            values = [*self]
            values[index] = value
            same = len(values) == len(names)
            self._hold(
                dict(zip(names if same else map(str, range(len(values))), values, strict=True))
            )
        else:
            self._hold({**self._named(), names[operator.index(index)]: value})

    def __delitem__(self, index: int | slice) -> None:
        values = [*self]
        del values[index]
        self._hold_all(values)  # PyTorch's rule: those that are left are numbered anew

    def __iter__(self) -> Iterator[Any]:
        return iter(getattr(self, self.held))

    def __contains__(self, value: object) -> bool:
        return any(each is value for each in self)  # == of parameters compares elements

    def insert(self, index: int, value: object) -> Self:
        """Add one before a position."""
        if [*self._named()] != [str(i) for i in range(len(self))]:
            raise ValueError(
                f"[{type(self).__name__}] insert expected modules without names of their own, got "
                f"{[*self._named()]}; make a new one of them in another order."
            )
        values = [*self]
        values.insert(operator.index(index), value)
        self._hold_all(values)
        return self

    def append(self, value: object) -> Self:
        """Add one at the end."""
        named, number = self._named(), len(self)
        while str(number) in named:
            number += 1
        self._hold({**named, str(number): value})
        return self

    def extend(self, values: Iterable[object]) -> Self:
        """Add several at the end."""
        if not isinstance(values, Iterable):
            raise TypeError(
                f"[{type(self).__name__}] expected a list of modules, got {type(values).__name__}."
            )
        for value in [*values]:
            self.append(value)
        return self

    def pop(self, index: int | slice = -1) -> Any:
        """Take one away, or those of a slice; those that are left are numbered anew."""
        taken = self[index]
        del self[index]
        return taken

    def __iadd__(self, other: Iterable[object]) -> Self:
        return self.extend(other)

    def __add__(self, other: Iterable[object]) -> Any:
        return self._part({str(i): value for i, value in enumerate([*self, *other])})


class Sequential(_Listed):
    """One after the other; `.modules` is the tuple of them.

    Children are named 0, 1, ..., or as in an OrderedDict: `Sequential(OrderedDict(fc=...))`. Plain
    functions may stand among them. Modules that a subclass sets as attributes follow, and run."""

    held = "modules"
    modules = Modules()

    def __init__(self, *modules: Any):
        self._hold(self._named())  # a subclass may have set some before
        named = modules and isinstance(modules[0], OrderedDict) and len(modules) == 1
        for name, module in (modules[0] if named else dict(enumerate(modules))).items():
            self.add_module(str(name), module)

    def _checked(self, name: str, value: object) -> Any:
        if isinstance(value, type) or not callable(value):
            got = type(value).__name__
            if isinstance(value, type):
                got = f"the class {value.__name__}; make one of it"
            raise TypeError(f"[Sequential] expected modules or functions, got {got}.")
        return value

    def forward(self, x: object) -> Any:
        for module in self.modules:
            x = module(x)
        return x

    def __mul__(self, times: int) -> Any:
        return self._part({str(i): module for i, module in enumerate([*self] * times)})

    __rmul__ = __mul__


class ModuleList(_Listed):
    """A list of modules."""

    def __init__(self, modules: Iterable[object] | None = None):
        self._hold(self._named())
        self.extend(() if modules is None else modules)


class ModuleDict(_Container, MutableMapping[str, Any]):
    """Modules by name, in the order in which they were given."""

    def __init__(self, modules: Mapping[str, object] | Iterable[tuple[str, object]] | None = None):
        self._hold(self._named())
        if modules is not None and not isinstance(modules, Iterable):
            raise TypeError(
                f"[{type(self).__name__}] expected names and modules, got {type(modules).__name__}."
            )
        self.update({} if modules is None else modules)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> Any:
        return self._named()[name]

    def __setitem__(self, name: str, value: object) -> None:
        self.add_module(name, value)

    def __delitem__(self, name: str) -> None:
        named = self._named()
        del named[name]
        self._hold(named)

    def __iter__(self) -> Iterator[str]:
        return iter(self._named())


class ParameterList(ModuleList):
    """A list of parameters; other tensors become parameters."""

    holds = Parameter

    def _checked(self, name: str, value: object) -> Any:
        return _parameter(value)


class ParameterDict(ModuleDict):
    """Parameters by name; other tensors become parameters."""

    holds = Parameter

    def _checked(self, name: str, value: object) -> Any:
        return _parameter(value)


def _parameter(value: object) -> object:
    return Parameter(value) if type(value) is Tensor else value


class Residual(Module):
    """y = fn(x) + x"""

    def __init__(self, fn: Module):
        self.fn = fn

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fn(x) + x
        return y
