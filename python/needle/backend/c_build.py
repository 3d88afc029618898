"""Building C with the machine's compiler, and a cache of what was built.

A library is named by a hash of its source, the compiler's version, and the flags, in the cache of
build_cache.py. Without a folder for the cache, libraries are built in temporary folders, for this
process alone.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache

from .. import _native, config
from .build_cache import BuildError as BuildError, cached_file

COMPILERS = ("cc", "gcc", "clang")
# Those of the native kernels (CMakeLists.txt): nothing that changes a result.
COMMON = (
    "-std=c11", "-O3", "-fPIC", "-shared", "-Werror=implicit-function-declaration",
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
)  # fmt: skip
AVX2 = ("-mavx2", "-mfma", "-mf16c")
AVX512 = (
    *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c"),
    "-mprefer-vector-width=512",
)
# By the instruction set that the native kernels use.
WITH_AVX512 = ("avx512", "avx512bf16", "amx")
MACHINE: dict[str, tuple[str, ...]] = {"avx2": AVX2, **dict.fromkeys(WITH_AVX512, AVX512)}


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

    def make(path: str) -> None:
        _build(command, source, what, path)

    try:
        with cached_file(config.CACHE, name, make) as path:
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
            _build(list(command), source, what, path)
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


def _build(command: list[str], source: str, what: str, path: str) -> None:
    """Compile a source to the library at `path`."""
    c_file = os.path.join(os.path.dirname(path), "kernels.c")
    with open(c_file, "w") as file:
        file.write(source)
    behind_others = ["nice"] if shutil.which("nice") else []
    process = subprocess.Popen(
        [*behind_others, *command, "-o", path, c_file, "-lm"],
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
