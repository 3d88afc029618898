"""Arguments, help, and the commands that use what was trained."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import needle as ndl
from needle.cli import picture
from needle.cli.command_line import MODELS

from .helpers import call, refused, start


@pytest.mark.parametrize("command", [(), ("train",), ("generate",), ("predict",), ("summary",),
                                     ("info",), ("explain",)])  # fmt: skip
def test_help(command, capsys):
    result = call(capsys, *command, "--help")
    assert result.code == 0 and result.err == ""
    assert result.out.startswith(f"usage: {' '.join(('needle', *command))}")


def test_needle_alone_shows_the_commands(capsys):
    result = call(capsys)
    assert result.code == 2 and result.out == ""
    assert result.err.startswith("usage: needle") and "train a model on a data set" in result.err


def test_help_of_train_names_every_choice(capsys):
    text = " ".join(call(capsys, "train", "--help").out.split())
    for name in (*MODELS, "digits", "mnist", "fashion-mnist", "cifar10", "shakespeare"):
        assert name in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dance",), "argument COMMAND: invalid choice: 'dance'"),
        (("train",), "say which data set to train on, or --resume RUN"),
        (("train", "imagenet"), "argument DATASET: invalid choice: 'imagenet'"),
        (("train", "digits", "--epochs", "0"), "expected a whole number of at least 1, got '0'"),
        (("train", "digits", "--epochs", "many"), "a whole number of at least 1, got 'many'"),
        (("train", "digits", "--lr", "0"), "expected a number above 0, got '0'"),
        (("train", "digits", "--lr", "nan"), "expected a number above 0, got 'nan'"),
        (("train", "digits", "--seed", "-1"), "expected a whole number from 0 to 4294967295"),
        (("train", "digits", "--seed", "99999999999"), "a whole number from 0 to 4294967295"),
        (("train", "digits", "--out", "/dev/null/x"), "--out /dev/null/x: Not a directory"),
        (("train", "digits", "--model", "gpt"), "--model gpt does not fit digits; choose from mlp"),
        (("train", "digits", "--model", "vgg"), "argument --model: invalid choice: 'vgg'"),
        (
            ("train", "digits", "--batch-size", "5000"),
            "--batch-size 5000 is more than the training",
        ),
        (("train", "digits", "--device", "cuda"), "--device cuda: [cuda()] this device is not"),
        (("train", "--resume", "nowhere"), "nowhere is not a run: it has no config.json"),
        (("generate", "nowhere"), "nowhere is not a run: it has no config.json"),
        (("predict", "nowhere"), "the following arguments are required: FILE"),
        (("train", "digits", "--data", "/tmp"), "digits comes with needle: leave out --data"),
        (("explain", "cnn", "a", "b"), "cnn is a model, not a script: leave out a b"),
        (("summary", "gpt", "--dataset", "digits"), "gpt is a model of text: leave out --dataset"),
        (("summary", "vgg"), "argument MODEL: invalid choice: 'vgg'"),
        (("info", "more"), "unrecognized arguments: more"),
    ],
)
def test_bad_arguments(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused(call(capsys, *arguments))
    assert list(tmp_path.iterdir()) == []


def test_version_and_module(tmp_path):
    process = start("--version", folder=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, f"needle {ndl.__version__}\n", "")


def test_exit_code_of_the_process(tmp_path):
    process = start("train", "digits", "--epochs", "-1", folder=tmp_path, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)  # fmt: skip
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)


def test_a_reader_that_goes_away(tmp_path):
    process = start("summary", "gpt", folder=tmp_path, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)  # fmt: skip
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 1


def test_info(capsys):
    result = call(capsys, "info")
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in result.out.splitlines())
    assert result.code == 0
    assert lines["needle"] == ndl.__version__
    assert lines["devices"].startswith("cpu, cpu_numpy")
    assert re.fullmatch(r".*\(in use: \w+\)", lines["instruction sets"])
    assert lines["threads"] == str(ndl.get_num_threads())
    assert re.search(r"[\d.]+ GiB", lines["memory"])


@pytest.mark.parametrize("model", MODELS)
def test_summary(model, capsys):
    result = call(capsys, "summary", model)
    assert result.code == 0
    assert re.search(r"^parameters [\d,]+$", result.out, re.M)


def test_generate(text_run, capsys):
    folder, _ = text_run
    first, again, other = (
        call(capsys, "generate", folder, "--prompt", "to be", "--length", "30", "--seed", seed)
        for seed in "112"
    )
    assert first.code == 0 and first.out.startswith("to be") and len(first.out) == 36
    assert first.out == again.out != other.out
    cold = [
        call(capsys, "generate", folder, "--prompt", "to", "--length", "9", "--temperature", "0",
             "--seed", seed)
        for seed in "12"
    ]  # fmt: skip
    assert cold[0].out == cold[1].out


def test_generate_refuses(text_run, digits_run, capsys):
    error = refused(call(capsys, "generate", text_run[0], "--prompt", "TO be"))
    assert error == "needle generate: --prompt: 'OT' does not occur in the training text"
    error = refused(call(capsys, "generate", text_run[0], "--prompt", ""))
    assert error == "needle generate: --prompt: is empty"
    assert "was trained on images (digits): use predict" in refused(
        call(capsys, "generate", digits_run[0])
    )


def test_predict(digits_run, tmp_path, capsys):
    folder, _ = digits_run
    x, y = ndl.data.digits("test")
    np.save(tmp_path / "many.npy", x[:50].reshape(-1, 8, 8))
    grey = np.round(x[0].reshape(8, 8) * 255).astype(np.uint8)
    picture.write_png(tmp_path / "one.png", grey)
    (tmp_path / "one.pgm").write_bytes(b"P5\n# a digit\n8 8\n255\n" + grey.tobytes())
    np.save(tmp_path / "one.npy", grey)
    files = [str(tmp_path / name) for name in ("many.npy", "one.png", "one.pgm", "one.npy")]
    result = call(capsys, "predict", folder, *files)
    assert result.code == 0 and result.err == ""
    lines = result.out.splitlines()
    found = [re.fullmatch(r"(.*?)(?:\[\d+\])?: (\d) \((\d+\.\d)%\)", line) for line in lines]
    right = np.mean([int(f[2]) == label for f, label in zip(found[:50], y[:50], strict=True)])
    assert right > 0.5
    assert [f[1] for f in found[50:]] == files[1:]
    assert len({f[2] for f in found[50:]}) == 1, "the same image in three formats"


def test_predict_refuses(digits_run, text_run, tmp_path, capsys):
    folder, _ = digits_run
    assert "no file nothing.png" in refused(call(capsys, "predict", folder, "nothing.png"))
    np.save(tmp_path / "large.npy", np.zeros((28, 28)))
    error = refused(call(capsys, "predict", folder, tmp_path / "large.npy"))
    assert "shape (28, 28); this model takes 8 x 8 pixels and 1 channel" in error
    (tmp_path / "text.png").write_text("hello")
    error = refused(call(capsys, "predict", folder, tmp_path / "text.png"))
    assert "is not an image that can be read: expected .npy, PNG, PGM (P5) or PPM (P6)" in error
    assert "was trained on text (shakespeare): use generate" in refused(
        call(capsys, "predict", text_run[0], tmp_path / "large.npy")
    )


def test_runs_that_are_not_whole(tmp_path, capsys, digits_run):
    (tmp_path / "config.json").write_text("{")
    assert "config.json is damaged" in refused(call(capsys, "generate", tmp_path))
    (tmp_path / "config.json").write_text((digits_run[0] / "config.json").read_text())
    error = refused(call(capsys, "predict", tmp_path, "x.png"))
    assert error.endswith("has no trained model yet: no epoch was finished")
    (tmp_path / "best.ndl").write_bytes(b"not a model")
    assert "is not a safetensors file" in refused(call(capsys, "predict", tmp_path, "x.png"))
