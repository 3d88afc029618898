"""Kernels by name: the PTX of a source with its definitions, kept in memory and on disk.

A kernel is a file of native/cuda/kernels, which has a function of the same name, compiled for
definitions such as DTYPE=f32. Its PTX is named by a hash of all sources, the definitions, and
NVRTC's version, in the cache of build_cache.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from ... import _native, config
from ..build_cache import DIGEST_BYTES, BuildError, cached_file
from ..c_elements import COMMON
from . import nvrtc

NATIVE = COMMON.parent
SOURCES = NATIVE / "cuda/kernels"
# Nothing is contracted, so that results have the same bits as on the CPU.
OPTIONS = (
    "--std=c++20", "--fmad=false", "-lineinfo",
    f"--gpu-architecture=compute_{nvrtc.ARCHITECTURE}",
)  # fmt: skip

launched: set[str] = set()  # the files whose kernels were called in this process


@cache
def kernel(file: str, **definitions: object) -> _native.cuda.Kernel:
    """The function of that file's name: kernel("unary", FUNCTION="exp", DTYPE="f32", RANK=1)."""
    launched.add(file)
    return _native.cuda.Kernel(ptx(file, **definitions).decode(), file)


@cache
def kernel_of(text: str, name: str, **definitions: object) -> _native.cuda.Kernel:
    """The function of that name in a text of CUDA C."""
    made = compiled(text, f"{name}.cu", _given(definitions))
    return _native.cuda.Kernel(made.decode(), name)


@cache
def by_rank(file: str, **definitions: object) -> Callable[[int], _native.cuda.Kernel]:
    """The kernels of an elementwise file, by their number of axes."""
    return cache(lambda rank: kernel(file, RANK=rank, **definitions))


@cache
def by_rank_of(text: str, name: str) -> Callable[[int], _native.cuda.Kernel]:
    """Those of an elementwise text."""
    return cache(lambda rank: kernel_of(text, name, RANK=rank))


def ptx(file: str, **definitions: object) -> bytes:
    """The PTX of a file of native/cuda/kernels."""
    source = (SOURCES / f"{file}.cu").read_text()
    return compiled(source, str(SOURCES / f"{file}.cu"), _given(definitions))


def _given(definitions: dict[str, object]) -> list[str]:
    return [f"-D{name}={value}" for name, value in definitions.items()]


def compiled(source: str, name: str, definitions: list[str]) -> bytes:
    """The PTX of a source that may include what is in native/, from the cache or made now."""
    options = [*OPTIONS, f"-I{NATIVE}", f"-I{SOURCES}", *definitions]
    version = ".".join(map(str, nvrtc.version()))
    identity = "\0".join([source, _headers(), *OPTIONS, *definitions, version])
    key = hashlib.sha256(identity.encode()).hexdigest()[:40] + ".ptx"
    if config.CACHE is None:
        return nvrtc.compile_ptx(source, name, options)

    def make(path: str) -> None:
        Path(path).write_bytes(nvrtc.compile_ptx(source, name, options))

    try:
        with cached_file(config.CACHE, key, make) as path:
            return Path(path).read_bytes()[:-DIGEST_BYTES]
    except OSError as error:
        raise BuildError(
            f"[cuda] kernels cannot be kept in {config.CACHE}: {error.strerror}; set "
            "XDG_CACHE_HOME to a folder that can be written."
        ) from None


@cache
def _headers() -> str:
    """A hash of what sources may include."""
    found = sorted([*SOURCES.glob("*.cuh"), *COMMON.rglob("*.h"), *COMMON.glob("*.def")])
    content = b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in found)
    return hashlib.sha256(content).hexdigest()
