"""Building C with the machine's compiler, and a cache of what was built.

A library is named by a hash of its source, the compiler's version, and the flags. The cache is a
folder that only its owner can enter, and a file in it is loaded only if nobody else could have
written it. Files appear under their names complete or not at all, so processes need no locks. A
file ends with a hash of its bytes: one that a crash of the machine has damaged is built again.
Without a folder for the cache, libraries are built in temporary folders, for this process alone.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from .. import _native, config
from ..system.writing import building_folder, remove_abandoned

COMPILERS = ("cc", "gcc", "clang")
# Those of the native kernels (CMakeLists.txt): nothing that changes a result.
COMMON = (
    "-std=c11", "-O3", "-fPIC", "-shared", "-Werror=implicit-function-declaration",
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
)  # fmt: skip
DIGEST_BYTES = hashlib.sha256().digest_size
AVX2 = ("-mavx2", "-mfma", "-mf16c")
AVX512 = (
    *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c"),
    "-mprefer-vector-width=512",
)
# By the instruction set that the native kernels use.
WITH_AVX512 = ("avx512", "avx512bf16", "amx")
MACHINE: dict[str, tuple[str, ...]] = {"avx2": AVX2, **dict.fromkeys(WITH_AVX512, AVX512)}


class BuildError(RuntimeError):
    """There is no compiler, it refused a source, or the cache cannot be trusted."""


class Refused(BuildError):
    """A compiler that works refused a source: the source is wrong."""


@cache
def compiler() -> str | None:
    """The path of the machine's C compiler, if it has one."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


@cache
def _version(path: str) -> str:
    found = subprocess.run([path, "--version"], capture_output=True, text=True)
    if found.returncode != 0:
        raise BuildError(f"[jit] the C compiler {path} does not run:\n{found.stderr[:2000]}")
    return found.stdout


def library(source: str, what: str = "jit") -> ctypes.CDLL:
    """The library of a C source: loaded from the cache, or built now. `what` is for errors."""
    command = _command(what)
    identity = "\0".join([source, *command, _version(command[0]), platform.machine()])
    name = hashlib.sha256(identity.encode()).hexdigest()[:40] + ".so"
    if config.CACHE is None:
        return _uncached(name, tuple(command), source, what)
    try:
        with _held(checked_folder(config.CACHE)) as folder:
            path = os.path.join(folder, name)
            if not _is_intact(path):
                _build(command, source, path, what)
            return _loaded(path, what)
    except OSError as error:
        raise BuildError(
            f"[{what}] built programs cannot be kept in {config.CACHE}: {error.strerror}; set "
            "XDG_CACHE_HOME to a folder that can be written."
        ) from None


@cache
def _uncached(name: str, command: tuple[str, ...], source: str, what: str) -> ctypes.CDLL:
    """A library whose file is gone once it is loaded. One of each in a process."""
    try:
        with tempfile.TemporaryDirectory(prefix="needle-") as folder:
            path = os.path.join(folder, name)
            _build(list(command), source, path, what)
            return _loaded(path, what)
    except OSError as error:
        raise BuildError(f"[{what}] programs cannot be built: {error}.") from None


def _loaded(path: str, what: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise BuildError(f"[{what}] the built program cannot be loaded: {error}") from None


def _command(what: str) -> list[str]:
    path = compiler()
    if path is None:
        raise BuildError(
            f"[{what}] expected a C compiler (cc, gcc or clang), found none; install one"
            + (", or set NEEDLE_JIT=tile." if what == "jit" else ".")
        )
    return [path, *COMMON, *MACHINE.get(_native.instruction_set(), ())]


@cache
def _works(command: tuple[str, ...]) -> bool:
    """Does the compiler build a program that has nothing wrong? It may lack headers, say."""
    source = b"#include <math.h>\n#include <stdint.h>\n#include <string.h>\nint one;\n"
    with tempfile.TemporaryDirectory(prefix="needle-") as folder:
        made = [*command, "-o", os.path.join(folder, "one.so"), "-x", "c", "-", "-lm"]
        return subprocess.run(made, input=source, capture_output=True).returncode == 0


# Files -------------------------------------------------------------------------------------------


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


def _build(command: list[str], source: str, path: str, what: str) -> None:
    """Compile in a folder of its own, then give the result its name at once."""
    cached = os.path.dirname(path)
    remove_abandoned(cached)
    with building_folder(cached) as folder:
        c_file, made = os.path.join(folder, "kernels.c"), os.path.join(folder, "kernels.so")
        with open(c_file, "w") as file:
            file.write(source)
        behind_others = ["nice"] if shutil.which("nice") else []
        process = subprocess.Popen(
            [*behind_others, *command, "-o", made, c_file, "-lm"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        atexit.register(process.kill)  # the program ends before its kernels are built
        try:
            errors = process.communicate()[1]
        finally:
            atexit.unregister(process.kill)
        if process.returncode != 0:
            is_wrong = process.returncode > 0 and _works(tuple(command))
            raise (Refused if is_wrong else BuildError)(
                f"[{what}] the C compiler refused a program:\n{errors[:2000]}"
            )
        with open(made, "rb+") as library:
            library.write(_digest(library.read()))  # at the end, where a loader does not look
        os.chmod(made, 0o700)
        os.replace(made, path)
