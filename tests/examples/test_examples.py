"""Every example runs, says what it reached and what its target is, and is short."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"

PERCENT = r"\d+\.\d\d% \(target \d+%\)"
NUMBER = r"\d+\.\d+"
RUNS = {  # quick settings, and the last line
    "mlp": ("--epochs 1 --hidden 16", f"test accuracy {PERCENT}"),
    "cnn": ("--epochs 1 --channels 2 --batch 200", f"test accuracy {PERCENT}"),
    "lstm": (
        "--steps 2 --width 8 --block 8 --batch 4",
        rf"validation loss {NUMBER} nats \(target {NUMBER}\)",
    ),
    "gpt": (
        "--steps 2 --width 8 --layers 1 --heads 2 --block 8 --batch 4",
        rf"validation loss {NUMBER} nats \(target {NUMBER}\)",
    ),
    "gan": (
        "--steps 4 --batch 8",
        rf"error of mean {NUMBER} \(target {NUMBER}\), of covariance {NUMBER} \(target {NUMBER}\)",
    ),
    "custom_op": ("--steps 5", rf"mean squared error {NUMBER} \(target {NUMBER}\)"),
    "ddp": ("", f"test accuracy {PERCENT}"),
    "pipeline": ("", rf"training loss {NUMBER} \(target {NUMBER}\)"),
    "finetune": ("--epochs 1 --images 25", f"5 to 9: test accuracy {PERCENT}"),
}
TEXT = "The needle goes through the cloth and comes back. " * 40


def run(name: str, arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = FOLDER / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"examples.{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", [str(path), *arguments.split()])
    module.main()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_example(path: Path, monkeypatch, tmp_path: Path, capsys) -> None:
    arguments, last_line = RUNS[path.stem]
    if path.stem in ("lstm", "gpt"):
        (tmp_path / "text.txt").write_text(TEXT)
        arguments += f" --data {tmp_path / 'text.txt'}"
    monkeypatch.chdir(tmp_path)
    run(path.stem, arguments, monkeypatch)
    printed = capsys.readouterr().out.splitlines()
    assert re.fullmatch(last_line, printed[-1]), printed[-1]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_example_is_short_and_documented(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) < 150
    described = source.split('"""')[1]
    assert f"python examples/{path.name}" in described
    assert "Target:" in described


def test_the_perceptron_reaches_its_target(monkeypatch, capsys) -> None:
    run("mlp", "--epochs 12", monkeypatch)
    reached = re.search(r"test accuracy ([\d.]+)%", capsys.readouterr().out)
    assert reached is not None and float(reached[1]) >= 96


def test_the_frozen_part_of_a_model_stays(monkeypatch, capsys) -> None:
    run("finetune", "--epochs 4", monkeypatch)
    printed = capsys.readouterr().out
    assert "loaded 4 tensors; new: 1.weight, 1.bias\n" in printed
    assert "the frozen body is unchanged\n" in printed
