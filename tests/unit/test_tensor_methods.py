"""The stub of Tensor's methods is up to date with the table that installs them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_stub_is_what_the_tool_writes():
    check = subprocess.run([sys.executable, ROOT / "tools" / "tensor_methods.py", "--check"])
    assert check.returncode == 0, "run: python tools/tensor_methods.py"
