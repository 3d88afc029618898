"""Other names of modules, PyTorch's among them, lead to the modules that are there: each once."""

import importlib
import importlib.util
import subprocess
import sys

import pytest

import needle as ndl

# Path below the package, and a name that it must have.
TORCHS = [
    ("nn", "Linear"), ("nn.functional", "relu"), ("nn.init", "kaiming_uniform_"),
    ("nn.modules", "Linear"), ("nn.modules.linear", "Linear"), ("nn.modules.conv", "Conv2d"),
    ("nn.modules.module", "Module"), ("nn.modules.container", "Sequential"),
    ("nn.modules.activation", "ReLU"), ("nn.modules.loss", "CrossEntropyLoss"),
    ("nn.modules.batchnorm", "BatchNorm2d"), ("nn.modules.normalization", "LayerNorm"),
    ("nn.modules.pooling", "MaxPool2d"), ("nn.modules.rnn", "LSTM"),
    ("nn.modules.sparse", "Embedding"), ("nn.modules.dropout", "Dropout"),
    ("nn.modules.transformer", "TransformerEncoderLayer"), ("nn.parameter", "Parameter"),
    ("nn.utils", "clip_grad_norm_"), ("nn.utils.rnn", "pad_sequence"),
    ("optim", "Adam"), ("optim.adam", "Adam"), ("optim.sgd", "SGD"),
    ("optim.optimizer", "Optimizer"), ("optim.lr_scheduler", "StepLR"),
    ("utils.data", "DataLoader"), ("utils.data.dataloader", "DataLoader"),
    ("utils.data.dataset", "Dataset"), ("utils.data.sampler", "SubsetRandomSampler"),
    ("utils.checkpoint", "checkpoint"), ("autograd", "grad"), ("amp", "GradScaler"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "name"), TORCHS)
def test_paths_of_pytorch(path, name):
    module = importlib.import_module(f"needle.{path}")
    own = importlib.import_module(module.__spec__.name)
    assert module is own and hasattr(module, name)
    assert module.__name__ == module.__spec__.name  # as pickle finds its classes


def test_paths_that_are_not_there():
    for path in ("needle.utils.data.nothing", "needle.nn.modules.nothing", "needle.utils.ndarray"):
        with pytest.raises(ModuleNotFoundError, match=f"No module named '{path}'"):
            importlib.import_module(path)
        assert importlib.util.find_spec(path) is None


SCRIPT = """
import importlib, sys
{first}
import needle
sys.modules["torch"] = needle
import torch
import torch.nn as nn
import torch.nn.functional as F
{imports}
from torch.utils.data.sampler import SubsetRandomSampler

assert torch is needle and nn is needle.nn and F is needle.nn.functional
from needle.data import SubsetRandomSampler as ours
assert SubsetRandomSampler is ours
for name, module in [*sys.modules.items()]:
    if name.startswith("torch."):
        assert module is sys.modules[module.__spec__.name], name
        assert module.__spec__.name.startswith("needle."), name
files = {{}}
for name, module in [*sys.modules.items()]:
    file = getattr(module, "__file__", None)
    if file is not None:
        assert files.setdefault(file, module) is module, name
try:
    import torch.nothing
except ModuleNotFoundError as error:
    assert error.name == "torch.nothing"
else:
    raise AssertionError
layer = nn.Linear(2, 3)
assert isinstance(layer, needle.nn.Module) and type(layer).__module__ == "needle.nn.linear"
print("one copy")
"""


@pytest.mark.parametrize("first", ["", "import needle.nn, needle.data, needle.optim"])
def test_a_package_that_stands_for_pytorch_is_there_once(first):
    """As programs do that are written for PyTorch: sys.modules["torch"] = needle."""
    imports = "\n".join(f"importlib.import_module('torch.{path}')" for path, _ in TORCHS)
    script = SCRIPT.format(first=first, imports=imports)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "one copy\n", done.stderr


def test_pytorch_itself_stays():
    torch = pytest.importorskip("torch")
    assert importlib.import_module("torch.nn") is torch.nn is not ndl.nn
