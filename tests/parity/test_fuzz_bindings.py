"""No input that Python can make crashes the process: hostile calls in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("hostile_calls.py")
SECONDS = 4


@pytest.mark.parametrize("seed", range(4))
def test_hostile_calls_return_or_raise(seed):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(SCRIPT), str(seed), str(SECONDS)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-3000:]}"
    seen = json.loads(done.stdout)
    assert sum(seen.values()) > 1000
    # Some get through, the others are refused in the ways that Python knows.
    assert seen["returned"] > 50 and seen["ValueError"] > 50 and seen["TypeError"] > 50
    # RuntimeError would be an error that nobody translated.
    assert "SystemError" not in seen and "RuntimeError" not in seen
