"""`install()`: from then on, `import torch` in this process means needle.torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

FACE = __name__.rpartition(".run.")[0]  # needle.torch
KEPT = ("__name__", "__spec__", "__path__", "__package__", "__loader__", "__file__")


class Alias(Loader):
    """Gives the module of the face under PyTorch's name."""

    kept: dict[str, object]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from ..absent import no_attribute

        own = FACE + spec.name.removeprefix("torch")
        try:
            module = importlib.import_module(own)
            self.kept = {name: vars(module).get(name) for name in KEPT}
            return module
        except ModuleNotFoundError as error:
            if error.name is None or not own.startswith(error.name):
                raise
            parent, _, last = spec.name.rpartition(".")
            found = getattr(sys.modules.get(parent), last, None)
            if isinstance(found, ModuleType):
                self.kept = {name: vars(found).get(name) for name in KEPT}
                return found
            text = str(no_attribute(parent, last))
            raise ModuleNotFoundError(text, name=spec.name) from None

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run; what the import machinery set for the other name is set back."""
        vars(module).update({k: v for k, v in self.kept.items() if v is not None})


class Finder(MetaPathFinder):
    """Finds `torch` and what is below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "torch" or fullname.startswith("torch."):
            return ModuleSpec(fullname, Alias(), is_package=True)
        return None


def install() -> None:
    """From now on, `import torch` means needle.torch. An error if PyTorch is imported already."""
    present = sys.modules.get("torch")
    if present is not None and present.__name__ != FACE:
        raise ImportError(
            "[install] expected that PyTorch has not been imported, but it is; call "
            "needle.torch.install() first."
        )
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
    face = importlib.import_module(FACE)
    sys.modules["torch"] = face
