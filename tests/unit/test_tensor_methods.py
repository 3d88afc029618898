"""The stub of Tensor's methods is up to date with the table that installs them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_stub_is_what_the_tool_writes():
    check = subprocess.run([sys.executable, ROOT / "tools" / "tensor_methods.py", "--check"])
    assert check.returncode == 0, "run: python tools/tensor_methods.py"


def test_methods_are_loaded_when_they_are_first_used():
    """Then all of a file; a method that the user has put there stays."""
    code = """
import sys
import needle as ndl
from needle.ops.tensor_table import Later
ndl.Tensor.view_as = lambda self, other: "mine"
x = ndl.tensor([[3.0, 1.0]])
assert "needle.compat.torch_names" not in sys.modules
assert isinstance(vars(ndl.Tensor)["view"], Later)
assert x.view(2).tolist() == [3, 1] and callable(ndl.Tensor.softmax)
assert not isinstance(vars(ndl.Tensor)["numel"], Later)
assert x.view_as(x) == "mine" and x.sort(1).tolist() == [[1, 3]]
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
