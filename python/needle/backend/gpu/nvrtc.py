"""NVRTC: NVIDIA's compiler from CUDA C to PTX, a library that needs neither a driver nor a GPU.

It is found when it is first needed: in the package nvidia-cuda-nvrtc, or where the system's loader
finds it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..build_cache import BuildError

# PTX of the newest NVRTC is refused by older drivers, because of its header alone: our kernels use
# nothing that this version lacks. It is what CUDA 11.0 reads.
PTX_VERSION = "7.0"
ARCHITECTURE = 75  # the oldest that NVRTC 13 knows: Turing


class NoCompiler(BuildError):
    """NVRTC is not installed."""


@cache
def _library() -> ctypes.CDLL:
    for path in (*_packaged(), "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise NoCompiler(
        "[cuda] expected NVRTC to compile this kernel, found none; pip install nvidia-cuda-nvrtc."
    )


def _packaged() -> list[str]:
    """Where PyPI's packages have it: nvidia/cu13/lib, or nvidia/cuda_nvrtc/lib for CUDA 12."""
    found = importlib.util.find_spec("nvidia")
    folders = found.submodule_search_locations if found is not None else None
    libraries = (p for folder in folders or () for p in Path(folder).glob("*/lib/libnvrtc.so.1?"))
    return sorted(map(str, libraries), reverse=True)


def is_there() -> bool:
    """Can anything be compiled?"""
    try:
        _library()
    except NoCompiler:
        return False
    return True


@cache
def version() -> tuple[int, int]:
    """Of NVRTC: (13, 4)."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def compile_ptx(source: str, name: str, options: Sequence[str]) -> bytes:
    """The PTX of a source; `name` is the file's, for errors and line numbers. BuildError with the
    compiler's messages where it refuses it."""
    nvrtc, program = _library(), ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), name.encode(), 0, None, None
    )
    if created != 0:
        raise BuildError(f"[cuda] NVRTC cannot start: error {created}.")
    try:
        given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        if nvrtc.nvrtcCompileProgram(program, len(options), given) != 0:
            messages = _text(nvrtc, program, "ProgramLog").decode(errors="replace")
            raise BuildError(f"[cuda] NVRTC refused {name}:\n{messages[:4000]}")
        return _readable(_text(nvrtc, program, "PTX"))
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(nvrtc: Any, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.value


def _readable(ptx: bytes) -> bytes:
    """With the version that older drivers accept."""
    return re.sub(rb"(?m)^\.version .*$", b".version " + PTX_VERSION.encode(), ptx, count=1)
