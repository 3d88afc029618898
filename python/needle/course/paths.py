"""The course's module paths (`needle.ops.ops_mathematic`, ...) as names of the modules here.

PyTorch's `utils.data` is such a path, too.

Files here carry no folder prefix. A finder, asked only for modules that no file provides, answers
the course's paths with the module that has their contents.
"""

from __future__ import annotations

import importlib
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
    "utils.data": "data",
    "utils.checkpoint": "transforms.checkpoint",
}


class _CoursePaths:
    """Finds a course path, and loads it by naming the module that is there already."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        if package != PACKAGE or rest not in PATHS:
            return None
        return ModuleSpec(fullname, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"{PACKAGE}.{PATHS[spec.name.partition('.')[2]]}")
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec  # the import system has set the alias's


if not any(isinstance(finder, _CoursePaths) for finder in sys.meta_path):
    sys.meta_path.append(_CoursePaths())
