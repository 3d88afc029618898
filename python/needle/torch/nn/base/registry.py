"""What a module registers by name: parameters, buffers and submodules, each in a dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .... import tracing
from ....facts import Fact, changed, parts

if TYPE_CHECKING:
    from .module import Module

V = TypeVar("V")


class Registry(dict[str, V]):
    """A dictionary whose changes compiled functions are told of."""

    def __setitem__(self, name: str, value: V) -> None:
        super().__setitem__(name, value)
        changed()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        changed()

    def pop(self, name: str, *default: Any) -> Any:
        """Take an entry out."""
        changed()
        return super().pop(name, *default)

    def clear(self) -> None:
        """Take all entries out."""
        super().clear()
        changed()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (), None, None, iter(self.items())


STORES = ("_parameters", "_buffers", "_modules")


def _reader(registered: Registry[Any], name: str) -> Callable[[], Any]:
    return lambda: parts(registered.get(name))


def find(owner: Module, name: str) -> Any:
    """owner.name, if it is registered; a fact for a function that is being traced."""
    own = owner.__dict__
    for store in STORES:
        if store in own and name in own[store]:
            registered: Registry[Any] = own[store]
            value = registered[name]
            if (tracer := tracing.active()) is not None:
                tracer.meet(value)
                text = f"{type(owner).__name__}.{name}"
                seen = Fact(_reader(registered, name), parts(value), text)
                tracer.facts.setdefault((id(owner), name), seen)
            return value
    raise AttributeError(f"'{type(owner).__name__}' object has no attribute '{name}'")


def check_name(owner: Module, kind: str, name: object) -> None:
    """A name of this kind may be registered with the owner."""
    if "_parameters" not in owner.__dict__:
        raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
    if not isinstance(name, str):
        raise TypeError(f"[register] expected the {kind}'s name as text, got {name!r:.60}.")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain ".", got: {name!r}')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')


def check_free(owner: Module, kind: str, name: str) -> None:
    """The owner has no other attribute of this name."""
    registered = any(name in owner.__dict__[store] for store in STORES if not _holds(kind, store))
    if (hasattr(owner, name) and not _in_own(owner, kind, name)) or registered:
        raise KeyError(f"attribute '{name}' already exists")


def _holds(kind: str, store: str) -> bool:
    return store == {"parameter": "_parameters", "buffer": "_buffers", "module": "_modules"}[kind]


def _in_own(owner: Module, kind: str, name: str) -> bool:
    return any(name in owner.__dict__[store] for store in STORES if _holds(kind, store))


def forget(owner: Module, name: str, keep: str) -> None:
    """Take a name out of all places but one: it is about to become something else."""
    own = owner.__dict__
    own.pop(name, None)
    for store in STORES:
        if store != keep and name in own[store]:
            del own[store][name]
    if keep != "_buffers":
        own["_non_persistent_buffers_set"].discard(name)
