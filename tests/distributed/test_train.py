"""Training on many ranks: the same losses, the same bits in each run, killed and resumed."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from .launch import command, environment, needs_mpi, run

pytestmark = needs_mpi


def losses(folder: Path) -> dict[int, tuple[float, str]]:
    """By step; one that was done again after a resume counts once."""
    lines = (line.split() for line in (folder / "losses.txt").read_text().splitlines())
    return {int(step): (float(loss), bits) for step, loss, bits in lines}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """A run of 123 steps for each number of ranks."""
    base = tmp_path_factory.mktemp("runs")
    for ranks in (1, 2, 4):
        run(ranks, "fit.py", base / str(ranks), "--compile")
    return {ranks: base / str(ranks) for ranks in (1, 2, 4)}


def test_the_same_losses_for_any_number_of_ranks(runs: dict[int, Path]) -> None:
    one, two, four = (np.array([x for x, _ in losses(f).values()]) for f in runs.values())
    assert len(one) >= 100
    np.testing.assert_allclose(two[:100], one[:100], rtol=2e-5)
    np.testing.assert_allclose(four[:100], one[:100], rtol=2e-5)


def test_each_run_has_the_same_bits(runs: dict[int, Path], tmp_path: Path) -> None:
    run(2, "fit.py", tmp_path / "again", "--compile")
    assert losses(tmp_path / "again") == losses(runs[2])
    run(2, "fit.py", tmp_path / "eager")
    found = [x for x, _ in losses(tmp_path / "eager").values()]
    np.testing.assert_allclose(found, [x for x, _ in losses(runs[2]).values()], rtol=1e-3)


def test_killed_and_resumed(runs: dict[int, Path], tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    out = run(2, "fit.py", folder, "--compile", "--kill", 37, fails=True)
    assert "rank 1 was killed" in out
    assert list(folder.glob("*.ndl")) == [folder / "last.ndl"]
    run(2, "fit.py", folder, "--compile", "--resume")
    assert losses(folder) == losses(runs[2])


def test_interrupted_on_one_rank_and_resumed_on_more(runs: dict[int, Path], tmp_path: Path) -> None:
    folder = tmp_path / "interrupted"
    out = run(2, "fit.py", folder, "--compile", "--interrupt", 25)
    assert out.count("stopped in epoch 1 after step 26; saved in") == 2, out
    run(4, "fit.py", folder, "--compile", "--resume")
    found, expected = losses(folder), losses(runs[1])
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(
        [x for x, _ in found.values()], [x for x, _ in expected.values()], rtol=2e-5
    )


def test_the_command(tmp_path: Path) -> None:
    """`mpirun -n 2 needle train`: one report, Ctrl-C on mpirun saves once, --resume ends it."""
    folder = tmp_path / "run"
    start = [*command(2, "-m", "needle", "train"), "digits", "--out", str(folder), "--epochs", "4"]
    job = subprocess.Popen(
        [*start, "--compile"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert job.stdout is not None
    shown = ""
    while "epoch 1/4" not in shown:
        shown += job.stdout.readline()
    time.sleep(0.2)
    job.send_signal(signal.SIGINT)
    shown += job.communicate(timeout=60)[0]
    assert shown.count("To continue: needle train --resume") == 1, shown
    assert len(re.findall(r"^digits: ", shown, re.M)) == 1
    out = run(2, "-m", "needle", "train", "--resume", str(folder))
    assert out.count("epoch 4/4") == 1
    assert out.count("test accuracy") == 1
    bad = run(3, "-m", "needle", "train", "digits", "--batch-size", "50", fails=True)
    assert bad.count("--batch-size 50 is not divisible by 3 ranks") == 1


@pytest.mark.parametrize("name", ["ddp", "pipeline"])
def test_examples(name: str) -> None:
    """Two ranks print the same losses as one."""
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    one, two = (re.findall(r"epoch \d  loss \d\.\d{3}", run(n, path)) for n in (1, 2))
    assert one == two and one
