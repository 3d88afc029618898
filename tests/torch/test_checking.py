"""`needle torch-check` lists what a program uses that is missing."""

from __future__ import annotations

from pathlib import Path

from needle.cli import main
from needle.torch.run.checking import missing

PROGRAM = """
import torch, torch.autograd as ag
from torch import complex64, Tensor
import numpy as np
x = torch.ones(2).sum()
y = torch.stft(x, 4)
z = ag.Function
t: Tensor = torch.polar(x, x)
"""


def test_uses_are_found(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    found = [(use.line, use.name) for use in missing([path])]
    assert found == [(3, "torch.complex64"), (6, "torch.stft"), (8, "torch.polar")]


def test_the_command(tmp_path: Path, capsys: object) -> None:
    path = tmp_path / "program.py"
    path.write_text("import torch\ntorch.ones(2)\n")
    assert main(["torch-check", str(path)]) in (0, None)
