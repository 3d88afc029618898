"""Every environment variable that needle reads, in one place.

    NEEDLE_BACKEND      nd | np             tensors over NDArray (default) or plain numpy arrays
    NEEDLE_JIT          auto | tile | native | off    how compiled functions run (docs/env.md)
    NEEDLE_VERIFY       off | on            check the compiler's graphs after every pass
    NEEDLE_CPU          baseline | avx2 | avx512 | avx512bf16 | amx | neon    instruction set
    NEEDLE_NUM_THREADS  a positive number   size of the native thread pool
    NEEDLE_CUDA         off | sim | a path  the driver behind cuda(): none, the simulator, a library
    NEEDLE_RANK_TIMEOUT seconds             how long a rank waits for the others (0: for ever)

NEEDLE_CPU and NEEDLE_NUM_THREADS are read here and handed to the native core when it is loaded.
"""

import os

BACKENDS = ("nd", "np")
JITS = ("auto", "tile", "native", "off")
MOST_THREADS = 1024  # that the native core starts


def _choice(name: str, values: tuple[str, ...]) -> str:
    """One of the values; the first is the default."""
    value = os.environ.get(name, values[0])
    if value not in values:
        raise RuntimeError(
            f"[needle] {name} must be one of {', '.join(values)}, got {value!r}; "
            f"unset it for the default {values[0]!r}."
        )
    return value


def _num_threads() -> int | None:
    value = os.environ.get("NEEDLE_NUM_THREADS")
    if value is None or value == "":
        return None
    # "²" and "٣" are digits, too, and Python reads no numbers of 5000 digits.
    is_number = value.isascii() and value.isdigit() and len(value) < 10
    if not is_number or not 1 <= int(value) <= MOST_THREADS:
        raise RuntimeError(
            "[needle] NEEDLE_NUM_THREADS must be a positive whole number, at most "
            f"{MOST_THREADS}, got {value!r:.60}."
        )
    return int(value)


def _rank_timeout() -> float:
    value = os.environ.get("NEEDLE_RANK_TIMEOUT") or "8"
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < 1e9:
        raise RuntimeError(f"[needle] NEEDLE_RANK_TIMEOUT must be seconds, got {value!r:.60}.")
    return seconds


def _cache() -> str | None:
    """Where built kernels are kept: a folder of the user's own, as the XDG specification says.
    None if there is none: the path is relative, or HOME is empty, which would be the root."""
    default = "" if os.environ.get("HOME") == "" else os.path.expanduser("~/.cache")
    folder = os.environ.get("XDG_CACHE_HOME") or default
    return os.path.join(folder, "needle", "kernels") if os.path.isabs(folder) else None


BACKEND = _choice("NEEDLE_BACKEND", BACKENDS)
JIT = _choice("NEEDLE_JIT", JITS)
VERIFY = _choice("NEEDLE_VERIFY", ("off", "on")) == "on"
CPU = os.environ.get("NEEDLE_CPU") or None  # None: the best that this machine has
CUDA = os.environ.get("NEEDLE_CUDA") or None  # None: libcuda.so.1
CACHE = _cache()
RANK_TIMEOUT = _rank_timeout()
NUM_THREADS = _num_threads()  # None: as many as affinity and the cgroup quota allow
