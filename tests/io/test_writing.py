"""Files are replaced whole, by threads, processes and killed ones; what is no file is left."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

import needle as ndl
from needle.system import writing
from needle.system.writing import building_folder, remove_abandoned, replacing, write_whole

PART = ".x.ndl.needle-0123456789abcdef.part"


def mode_of(path):
    return stat.S_IMODE(path.lstat().st_mode)


def filled(number, size):
    """Tensors of different sizes, whose elements are all the number."""
    return {"x": ndl.full((size + number,), float(number)), "of": number}


def is_one_value(loaded, size):
    values, number = loaded["x"].numpy(), loaded["of"]
    return values.shape == (size + number,) and (values == number).all()


def test_threads_that_save_to_one_path(tmp_path):
    path, failed = tmp_path / "x.ndl", []

    def saving(number):
        try:
            for _ in range(10):
                ndl.save(filled(number, 50_000), path)
                assert is_one_value(ndl.load(path), 50_000)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=saving, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert os.listdir(tmp_path) == ["x.ndl"]


SAVING = """
import sys
import needle as ndl
number, path = int(sys.argv[1]), sys.argv[2]
x = ndl.full((200_000 + number,), float(number))
print("ready", flush=True)
for _ in range(int(sys.argv[3])):
    ndl.save({"x": x, "of": number}, path)
"""


def start_saving(number, path, times):
    command = [sys.executable, "-c", SAVING, str(number), str(path), str(times)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def test_processes_that_save_to_one_path(tmp_path):
    path = tmp_path / "x.ndl"
    ndl.save(filled(0, 200_000), path)
    processes = [start_saving(i, path, 15) for i in (1, 2)]
    while any(process.poll() is None for process in processes):
        assert is_one_value(ndl.load(path), 200_000)
    for process in processes:
        with process:
            assert process.returncode == 0
    assert ndl.load(path)["of"] in (1, 2)
    assert os.listdir(tmp_path) == ["x.ndl"]


def test_what_killed_saves_leave_is_removed_by_the_next(tmp_path):
    held = "import sys, time\nfrom needle.system.writing import replacing\n"
    held += "with replacing(sys.argv[1]) as file:\n    file.write(b'x')\n    file.flush()\n"
    held += "    print('ready', flush=True)\n    time.sleep(600)"
    for name in ("a.ndl", "b.ndl"):
        command = [sys.executable, "-c", held, str(tmp_path / name)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            # while it lives, others leave its file alone
            ndl.save([1], tmp_path / "c.ndl")
            assert len(list(tmp_path.glob(f".{name}.needle-*.part"))) == 1
            process.send_signal(signal.SIGKILL)
    ndl.save([2], tmp_path / "c.ndl")
    assert os.listdir(tmp_path) == ["c.ndl"]


def test_only_what_is_ours_is_removed(tmp_path):
    others = [".x.part", "x.part", ".x.needle-1.part", "building-mine", ".needle-0123.part"]
    for name in others:
        (tmp_path / name).write_text("not ours")
    os.mkfifo(tmp_path / PART)
    (tmp_path / "building-0123456789abcdef").symlink_to(tmp_path)
    (tmp_path / PART.replace("x", "y")).write_text("ours")
    ndl.save([1], tmp_path / "x.ndl")
    kept = {*others, PART, "building-0123456789abcdef", "x.ndl"}
    assert set(os.listdir(tmp_path)) == kept


def test_a_temporary_that_is_removed_before_it_is_locked(tmp_path, monkeypatch):
    """The others find it in the moment in which it exists and nobody holds it."""
    lock, removed = fcntl.flock, []

    def at_the_worst_time(descriptor, operation):
        if not removed:
            removed.append(True)
            monkeypatch.setattr(fcntl, "flock", lock)
            remove_abandoned(tmp_path)
            assert os.listdir(tmp_path) == []
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", at_the_worst_time)
    write_whole(tmp_path / "x", "text")
    assert removed and (tmp_path / "x").read_text() == "text"


def test_without_locks_nothing_is_removed(tmp_path, monkeypatch):
    def no_locks(descriptor, operation):
        raise OSError("not supported")

    (tmp_path / PART).write_text("perhaps somebody's")
    monkeypatch.setattr(fcntl, "flock", no_locks)
    write_whole(tmp_path / "x", "text")
    assert set(os.listdir(tmp_path)) == {"x", PART}


def test_folders_of_killed_builds_are_removed(tmp_path):
    left = tmp_path / "building-0123456789abcdef"
    left.mkdir()
    (left / "kernels.c").write_text("int x;")
    with building_folder(str(tmp_path)) as folder:
        remove_abandoned(tmp_path)
        assert not left.exists() and os.path.isdir(folder)
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert os.listdir(tmp_path) == []


# Links, modes, and what is no file ---------------------------------------------------------------


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_a_link(tmp_path, exists):
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "real.ndl"
    if exists:
        ndl.save([0], target)
    (tmp_path / "middle").symlink_to("folder/real.ndl")
    link = tmp_path / "link.ndl"
    link.symlink_to("middle")
    ndl.save([1], link)
    assert link.is_symlink() and not target.is_symlink()
    assert ndl.load(target) == ndl.load(link) == [1]
    assert os.listdir(tmp_path / "folder") == ["real.ndl"]


def test_links_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        ndl.save([1], tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o400])
def test_the_mode_of_the_old_file_stays(tmp_path, mode):
    path = tmp_path / "x.ndl"
    ndl.save([0], path)
    path.chmod(mode)
    ndl.save([1], path)
    assert mode_of(path) == mode and ndl.load(path) == [1]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_new_files_respect_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        ndl.save([0], tmp_path / "x.ndl")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "x.ndl") == 0o666 & ~mask


def test_a_file_that_is_replaced_is_private_until_it_is_whole(tmp_path):
    path = tmp_path / "x"
    path.write_text("secret")
    path.chmod(0o604)
    with replacing(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert mode_of(path) == 0o604


def special(tmp_path, kind):
    path = tmp_path / "x"
    if kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/null")
    return path


@pytest.mark.parametrize("kind", ["a named pipe", "a folder", "a device"])
def test_what_is_no_file_is_refused(tmp_path, kind):
    path = special(tmp_path, kind)
    before = path.stat()
    with pytest.raises(ValueError, match=rf"\[save\] expected .*x to be a file, but it is {kind}"):
        ndl.save({"x": ndl.ones(2)}, path)
    with pytest.raises(ValueError, match=rf"\[load\] expected .*x to be a file, but it is {kind}"):
        ndl.load(path)
    with pytest.raises(ValueError, match=rf"\[load\] expected .*x to be a file, but it is {kind}"):
        ndl.load_exported(path)
    with pytest.raises(
        ValueError, match=rf"\[export\] expected .*x to be a file, but it is {kind}"
    ):
        ndl.export(lambda x: x + 1, ndl.ones(2), path=path)
    assert path.stat()[:4] == before[:4] and os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("name", ["", "x.ndl/", "new/"])
def test_paths_that_name_no_file(tmp_path, monkeypatch, name):
    """They meant the folder above, or a file of another name."""
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    with pytest.raises(ValueError, match=rf"\[save\] expected the path of a file, got '{name}'"):
        ndl.save([1], name)
    assert os.listdir(inside) == [] and os.listdir(tmp_path) == ["inside"]


def test_a_pipe_that_takes_the_place_of_a_file(tmp_path, monkeypatch):
    """Between the look at what it is, and opening it."""
    path = tmp_path / "x.ndl"
    ndl.save([1], path)
    look = writing.regular_file

    def and_exchange(path, what):
        found = look(path, what)
        os.unlink(path)
        os.mkfifo(path)
        return found

    monkeypatch.setattr(writing, "regular_file", and_exchange)
    with pytest.raises(ValueError, match=r"\[load\] expected .* but it is a named pipe"):
        ndl.load(path)


def test_c_source_is_not_written_over_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "m.c")
    with pytest.raises(ValueError, match=r"\[export\] expected .*m\.c to be a file"):
        ndl.export(lambda x: x + 1, ndl.ones(2), path=tmp_path / "m.c")
    assert (tmp_path / "m.c").is_fifo()


def test_errors_name_the_file_of_the_user(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"'.*/nowhere/x\.ndl'"):
        ndl.save([1], tmp_path / "nowhere" / "x.ndl")
    with pytest.raises(FileNotFoundError, match=r"'.*/x\.ndl'"):
        ndl.load(tmp_path / "x.ndl")


@pytest.mark.parametrize("name", ["é" * 127, "x" * 255])
def test_names_as_long_as_the_system_allows(tmp_path, name):
    ndl.save([1], tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_relative_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ndl.save({"x": np.ones(2)}, "x.ndl")
    assert ndl.load("x.ndl")["x"].tolist() == [1, 1]
    with pytest.raises(ValueError, match="a folder"):
        ndl.save([1], ".")
