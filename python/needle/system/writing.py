"""Writing files whole: a file at a path is the old one or the new one, never a part of one.

The new file is written beside the old one under a name of its own, brought to the disk, and then
takes the old one's place. Threads and processes that write one path at the same time do not meet;
the last one's file stays.

What a killed process leaves behind is removed by the next one that writes into the same folder.
A temporary file or folder is locked by its writer (flock), and the system takes the lock away when
the writer ends, however it ends: what can be locked belongs to nobody. Unlike an age or a process's
number, this is right for slow writers, for clocks that differ, and for containers that share a
folder and number their processes apart.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

# .model.ndl.needle-0123456789abcdef.part, and building-0123456789abcdef for folders
_OURS = re.compile(r"\..*\.needle-[0-9a-f]{16}\.part|building-[0-9a-f]{16}", re.DOTALL)
_LONGEST_NAME = 255 - len("..needle-0123456789abcdef.part")  # bytes, on most file systems
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def regular_file(path: str | os.PathLike[str], what: str) -> os.stat_result | None:
    """What the system says about the file that `path` leads to; None if there is none. Raises
    if it is something else than a file: reading a pipe waits, and writing would remove it."""
    name = os.fspath(path)
    if not name or name.endswith(os.sep):
        raise ValueError(f"[{what}] expected the path of a file, got {name!r}.")
    try:
        return _checked(os.stat(path), path, what)
    except FileNotFoundError:
        return None


def open_file(path: str | os.PathLike[str], what: str) -> BinaryIO:
    """A file to read, whatever takes its place meanwhile: opening a pipe would wait."""
    regular_file(path, what)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _checked(os.fstat(descriptor), path, what)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _checked(found: os.stat_result, path: str | os.PathLike[str], what: str) -> os.stat_result:
    if stat.S_ISREG(found.st_mode):
        return found
    kind = next((name for is_kind, name in _KINDS if is_kind(found.st_mode)), "no file")
    raise ValueError(f"[{what}] expected {os.fspath(path)} to be a file, but it is {kind}.")


@contextmanager
def replacing(path: str | os.PathLike[str], what: str = "save") -> Iterator[BinaryIO]:
    """A file to write, which becomes the file at `path` when the block ends without an error.

    A link stays a link: the file that it leads to is replaced. The new file has the old one's
    mode and, where the system allows it, its owner; without an old one, those of any new file.
    `what` is for errors."""
    old = regular_file(path, what)
    target = os.path.realpath(path)
    remove_abandoned(os.path.dirname(target))  # before: the disk may be full of it
    try:
        file, temporary = _create_beside(target, 0o666 if old is None else 0o600)
    except OSError as error:  # about the file that the user named
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with file:
            yield file
            file.flush()
            if old is not None:
                _adopt(file.fileno(), old)
            os.fsync(file.fileno())
            os.replace(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    _sync_folder(os.path.dirname(target))


def write_whole(path: str | os.PathLike[str], content: str | bytes, what: str = "save") -> None:
    """Replace the file at `path` by one with this content; text is UTF-8."""
    with replacing(path, what) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def building_folder(parent: str) -> Iterator[str]:
    """A new folder in `parent` that only its owner can enter; removed when the block ends."""
    while True:
        folder = os.path.join(parent, f"building-{os.urandom(8).hex()}")
        os.mkdir(folder, 0o700)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if _hold(descriptor, folder):
            break
        os.close(descriptor)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_abandoned(folder: str | os.PathLike[str]) -> None:
    """Delete the temporaries in a folder whose writers have ended."""
    with suppress(OSError), os.scandir(folder or ".") as entries:  # may be written, but not listed
        for entry in [e for e in entries if _OURS.fullmatch(e.name)]:
            with suppress(OSError):  # somebody else's, or gone
                _remove_if_abandoned(entry)


def _remove_if_abandoned(entry: os.DirEntry[str]) -> None:
    is_folder = entry.is_dir(follow_symlinks=False)
    if not is_folder and not entry.is_file(follow_symlinks=False):
        return
    access = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_RDWR
    descriptor = os.open(entry.path, access | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_folder:
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    finally:
        os.close(descriptor)


def _create_beside(target: str, mode: int) -> tuple[BinaryIO, str]:
    """A new file in the folder of `target`, held by us, and its name. Made by the system with
    `mode`, so that the umask counts, which a process cannot ask for without changing it."""
    folder, name = os.path.split(target)
    short = os.fsdecode(os.fsencode(name)[:_LONGEST_NAME])
    while True:
        temporary = os.path.join(folder, f".{short}.needle-{os.urandom(8).hex()}.part")
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        if _hold(descriptor, temporary):
            return os.fdopen(descriptor, "wb"), temporary
        os.close(descriptor)


def _hold(descriptor: int, path: str) -> bool:
    """Lock what was just made; False if it was taken for abandoned before that, and removed.
    On a file system without locks nothing is ever taken for abandoned."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _adopt(descriptor: int, old: os.stat_result) -> None:
    """Give a file the owner, if we may, and the mode of another."""
    with suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _sync_folder(folder: str) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
