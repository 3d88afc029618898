"""`needle train`: what it prints, what it saves, how it stops and goes on."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess

import numpy as np
import pytest

import needle as ndl
from needle.cli import tasks
from needle.cli.images import read_png

from ..data.files import write_cifar10, write_mnist
from .helpers import QUICK, call, refused, start


def weights(folder, name="best.ndl"):
    return {key: t.numpy().tobytes() for key, t in ndl.load(folder / name).items()}


def test_plain_lines(digits_run):
    folder, printed = digits_run
    first, second, *epochs, last = printed.splitlines()
    assert first == "digits: 1,317 training, 120 validation and 360 test images, 8 x 8"
    assert second == (
        "mlp-resnet: 38,860 parameters; 3 epochs of 10 batches of 120, learning rate 0.004, seed 0"
    )
    assert len(epochs) == 3
    for i, line in enumerate(epochs, 1):
        numbers = r"loss \d\.\d{4}  accuracy \d+\.\d\d%"
        speed = r"[\d,]+/s  \d+\.\d s"
        assert re.fullmatch(
            rf"epoch {i}/3  {numbers}  val loss \d\.\d{{4}}  val accuracy [\d.]+%  {speed}", line
        )
    assert re.fullmatch(
        r"test accuracy \d\d\.\d\d%  test loss \d\.\d{4} \(best epoch \d, trained in \d:\d\d\); "
        rf"everything is in {re.escape(str(folder))}/",
        last,
    )
    assert "\r" not in printed and "\x1b" not in printed


def test_files(digits_run):
    folder, printed = digits_run
    names = {p.name for p in folder.iterdir() if not p.name.startswith("events.")}
    assert names == {
        *("config.json", "last.ndl", "best.ndl", "metrics.jsonl", "curve.png", "result.json")
    }
    assert len(list(folder.glob("events.out.tfevents.*"))) == 1
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [r["epoch"] for r in records] == [1, 2, 3] and [r["step"] for r in records] == [
        10,
        20,
        30,
    ]
    assert f"loss {records[0]['train_loss']:.4f}" in printed
    result = json.loads((folder / "result.json").read_text())
    assert f"test accuracy {result['test_accuracy']:.2%}" in printed
    assert result["test_accuracy"] > 0.5
    assert read_png((folder / "curve.png").read_bytes()).shape == (760, 900, 3)


def test_the_seed_decides(digits_run, tmp_path, capsys):
    folder, _ = digits_run
    call(capsys, "train", "digits", *QUICK, "--seed", "0", "--out", tmp_path / "same")
    call(capsys, "train", "digits", *QUICK, "--seed", "1", "--out", tmp_path / "other")
    assert weights(tmp_path / "same") == weights(folder)
    assert weights(tmp_path / "other") != weights(folder)


def test_the_reference_device_learns_too(tmp_path, capsys):
    result = call(capsys, "train", "digits", "--epochs", "1", "--device", "cpu_numpy", "--threads",
                  "1", "--out", tmp_path / "run")  # fmt: skip
    assert result.code == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["test_accuracy"] > 0.5


def test_default_folders_do_not_collide(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert call(capsys, "train", "digits", "--epochs", "1", "--batch-size", "600").code == 0
    assert {p.name for p in (tmp_path / "runs").iterdir()} == {
        "digits-mlp-resnet",
        "digits-mlp-resnet-2",
    }


def test_early_stopping(tmp_path, capsys):
    result = call(capsys, "train", "digits", "--lr", "1e-30", "--patience", "2", "--epochs", "50",
                  "--batch-size", "400", "--out", tmp_path / "run")  # fmt: skip
    assert result.code == 0
    assert re.search(r"stopped early: nothing better than epoch \d+ in 2 epochs\n", result.out)
    assert "epoch 50/50" not in result.out


def test_a_learning_rate_that_is_too_high(tmp_path, capsys):
    result = call(capsys, "train", "digits", "--lr", "1e30", "--out", tmp_path / "run")
    assert result.code == 1
    assert re.fullmatch(
        r"needle train: \[Trainer\] the loss is (inf|nan) at step \d+; lower the learning rate.*\n",
        result.err,
    )


def test_text(text_run):
    folder, printed = text_run
    assert re.match(
        r"shakespeare: [\d,]+ training, \d+ validation and \d+ test characters, 14 different ones\n"
        r"gpt: [\d,]+ parameters; 2 epochs of 4 batches of 16",
        printed,
    )
    sample = (folder / "sample.txt").read_text()
    assert len(sample) == 401 and sample in printed
    assert set(sample) <= set("to be or not that is the question\n")


# Stopping and going on --------------------------------------------------------------------------


def test_ctrl_c_and_resume(digits_run, tmp_path, capsys):
    folder, _ = digits_run
    process = start("train", "digits", *QUICK, "--out", "run", folder=tmp_path,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    while not process.stdout.readline().startswith("epoch 1/3"):
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert re.search(
        r"^stopped in epoch \d after step \d+. To continue: needle train --resume run$", out, re.M
    )

    result = call(capsys, "train", "--resume", tmp_path / "run")
    assert result.code == 0 and "test accuracy" in result.out
    assert weights(tmp_path / "run") == weights(folder)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]
    assert len(list((tmp_path / "run").glob("events.*"))) == 2


def test_resume_of_a_finished_run_tells_the_result_again(digits_run, capsys):
    folder, printed = digits_run
    before = weights(folder)
    result = call(capsys, "train", "--resume", folder)
    assert result.code == 0
    assert result.out.splitlines()[-1] == printed.splitlines()[-1]
    assert weights(folder) == before


def test_resume_keeps_the_settings(digits_run, capsys):
    folder, _ = digits_run
    error = refused(call(capsys, "train", "digits", "--lr", "1", "--resume", folder))
    assert error == (
        "needle train: --resume keeps the settings of the run: leave out DATASET, --lr"
    )


def test_compiled_steps(tmp_path, capsys):
    result = call(capsys, "train", "digits", *QUICK, "--compile", "--out", tmp_path / "run")
    assert result.code == 0 and "test accuracy" in result.out
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["settings"]["compile"] is True
    error = refused(call(capsys, "train", "--compile", "--resume", tmp_path / "run"))
    assert error.endswith("leave out --compile")


def test_a_run_from_before_there_was_an_option_goes_on(digits_run, tmp_path, capsys):
    shutil.copytree(digits_run[0], tmp_path / "old")
    path = tmp_path / "old" / "config.json"
    config = json.loads(path.read_text())
    del config["settings"]["compile"]
    path.write_text(json.dumps(config))
    result = call(capsys, "train", "--resume", tmp_path / "old")
    assert result.code == 0 and "test accuracy" in result.out


def test_a_run_is_not_overwritten(digits_run, capsys):
    folder, _ = digits_run
    error = refused(call(capsys, "train", "digits", "--out", folder))
    assert f"{folder} has a run already; continue it with --resume {folder}" in error


def on_a_terminal(*arguments, folder) -> tuple[int, str]:
    """The exit code of a command in a pseudo-terminal, and all that it showed there."""
    leader, follower = pty.openpty()
    process = start(*arguments, folder=folder, stdout=follower, stderr=follower)
    os.close(follower)
    shown = b""
    while select.select([leader], [], [], 60)[0]:
        try:
            shown += os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
    os.close(leader)
    return process.wait(timeout=60), shown.decode()


def test_an_error_on_a_terminal_stands_on_its_own_line(tmp_path):
    """The bar of the steps before is taken away."""
    options = ("--epochs", "1", "--lr", "1e30", "--out", "run")
    code, text = on_a_terminal("train", "digits", *options, folder=tmp_path)
    assert code == 1 and "epoch 1/1 [" in text
    assert re.search(r"[\r\n]needle train: \[Trainer\] the loss is .*\r\n$", text)


def test_progress_on_a_terminal(tmp_path):
    """A bar that is drawn over, and the same lines as without one."""
    code, text = on_a_terminal("train", "digits", *QUICK, "--out", "run", folder=tmp_path)
    assert code == 0
    bars = re.findall(
        r"\repoch (\d)/3 \[(#*)(\.*)\] +(\d+)%  loss [\d.]+  accuracy [\d.]+%  [\d,]+/s  "
        r"\d+:\d\d left",
        text,
    )
    assert {epoch for epoch, *_ in bars} == {"1", "2", "3"}
    assert all(10 <= len(full) + len(rest) <= 24 for _, full, rest, _ in bars)
    drawn = [
        line for line in re.split(r"[\r\n]+", text) if line.startswith("epoch") and "[" in line
    ]
    assert max(map(len, drawn)) < 80
    assert "100" in {percent for *_, percent in bars}
    assert len(re.findall(r"\repoch \d/3  loss .* s\r\n", text)) == 3
    assert re.search(r"test accuracy .*everything is in run/\r\n$", text)


# Data -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dataset", "hint"),
    [
        ("mnist", "MNIST comes as four gzipped IDX files"),
        ("fashion-mnist", "dataset-fashion-mnist"),
        ("cifar10", "cifar-10-batches-py"),
        ("shakespeare", "package shakespeare"),
    ],
)
def test_missing_data(dataset, hint, tmp_path, capsys):
    missing = tmp_path / "nowhere"
    error = refused(call(capsys, "train", dataset, "--data", missing, "--out", tmp_path / "run"))
    assert error.startswith("needle train: no file ") and hint in error and str(missing) in error
    assert not (tmp_path / "run").exists()


def test_an_empty_folder_of_texts(tmp_path, capsys):
    error = refused(call(capsys, "train", "shakespeare", "--data", tmp_path))
    assert "expected more than 128 symbols" in error


@pytest.mark.parametrize(
    ("dataset", "model", "class_name"),
    [
        ("mnist", "cnn", r"\d"),
        ("mnist", "mlp-resnet", r"\d"),
        ("fashion-mnist", "resnet9", r"T-shirt|\w+"),
        ("cifar10", "cnn", r"airplane|\w+"),
    ],
)
def test_every_image_format(dataset, model, class_name, tmp_path, capsys):
    """Small files of noise in the real formats: trained on, and predicted from the run alone."""
    write = write_cifar10 if dataset == "cifar10" else write_mnist
    write(tmp_path)
    run = tmp_path / "run"
    result = call(capsys, "train", dataset, "--model", model, "--data", tmp_path, "--epochs", "1",
                  "--batch-size", "10", "--out", run)  # fmt: skip
    assert result.code == 0 and "1/1" in result.out
    shape = (3, 32, 32) if dataset == "cifar10" else (28, 28)
    np.save(tmp_path / "x.npy", np.zeros(shape, np.uint8))
    found = call(capsys, "predict", run, tmp_path / "x.npy").out
    assert re.fullmatch(rf".*x\.npy: ({class_name}) \(\d+\.\d%\)\n", found)


def test_damaged_data(tmp_path, capsys):
    write_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"not gzip")
    error = refused(call(capsys, "train", "mnist", "--data", tmp_path))
    assert "train-images-idx3-ubyte.gz is not a whole gzip file" in error


def test_shifted_images():
    images = np.arange(2 * 2 * 3 * 3, dtype=np.float32).reshape(2, 2, 3, 3)
    same = tasks.shifted(images, np.array([[1, 1], [1, 1]]), 1)
    np.testing.assert_array_equal(same, images)
    moved = tasks.shifted(images, np.array([[0, 1], [2, 2]]), 1)
    np.testing.assert_array_equal(moved[0, :, 1:], images[0, :, :-1])
    assert (moved[0, :, 0] == 0).all()
    np.testing.assert_array_equal(moved[1, :, :-1, :-1], images[1, :, 1:, 1:])
    assert (moved[1, :, -1] == 0).all() and (moved[1, :, :, -1] == 0).all()
