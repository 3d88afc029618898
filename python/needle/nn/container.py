"""Modules that hold modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from ..autograd import Tensor
from .module import Module, Parameter, named_leaves

__all__ = ["Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Residual"]


class _Container(Module):
    """Modules under names of their own, among other attributes that a subclass may set.

    A name is an attribute, too: `getattr(chain, "0")` is a module, and setting it replaces it."""

    held: ClassVar[str]  # the attribute that holds them

    def _held_items(self) -> Iterable[tuple[str, Any]]:
        return ((str(i), m) for i, m in enumerate(getattr(self, self.held)))

    def _hold(self, named: Mapping[str, Any]) -> None:
        """Hold these from now on: as a new object, as a compiled function notices attributes."""
        raise TypeError(f"[{type(self).__name__}] has no way to hold {list(named)}.")

    def __getattr__(self, name: str) -> Any:
        held = dict(self._held_items()) if self.held in self.__dict__ else {}
        if name not in held:
            raise AttributeError(f"{type(self).__name__} has no module or attribute {name!r}")
        return held[name]

    def __setattr__(self, name: str, value: Any) -> None:
        held = dict(self._held_items()) if self.held in self.__dict__ else {}
        if name in held and not hasattr(type(self), name):
            self._hold({**held, name: value})
        else:
            super().__setattr__(name, value)

    def _named_items(self) -> Iterator[tuple[str, Any]]:
        for name, value in self.__dict__.items():
            for key, item in self._held_items() if name == self.held else ((name, value),):
                yield from named_leaves(key, item)


class Modules(tuple[Any, ...]):
    """The tuple of a Sequential's modules; called, as in PyTorch, these and all below them."""

    names: tuple[str, ...] | None = None  # if they are not 0, 1, ...

    def __call__(self) -> list[Module]:
        return ModuleList(m for m in self if isinstance(m, Module)).modules()[1:]


class Sequential(_Container):
    """One after the other; `.modules` is the tuple of them.

    Children are named 0, 1, ..., or as in an OrderedDict: `Sequential(OrderedDict(fc=...))`."""

    held = "modules"
    modules: Modules

    def __init__(self, *modules: Any):
        named = modules and isinstance(modules[0], OrderedDict) and len(modules) == 1
        self._hold(modules[0] if named else {str(i): m for i, m in enumerate(modules)})

    def _held_items(self) -> Iterable[tuple[str, Any]]:
        names = getattr(self.modules, "names", None) or map(str, range(len(self.modules)))
        return zip(names, self.modules, strict=True)

    def _hold(self, named: Mapping[str, Any]) -> None:
        for module in named.values():
            if not callable(module):
                raise TypeError(
                    f"[Sequential] expected modules or functions, got {type(module).__name__}."
                )
        modules = Modules(named.values())
        if any(name != str(i) for i, name in enumerate(named)):
            modules.names = tuple(named)
        self.modules = modules

    def append(self, module: Any) -> Sequential:
        """Add one at the end."""
        self.add_module(str(len(self)), module)
        return self

    def add_module(self, name: str, module: Any) -> None:
        """Add one at the end, under a name; a module of this name is replaced."""
        self._hold({**dict(self._held_items()), name: module})

    def forward(self, x: Any) -> Any:
        for module in self.modules:
            x = module(x)
        return x

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return self.modules[index]
        return Sequential(OrderedDict([*self._held_items()][index]))

    def __setitem__(self, index: int, module: Any) -> None:
        name = [name for name, _ in self._held_items()][index]
        self.add_module(name, module)

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)


class ModuleList(_Container):
    """A list of modules."""

    held = "_list"

    def __init__(self, modules: Iterable[Module] = ()):
        self._hold_all(modules)

    def _hold_all(self, items: Iterable[Any]) -> None:
        self._list = [*items]

    def _hold(self, named: Mapping[str, Any]) -> None:
        self._hold_all(named.values())

    def append(self, module: Module) -> ModuleList:
        """Add one at the end."""
        self._hold_all([*self._list, module])
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add several at the end."""
        self._hold_all([*self._list, *modules])
        return self

    def __getitem__(self, index: Any) -> Any:
        return ModuleList(self._list[index]) if isinstance(index, slice) else self._list[index]

    def __setitem__(self, index: int, module: Module) -> None:
        modules = [*self._list]
        modules[index] = module
        self._hold_all(modules)

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._list)


class ModuleDict(_Container):
    """Modules by name."""

    held = "_dict"

    def __init__(self, modules: dict[str, Module] | None = None):
        self._hold(modules or {})

    def _held_items(self) -> Iterable[tuple[str, Any]]:
        return self._dict.items()

    def _hold(self, named: Mapping[str, Any]) -> None:
        self._dict = dict(named)

    def __getitem__(self, name: str) -> Any:
        return self._dict[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self._hold({**self._dict, name: module})

    def __contains__(self, name: str) -> bool:
        return name in self._dict

    def __len__(self) -> int:
        return len(self._dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self._dict)

    def keys(self) -> Iterable[str]:
        """The names, in the order in which they were given."""
        return self._dict.keys()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._dict.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Names and modules."""
        return self._dict.items()


class ParameterList(ModuleList):
    """A list of parameters; other tensors become parameters."""

    def _hold_all(self, items: Iterable[Any]) -> None:
        self._list = [_parameter(item) for item in items]


class ParameterDict(ModuleDict):
    """Parameters by name; other tensors become parameters."""

    def _hold(self, named: Mapping[str, Any]) -> None:
        self._dict = {name: _parameter(value) for name, value in named.items()}


def _parameter(value: Any) -> Any:
    return Parameter(value) if type(value) is Tensor else value


class Residual(Module):
    """y = fn(x) + x"""

    def __init__(self, fn: Module):
        self.fn = fn

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fn(x) + x
        return y
