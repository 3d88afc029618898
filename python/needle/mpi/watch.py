"""A small process beside each rank, which says how the rank ended if it could not say so itself.

A launcher kills all ranks when one is killed, before they could report anything. The watcher is not
one of them: it reads from a pipe what the rank is doing, and finds the pipe closed when the rank is
gone. The first watcher of a machine that finds it so speaks for all.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile

GOODBYE = b"goodbye\n"
CODE = """
import os, sys
rank, path = sys.argv[1:]
doing = b""
rest = b""
while data := os.read(0, 65536):
    *lines, rest = (rest + data).split(b"\\n")
    if b"goodbye" in lines:
        sys.exit()
    doing = lines[-1] if lines else doing
try:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL))
except FileExistsError:
    sys.exit()
import time
text = "[distributed] rank %s was killed, or ended without a word" % rank
if doing:
    text += "; it was last seen in " + doing.decode(errors="replace")
os.write(2, (text + "\\n").encode())
time.sleep(5)
os.unlink(path)
"""


class Watcher:
    """The process, and the pipe to it."""

    def __init__(self, rank: int, job: str):
        path = os.path.join(tempfile.gettempdir(), f"needle-{job}.killed")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", CODE, str(rank), path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is not for it
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        os.set_blocking(self._pipe, False)

    def note(self, what: str) -> None:
        """What the rank is doing from now on."""
        with contextlib.suppress(OSError):  # it is busy, or gone: nothing depends on it
            os.write(self._pipe, what.replace("\n", " ").encode()[:500] + b"\n")

    def close(self) -> None:
        """The rank ends as it should."""
        with contextlib.suppress(OSError):
            os.set_blocking(self._pipe, True)
            os.write(self._pipe, GOODBYE)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
