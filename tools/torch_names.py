"""Write docs/torch.md: which public names of PyTorch needle.torch has.

python tools/torch_names.py          write the page
python tools/torch_names.py --check  exit 1 if it is not up to date

PyTorch must be installed: the names are those of its own namespace.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
import types
import warnings
from pathlib import Path

PATH = Path(__file__).parent.parent / "docs" / "torch.md"
MODULES = (
    "torch", "torch.Tensor", "torch.autograd", "torch.autograd.functional", "torch.func",
    "torch.special", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.utils",
    "torch.optim", "torch.optim.lr_scheduler", "torch.utils.data", "torch.distributions",
    "torch.linalg", "torch.fft",
)  # fmt: skip

TEXT = """\
# PyTorch programs on needle

`needle.torch` has PyTorch's names with PyTorch's meaning, on needle's engine. Programs run as they
are:

    python -m needle.torch train.py --epochs 3    # `import torch` means needle.torch in train.py
    needle torch-check train.py                   # what it uses that is missing, before it runs

In a notebook, call `needle.torch.install()` first; or write `import needle.torch as torch`, which
patches nothing. A `needle.torch.Tensor` is a `needle.Tensor`: results of operators have the class
of their inputs, and values of both are of one graph, in one memory.

The same seed gives the same numbers as PyTorch on the CPU, for `rand`, `randn`, `randint`,
`randperm`, `uniform_`, `normal_`, `bernoulli_`, `exponential_`, `multinomial`. `torch.save` and
`torch.load` write and read both of PyTorch's formats; files that hold anything but tensors,
containers and numbers are refused, because loading them would run code of the file.

`torch.compile` and functions under `torch.jit.script` and `torch.jit.trace` are compiled by
`needle.jit`; what cannot be traced runs eagerly after one warning. `needle.jit` compiles whole
training steps with all optimizers whose steps go element by element but NAdam and ASGD.

There are no complex numbers and no GPU yet. Sparse tensors are matrices in COO form, for products
with dense ones. `torch.distributed` is a world of one process. A change in place of a tensor that
an earlier operator needs is an error in PyTorch; where gradients are recorded, here the gradient is
that of the former values.

Below, a name that is "same" exists here and means what it means in PyTorch; one that is "missing"
raises an AttributeError. This page is written by `tools/torch_names.py`.
"""


def resolve(name: str) -> object | None:
    """A module or class by its dotted name; None if it is not there."""
    try:
        return importlib.import_module(name)
    except ImportError:
        parent, _, last = name.rpartition(".")
        try:
            return getattr(importlib.import_module(parent), last, None)
        except ImportError:
            return None


def public_names(owner: object) -> list[str]:
    """What users may name of a module or class: no modules, and nothing private."""
    names = getattr(owner, "__all__", None) or dir(owner)
    found = []
    for name in sorted({*names} if not isinstance(owner, type) else {*dir(owner)}):
        value = getattr(owner, name, None)
        if name.startswith("_") or isinstance(value, types.ModuleType):
            continue
        found.append(name)
    return found


def table(module: str) -> str:
    """The section of one module."""
    own = resolve("needle." + module)
    same, missing = [], []
    for name in public_names(resolve(module)):
        (same if own is not None and has(own, name) else missing).append(name)
    return "\n".join([
        f"## `{module}`", "",
        f"{len(same)} names are the same, {len(missing)} are missing.", "",
        *listed("Same", same), *listed("Missing", missing),
    ])  # fmt: skip


def has(owner: object, name: str) -> bool:
    """Is the name there? Attributes of classes are not asked for a value."""
    if isinstance(owner, type):
        return any(name in vars(base) for base in owner.__mro__ if base is not object)
    try:
        return getattr(owner, name, None) is not None or name in dir(owner)
    except NotImplementedError:
        return False


def listed(title: str, names: list[str]) -> list[str]:
    """A paragraph of names."""
    if not names:
        return []
    words = ", ".join(f"`{name}`" for name in names)
    return [*textwrap.wrap(f"{title}: {words}.", 100, break_on_hyphens=False), ""]


def page() -> str:
    """The whole page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TEXT + "\n" + "\n".join(table(module) for module in MODULES).rstrip() + "\n"


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv:
        sys.exit(0 if PATH.read_text() == text else f"{PATH} is not up to date: run {sys.argv[0]}")
    PATH.write_text(text)
