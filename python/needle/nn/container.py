"""Modules that hold modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from ..autograd import Tensor
from .module import Module, named_leaves


class _Container(Module):
    """Modules under names of their own, among other attributes that a subclass may set."""

    held: ClassVar[str]  # the attribute that holds them

    def _held_items(self) -> Iterable[tuple[str, Any]]:
        return ((str(i), m) for i, m in enumerate(getattr(self, self.held)))

    def _named_items(self) -> Iterator[tuple[str, Any]]:
        for name, value in self.__dict__.items():
            for key, item in self._held_items() if name == self.held else ((name, value),):
                yield from named_leaves(key, item)


class Modules(tuple[Any, ...]):
    """The tuple of a Sequential's modules; called, as in PyTorch, these and all below them."""

    def __call__(self) -> list[Module]:
        return ModuleList(m for m in self if isinstance(m, Module)).modules()[1:]


class Sequential(_Container):
    """One after the other; `.modules` is the tuple of them. Children are named 0, 1, ..."""

    held = "modules"
    modules: Modules

    def __init__(self, *modules: Any):
        for module in modules:
            if not callable(module):
                raise TypeError(
                    f"[Sequential] expected modules or functions, got {type(module).__name__}."
                )
        self.modules = Modules(modules)

    def append(self, module: Any) -> Sequential:
        """Add one at the end."""
        self.modules = Sequential(*self.modules, module).modules
        return self

    def add_module(self, name: str, module: Any) -> None:
        """Add one at the end; it is called by its number, like the others."""
        self.append(module)

    def forward(self, x: Any) -> Any:
        for module in self.modules:
            x = module(x)
        return x

    def __getitem__(self, index: Any) -> Any:
        return Sequential(*self.modules[index]) if isinstance(index, slice) else self.modules[index]

    def __setitem__(self, index: int, module: Any) -> None:
        modules = [*self.modules]
        modules[index] = module
        self.modules = Sequential(*modules).modules

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)


class ModuleList(_Container):
    """A list of modules. Changes set a new list, as a compiled function notices attributes."""

    held = "_list"

    def __init__(self, modules: Iterable[Module] = ()):
        self._list = list(modules)

    def append(self, module: Module) -> ModuleList:
        """Add one at the end."""
        self._list = [*self._list, module]
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add several at the end."""
        self._list = [*self._list, *modules]
        return self

    def __getitem__(self, index: Any) -> Any:
        return ModuleList(self._list[index]) if isinstance(index, slice) else self._list[index]

    def __setitem__(self, index: int, module: Module) -> None:
        modules = [*self._list]
        modules[index] = module
        self._list = modules

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._list)


class ModuleDict(_Container):
    """Modules by name."""

    held = "_dict"

    def __init__(self, modules: dict[str, Module] | None = None):
        self._dict = dict(modules or {})

    def _held_items(self) -> Iterable[tuple[str, Any]]:
        return self._dict.items()

    def __getitem__(self, name: str) -> Module:
        return self._dict[name]

    def __getattr__(self, name: str) -> Module:
        """A module by its name as an attribute."""
        found: Module | None = self.__dict__.get("_dict", {}).get(name)
        if found is None:
            raise AttributeError(f"ModuleDict has no module or attribute {name!r}")
        return found

    def __setitem__(self, name: str, module: Module) -> None:
        self._dict = {**self._dict, name: module}

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


class Residual(Module):
    """y = fn(x) + x"""

    def __init__(self, fn: Module):
        self.fn = fn

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fn(x) + x
        return y
