"""The course's module paths (`needle.ops.ops_mathematic`, ...) as names of the modules here.

PyTorch's `utils.data` is such a path, too.

Files here carry no folder prefix. A finder answers the course's paths with the module that has
their contents.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = __name__.partition(".")[0]
PATHS = {
    "ops.ops_mathematic": "ops",
    "ops.ops_logarithmic": "ops.network.softmax",
    "ops.ops_tuple": "ops.tuples",
    "init.init_basic": "init.basic",
    "init.init_initializers": "init.initializers",
    "nn.nn_basic": "nn",
    "nn.nn_conv": "nn",
    "nn.nn_sequence": "nn",
    "nn.nn_transformer": "nn",
    "data.data_basic": "data",
    "data.data_transforms": "data",
    "data.datasets": "data",
    "data.datasets.mnist_dataset": "data",
    "data.datasets.ndarray_dataset": "data",
    "data.datasets.cifar10_dataset": "data",
    "data.datasets.ptb_dataset": "data",
    "backend_selection": "course.backend_selection",
    "backend_ndarray": "course.backend_ndarray",
    "backend_numpy": "course.backend_numpy",
    "backend_ndarray.ndarray": "course.backend_ndarray",
    "backend_ndarray.ndarray_backend_numpy": "backend.reference",
    "backend_ndarray.ndarray_backend_cpu": "_native",
    "amp": "compat.amp",
    "models": "train.models",
    "trainer": "train.trainer",
    "utils": "compat.utils",
    "utils.data": "data",
    "utils.checkpoint": "transforms.checkpoint",
}


# Of PyTorch, where a path there is another one here.
PATHS |= {
    "utils.data.dataloader": "data.loader",
    "nn.parameter": "nn.module",
    "nn.modules": "nn",
    "nn.modules.batchnorm": "nn.norm",
    "nn.modules.normalization": "nn.norm",
    "nn.modules.pooling": "nn.pool",
    "nn.modules.rnn": "nn.sequence.recurrent",
    "nn.modules.sparse": "nn.embedding",
    "nn.modules.transformer": "nn.sequence.transformer",
}


class _Alias:
    """Loads a path by naming the module that is there already under another name."""

    def __init__(self, name: str):
        self._name = name
        self._own_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._name)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec  # the import system has set the alias's


class _Aliases:
    """Finds paths that are other names of modules here: those of PATHS, what lies below them, and
    all paths of a name that stands for this package, as after `sys.modules["torch"] = needle`.

    Without it, Python would find the files below such a name, and run them once more as modules of
    that name: classes twice, whose instances are strangers to each other."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        this = sys.modules.get(PACKAGE)
        if not rest or this is None or sys.modules.get(package) is not this:
            return None
        name = f"{PACKAGE}.{PATHS.get(rest, rest)}"
        if name == fullname:
            parent, _, child = fullname.rpartition(".")
            own = getattr(sys.modules.get(parent), "__spec__", None)
            name = fullname if own is None else f"{own.name}.{child}"
        if name == fullname or importlib.util.find_spec(name) is None:
            return None
        return ModuleSpec(fullname, _Alias(name))  # type: ignore[arg-type]


if not any(isinstance(finder, _Aliases) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Aliases())  # before the finder of files
