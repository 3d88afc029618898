"""Programs that `import torch` run on needle when they are asked to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import torch
import torch.autograd
from torch import Tensor
from torch.autograd import Variable
assert torch.__name__ == "needle.torch", torch.__name__
assert isinstance(torch.ones(2), Tensor) and issubclass(Variable, Tensor)
x = torch.arange(6.0).reshape(2, 3).requires_grad_()
(x * x).sum().backward()
print(x.grad.tolist(), sys.argv[1:])
"""


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, check=False
    )


def test_scripts_and_modules(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    for start in (("program.py",), ("-m", "program")):
        done = run("-m", "needle.torch", *start, "a", "b", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "[[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]] ['a', 'b']\n"


def test_pytorch_must_not_be_imported(tmp_path: Path) -> None:
    code = (
        "import sys, types; sys.modules['torch'] = types.ModuleType('torch')\n"
        "import needle.torch; needle.torch.install()"
    )
    done = run("-c", code, cwd=tmp_path)
    assert done.returncode != 0 and "has not been imported, but it is" in done.stderr


def test_nothing_is_patched_unasked(tmp_path: Path) -> None:
    done = run("-c", "import needle.torch, sys; print('torch' in sys.modules)", cwd=tmp_path)
    assert done.stdout.strip() == "False", done.stderr
