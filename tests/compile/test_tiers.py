"""The second tier: kernels built by the C compiler, the cache that keeps them, swapping them in."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim
from needle.backend import build_cache, c_build
from needle.compiler.c import tiers

pytestmark = pytest.mark.skipif(c_build.compiler() is None, reason="needs a C compiler")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(c_build.config, "CACHE", str(tmp_path / "needle" / "kernels"))
    return tmp_path / "needle" / "kernels"


def training(mode, monkeypatch, steps=3):
    """Losses and weights after some steps of a small network, and the compiled step."""
    monkeypatch.setattr(tiers.config, "JIT", mode)
    rng = np.random.default_rng(0)
    ndl.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 40), nn.GELU(), nn.LayerNorm1d(40), nn.Linear(40, 5))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    x, y = ndl.tensor(rng.standard_normal((30, 12)).astype("f4")), rng.integers(0, 5, 30)

    @ndl.jit
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward(create_graph=False)
        optimizer.step()
        return loss

    losses = [step(x, ndl.tensor(y)).item() for _ in range(steps)]
    return losses, [w.numpy() for w in model.parameters()], step


def test_built_kernels_train_the_same(folder, monkeypatch):
    losses, weights, _ = training("tile", monkeypatch)
    built_losses, built_weights, step = training("native", monkeypatch)
    assert step.program.calls.built and list(folder.glob("*.so"))
    np.testing.assert_allclose(losses, built_losses, rtol=1e-5)
    for a, b in zip(weights, built_weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert any("void k0_0(" in kernel.text for kernel in step.kernels)


@pytest.fixture
def eager_to_build(monkeypatch):
    """Every program counts as hot, and built kernels as faster."""
    monkeypatch.setattr(tiers, "HOT_SECONDS", 0.0)
    monkeypatch.setattr(tiers, "MARGIN", 1e9)
    monkeypatch.setattr(tiers, "SHARE", 0.0)


def join_builds():
    for thread in threading.enumerate():
        if thread.name == "needle-build":
            thread.join()


def test_what_is_hot_is_built_in_the_background_and_tried(folder, eager_to_build, monkeypatch):
    monkeypatch.setattr(tiers.config, "JIT", "auto")
    w = ndl.tensor(np.ones((64, 64), np.float32))
    step = ndl.jit(lambda x: (x @ w).tanh() * 2)
    x = ndl.tensor(np.random.default_rng(0).standard_normal((64, 64)).astype("f4"))
    expected = step(x).numpy()
    calls = step.program.calls
    while calls.upgrade is not None:
        np.testing.assert_array_equal(step(x).numpy(), expected)
        join_builds()
    assert calls.built
    np.testing.assert_array_equal(step(x).numpy(), expected)


def test_swapping_changes_no_bit_of_a_training(folder, eager_to_build, monkeypatch):
    losses, weights, _ = training("tile", monkeypatch, steps=30)
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.run)  # builds at once
    swapped_losses, swapped_weights, step = training("auto", monkeypatch, steps=30)
    assert step.program.calls.built and step.program.calls.upgrade is None
    assert losses == swapped_losses
    for a, b in zip(weights, swapped_weights, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype, shape", [("float32", (3000, 5)), ("float64", (33, 20))])
def test_what_is_swapped_in_keeps_bits_of_rows_side_by_side(folder, monkeypatch, dtype, shape):
    """Columns of memory as rows, which the native machine adds up in other blocks."""
    x = ndl.tensor(np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    build = tiers.build
    monkeypatch.setattr(tiers, "build", lambda nodes: build(nodes, keep_bits=True))
    found = []
    for mode in ("tile", "native"):
        monkeypatch.setattr(tiers.config, "JIT", mode)
        step = ndl.jit(lambda x: (nn.functional.softmax(x, 0), (x.T * 2).exp().sum(1), x.exp() * 2))
        found.append([t.numpy() for t in step(x)])
    assert step.program.calls.built
    for tile, native in zip(*found, strict=True):
        np.testing.assert_array_equal(tile, native)


def test_short_programs_build_nothing(folder, monkeypatch):
    _, _, step = training("auto", monkeypatch, steps=5)
    assert not step.program.calls.built and not folder.exists()


def test_without_a_compiler(folder, monkeypatch):
    monkeypatch.setattr(c_build, "compiler", lambda: None)
    with pytest.raises(RuntimeError, match="expected a C compiler"):
        training("native", monkeypatch)
    monkeypatch.setattr(tiers, "HOT_SECONDS", 0.0)
    losses, _, _ = training("auto", monkeypatch, steps=20)
    assert losses[-1] < losses[0]


def test_a_compiler_that_does_not_work_is_like_none(folder, eager_to_build, monkeypatch, tmp_path):
    broken = tmp_path / "cc"
    broken.write_text('#!/bin/sh\ntest "$1" = --version\n')
    broken.chmod(0o700)
    monkeypatch.setattr(c_build, "compiler", lambda: str(broken))
    with pytest.raises(c_build.BuildError, match="refused"):
        training("native", monkeypatch)
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.run)  # builds at once
    training("auto", monkeypatch, steps=20)  # no warning, which would be an error


def test_c_of_ours_that_does_not_compile_is_reported(folder, eager_to_build, monkeypatch):
    monkeypatch.setattr(tiers, "elements_of", lambda text: "")
    with pytest.raises(c_build.Refused, match="unknown type name"):
        training("native", monkeypatch)
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.run)
    with pytest.warns(RuntimeWarning, match=r"bug of needle[\s\S]*unknown type name") as found:
        losses, _, step = training("auto", monkeypatch, steps=20)
    assert len(found) == 1 and losses[-1] < losses[0] and step.program.calls.upgrade is None


# The cache ---------------------------------------------------------------------------------------

SOURCE = "int answer(void) { return 42; }"


def test_a_library_is_built_once(folder, monkeypatch):
    assert c_build.library(SOURCE).answer() == 42
    (built,) = folder.iterdir()
    assert built.stat().st_mode & 0o077 == 0 and folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(c_build, "_build", None)  # would fail if it were called
    assert c_build.library(SOURCE).answer() == 42


def test_the_name_depends_on_everything(folder, monkeypatch):
    has_flags = ndl.backend.native.kernels.instruction_set() in c_build.MACHINE
    c_build.library(SOURCE)
    c_build.library(SOURCE + "\n")
    monkeypatch.setattr(c_build, "MACHINE", {})
    c_build.library(SOURCE)
    monkeypatch.setattr(c_build, "_version", lambda path: "another")
    c_build.library(SOURCE)
    assert len(list(folder.iterdir())) == (4 if has_flags else 3)


def test_files_that_others_could_have_written_are_refused(folder):
    c_build.library(SOURCE)
    (built,) = folder.iterdir()
    built.chmod(0o722)
    with pytest.raises(c_build.BuildError, match="somebody else"):
        c_build.library(SOURCE)
    built.chmod(0o700)
    folder.chmod(0o755)
    with pytest.raises(c_build.BuildError, match="only its owner"):
        c_build.library(SOURCE)
    folder.chmod(0o700)
    real = built.with_suffix(".real")
    built.rename(real)
    built.symlink_to(real)
    with pytest.raises(c_build.BuildError, match="somebody else"):
        c_build.library(SOURCE)


def test_a_folder_of_another_user_is_refused(folder, monkeypatch):
    c_build.library(SOURCE)
    monkeypatch.setattr(os, "geteuid", lambda: 12345678)
    with pytest.raises(c_build.BuildError, match="only its owner"):
        c_build.library(SOURCE)


def test_a_folder_that_is_exchanged_after_it_was_checked(folder, monkeypatch):
    """By somebody who may write the folder that it is in."""
    source, theirs = "int value(void) { return 1; }", "int value(void) { return 2; }"
    c_build.library(source)
    (ours,) = folder.iterdir()
    c_build.library(theirs)
    (other,) = set(folder.iterdir()) - {ours}
    evil = folder.with_name("evil")
    evil.mkdir()
    (evil / ours.name).write_bytes(other.read_bytes())
    intact = build_cache._is_intact

    def then_exchanged(path):
        found = intact(path)
        folder.rename(folder.with_name("away"))
        evil.rename(folder)
        return found

    monkeypatch.setattr(build_cache, "_is_intact", then_exchanged)
    monkeypatch.setattr(c_build.ctypes, "CDLL", lambda path: Path(path).read_bytes())
    assert c_build.library(source) == (folder.with_name("away") / ours.name).read_bytes()


@pytest.mark.parametrize("kept", [0, 100, 4096, -40])
def test_damaged_files_are_built_again(folder, kept):
    assert c_build.library(SOURCE).answer() == 42
    (file,) = folder.iterdir()
    code = (  # in a process of its own: loading a file that was cut off can end it
        "from needle import config; import sys; config.CACHE = sys.argv[1]\n"
        "from needle.backend import c_build\n"
        f"assert c_build.library({SOURCE!r}).answer() == 42"
    )
    whole = file.read_bytes()
    file.unlink()  # this process has the file mapped: cutting it off in place would end it
    file.write_bytes(whole[:kept])
    file.chmod(0o700)
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    assert [f.read_bytes() for f in folder.iterdir()] == [whole]


def test_a_folder_that_cannot_be_made(folder):
    folder.parent.write_text("a file")
    with pytest.raises(c_build.BuildError, match=r"cannot be kept .*; set XDG_CACHE_HOME"):
        c_build.library(SOURCE)


def test_a_compiler_that_does_not_run(folder, tmp_path, monkeypatch):
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho no license >&2\nexit 3\n")
    broken.chmod(0o700)
    monkeypatch.setattr(c_build, "compiler", lambda: str(broken))
    with pytest.raises(c_build.BuildError, match=r"does not run:\nno license"):
        c_build.library(SOURCE)


def test_sources_that_do_not_compile_leave_nothing(folder):
    with pytest.raises(c_build.BuildError, match="refused"):
        c_build.library("int answer(void) { return }")
    assert list(folder.iterdir()) == []


def test_processes_build_at_the_same_time(folder):
    code = (
        "from needle import config; import sys; config.CACHE = sys.argv[1]\n"
        "from needle.backend import c_build\n"
        f"assert c_build.library({SOURCE!r}).answer() == 42"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(folder)]) for _ in range(4)]
    assert [run.wait() for run in runs] == [0] * 4
    assert len(list(folder.iterdir())) == 1


def test_what_killed_builds_left_is_removed(folder):
    folder.mkdir(parents=True, mode=0o700)
    left = folder / "building-0123456789abcdef"
    left.mkdir()
    (left / "kernels.c").write_text("int x;")
    assert c_build.library(SOURCE).answer() == 42
    assert [file.suffix for file in folder.iterdir()] == [".so"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"HOME": "", "XDG_CACHE_HOME": ""}, None),
        ({"HOME": "somewhere", "XDG_CACHE_HOME": ""}, None),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "relative/cache"}, None),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": ""}, "/home/me/.cache/needle/kernels"),
        ({"HOME": "", "XDG_CACHE_HOME": "/var/me"}, "/var/me/needle/kernels"),
    ],
)
def test_where_the_cache_is(settings, expected, monkeypatch):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert c_build.config._cache() == expected


def test_without_a_cache_programs_are_built_and_nothing_stays(tmp_path, monkeypatch):
    """As a process sees it whose home is empty, in a folder of its own."""
    code = (
        "import numpy as np, needle as ndl\n"
        "f = ndl.jit(lambda x: (x * 2 + 1).exp().sum())\n"
        "x = ndl.ones(1000)\n"
        "for _ in range(3): np.testing.assert_allclose(f(x).numpy(), 1000 * np.exp(3), rtol=1e-5)\n"
        "from needle.backend import c_build\n"
        f"assert c_build.library({SOURCE!r}).answer() == 42\n"
        f"assert c_build.library({SOURCE!r}) is c_build.library({SOURCE!r})\n"
    )
    temporary, here = tmp_path / "temporary", tmp_path / "here"
    temporary.mkdir()
    here.mkdir()
    settings = {"HOME": "", "XDG_CACHE_HOME": "cache", "TMPDIR": str(temporary)}
    environment = {**os.environ, **settings, "NEEDLE_JIT": "native"}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=here, check=True)
    assert not list(temporary.iterdir()) and not list(here.iterdir())


def test_the_setting_is_checked():
    code = "import needle"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NEEDLE_JIT": "fast"},
        capture_output=True,
        text=True,
    )
    assert "NEEDLE_JIT must be one of auto, tile, native, off" in run.stderr
