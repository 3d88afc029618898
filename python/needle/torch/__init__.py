"""PyTorch's face: its names, with its meaning, on needle's engine.

Values of both faces are of one graph. Names are found when they are first asked for.

Stands on: data, transforms, optim, nn, compiler, io, init, compat.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .core.methods import install as _install_methods
from .names import MODULES as _MODULES, places as _places

_PLACES = _places()
_install_methods()


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        module, own = _PLACES[name]
        found = getattr(import_module(f"{__name__}.{module}"), own)
    elif name in _MODULES:
        try:
            found = import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise _absent(name) from None
    else:
        raise _absent(name)
    globals()[name] = found
    return found


def _absent(name: str) -> AttributeError:
    from .absent import no_attribute

    return no_attribute("torch", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
