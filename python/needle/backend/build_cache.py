"""A cache of what was built: libraries from C, PTX from CUDA C.

It is a folder that only its owner can enter, and a file in it is used only if nobody else could
have written it. Files appear under their names complete or not at all, so processes need no locks.
A file ends with a hash of its bytes: one that a crash of the machine has damaged is built again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..system.writing import building_folder, remove_abandoned

DIGEST_BYTES = hashlib.sha256().digest_size


class BuildError(RuntimeError):
    """There is no compiler, it refused a source, or the cache cannot be trusted."""


@contextmanager
def cached_file(cache: str, name: str, make: Callable[[str], None]) -> Iterator[str]:
    """The path of a file of that name: what is in the folder `cache`, or what `make` writes now to
    the path that it is given. It leads there as long as the context lasts."""
    with _held(checked_folder(cache)) as folder:
        path = os.path.join(folder, name)
        if not _is_intact(path):
            _add(folder, path, make)
        yield path


def _add(folder: str, path: str, make: Callable[[str], None]) -> None:
    """Make it in a folder of its own, then give the result its name at once."""
    remove_abandoned(folder)
    with building_folder(folder) as building:
        made = os.path.join(building, "made" + os.path.splitext(path)[1])
        make(made)
        with open(made, "rb+") as file:
            file.write(_digest(file.read()))  # at the end, where a loader does not look
        os.chmod(made, 0o700)
        os.replace(made, path)


def checked_folder(path: str) -> str:
    """The folder, made if it is missing; only its owner may enter it, who is us."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    _check_folder(os.lstat(path), path)
    return path


def _check_folder(found: os.stat_result, path: str) -> None:
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise BuildError(
            f"[jit] expected {path} to be a folder that only its owner can enter; remove it, or "
            f"make it so (chmod 700)."
        )


@contextmanager
def _held(path: str) -> Iterator[str]:
    """The folder, checked, under a name that leads to it and to no other one, even if somebody who
    may write what it lies in puts another folder in its place."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _check_folder(os.fstat(descriptor), path)
        held = f"/proc/{os.getpid()}/fd/{descriptor}"
        yield held if os.path.isdir(held) else path  # where there is no /proc
    finally:
        os.close(descriptor)


def check_file(path: str) -> None:
    """Could anybody else have written it?"""
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        shown = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        raise BuildError(f"[jit] {shown} may have been written by somebody else; remove it.")


def _is_intact(path: str) -> bool:
    """Is it there, from nobody else, and as it was built?"""
    if not os.path.lexists(path):
        return False
    check_file(path)
    with open(path, "rb") as file:
        content = file.read()
    return content[-DIGEST_BYTES:] == _digest(content[:-DIGEST_BYTES])


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
