"""Start ranks: `run(worker, ranks)` runs a script of workers/ under mpirun."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

WORKERS = Path(__file__).parent / "workers"


@cache
def environment() -> dict[str, str]:
    """For ranks: one thread each, time for a busy machine, and MPI's library.

    Debian has MPICH's library under its own name, and wheels of mpi4py look for it under that of
    its binary interface, which is the same one: a link leads from one to the other."""
    found = {
        **os.environ,
        "NEEDLE_NUM_THREADS": "1",
        "NEEDLE_RANK_TIMEOUT": "60",
        "NEEDLE_VERIFY": "on",
    }
    mpich = ctypes.util.find_library("mpich")
    if mpich is not None and not can_start(found):
        folder = Path(tempfile.gettempdir()) / f"needle-mpich-{os.getuid()}"
        folder.mkdir(exist_ok=True)
        link = folder / "libmpi.so.12"
        if not link.exists():
            link.symlink_to(next(Path("/usr/lib").rglob(mpich)))
        paths = [str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        found["LD_LIBRARY_PATH"] = os.pathsep.join(paths)
    return found


def can_start(env: dict[str, str]) -> bool:
    """Does mpi4py find MPI's library?"""
    code = "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
    return done.returncode == 0


@cache
def missing() -> str:
    """What is not there to start ranks with; empty if nothing is missing."""
    if shutil.which("mpirun") is None:
        return "mpirun is not installed"
    return "" if can_start(environment()) else "mpi4py is not installed, or does not find MPI"


needs_mpi = pytest.mark.skipif(bool(missing()), reason=missing())


def command(ranks: int, *arguments: object, options: tuple[str, ...] = ()) -> list[str]:
    """What starts a Python program on so many ranks."""
    return ["mpirun", *options, "-n", str(ranks), sys.executable, *map(str, arguments)]


def run(
    ranks: int,
    *arguments: object,
    fails: bool = False,
    options: tuple[str, ...] = (),
    timeout: float = 120,
    **env: str,
) -> str:
    """Run a worker to its end; gives what it wrote. With `fails` it must fail."""
    worker, *others = arguments
    path = WORKERS / str(worker) if str(worker).endswith(".py") else worker
    done = subprocess.run(
        command(ranks, path, *others, options=options),
        env=environment() | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stdout
    return done.stdout
