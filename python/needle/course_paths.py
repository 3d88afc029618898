"""The course's module paths (`needle.ops.ops_mathematic`, ...) as names of the modules here.

Files here carry no folder prefix; imports by the course's paths find the same modules.
"""

from __future__ import annotations

import sys

PATHS = {
    "ops.ops_mathematic": "ops",
    "ops.ops_logarithmic": "ops.softmax",
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
    "backend_ndarray.ndarray": "backend_ndarray",
}


def register() -> None:
    """Let the import system know the course's paths of the modules that are loaded."""
    package = __name__.rpartition(".")[0]
    for path, target in PATHS.items():
        module = sys.modules.get(f"{package}.{target}")
        if module is None:
            continue
        sys.modules.setdefault(f"{package}.{path}", module)
        parent, _, name = path.rpartition(".")
        if not hasattr(sys.modules[f"{package}.{parent}"], name):
            setattr(sys.modules[f"{package}.{parent}"], name, module)


register()
