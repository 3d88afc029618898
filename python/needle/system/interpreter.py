"""Which builds of Python needle runs on; imported before anything that is native.

The native core counts on Python's global lock: its objects are changed by one thread at a time, and
kernels give the lock away while they compute. A free-threaded build of Python without the lock is
refused. With it, which is a setting of such a build, all is as usual."""

import sys


def check() -> None:
    """Raise if threads of this process may run Python at the same time."""
    has_lock = getattr(sys, "_is_gil_enabled", None)  # asked for since Python 3.13
    if has_lock is not None and not has_lock():
        raise ImportError(
            "[needle] expected Python's global lock (GIL), found a free-threaded Python without "
            "it; set PYTHON_GIL=1, run python -X gil=1, or use Python's usual build."
        )


check()
