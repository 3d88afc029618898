"""Ranks that fail: the others stop soon, and say which rank, which operator, and where."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from needle.mpi.world import is_alive

from .launch import needs_mpi, run

WORDS = {
    "raises": ["rank 1 has failed: ValueError: my own mistake", "rank 0:", "rank 2:"],
    "killed": ["rank 1 was killed", "all_reduce(sum) float32[3, 4], at", "faults.py:15"],
    "vanishes": ["rank 1 was killed, or ended without a word"],
    "late": ["rank 1 did not come", "rank 0 waits in all_reduce(sum) float32[3, 4], at"],
    "ends": ["rank 1 has ended", "rank 0 waits in all_reduce(sum) float32[3, 4], at"],
    "shapes": ["[all_reduce]", "rank 0: all_reduce(sum) float32[4, 3], at", "float32[3, 4], at"],
    "dtypes": ["[all_gather]", "rank 0: all_gather int64[3], at", "rank 1: all_gather int32[3]"],
    "order": ["rank 1: all_reduce(sum) float32[3, 4], at", "rank 0: all_gather float32[3, 4]"],
    "message": ["rank 0: send(to 1) float32[5], at", "rank 1: recv(from 0) float32[6], at"],
    "compiled": ["rank 0: all_reduce(sum) float32[7], at", "rank 1: all_reduce(sum) float32[3, 4]"],
}


@needs_mpi
@pytest.mark.parametrize("how", WORDS)
def test_others_stop_and_say_why(how: str) -> None:
    start = time.monotonic()
    out = run(3, "faults.py", how, fails=True, NEEDLE_RANK_TIMEOUT="2", timeout=60)
    assert all(words in out for words in WORDS[how]), out
    assert time.monotonic() - start < 25  # the start, 2 s of waiting, 5 s for others to report


def test_processes_that_are_gone() -> None:
    assert is_alive(os.getpid())
    ended = subprocess.Popen([sys.executable, "-c", ""])
    while is_alive(ended.pid):  # until nobody but its parent knows it
        time.sleep(0.01)
    ended.wait()
    assert not is_alive(ended.pid)
