"""The same operators over plain NumPy arrays: the records again with NEEDLE_BACKEND=np."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import needle as ndl

FILES = ("forward", "dtypes", "forward_mode", "lazy", "errors")


@pytest.mark.skipif(ndl.BACKEND == "np", reason="would run for ever")
@pytest.mark.parametrize("name", FILES)
def test_records_over_numpy(name):
    path = Path(__file__).with_name(f"test_{name}.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    environment = {**os.environ, "NEEDLE_BACKEND": "np"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
