"""Runs that several tests look at."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

from needle.cli import main, tasks

from .helpers import QUICK


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory):
    """A finished run on the digits, and what it printed."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert main(["train", "digits", *QUICK, "--out", str(folder)]) == 0
    return folder, output.getvalue()


@pytest.fixture(scope="session")
def text_run(tmp_path_factory):
    """A finished run on a small text, and what it printed."""
    base = tmp_path_factory.mktemp("text")
    words = np.random.default_rng(0).choice("to be or not that is the question".split(), 3000)
    (base / "play.txt").write_text(" ".join(words) + "\n")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as output:
        patch.setattr(tasks, "WINDOWS_PER_EPOCH", 64)
        patch.setattr("needle.cli.train.BLOCK", 16)
        folder = base / "run"
        code = main(["train", "shakespeare", "--data", str(base / "play.txt"), "--epochs", "2",
                     "--batch-size", "16", "--out", str(folder)])  # fmt: skip
        assert code == 0
    return folder, output.getvalue()
