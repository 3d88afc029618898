"""The world: which rank this process is, MPI's start and end, and what happens when a rank fails.

A process that no launcher has started is a world of one, and never imports mpi4py.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import time
from types import TracebackType
from typing import Any

from .watch import Watcher

# (rank, number of ranks) as launchers tell them: MPICH and SLURM's PMI, Open MPI and PMIx.
LAUNCHERS = (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
LOCAL_SIZES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")
NOTICE = 7  # the tag of notices on the control communicator
LONGEST_NOTICE = 2000  # bytes, so that MPI sends it without waiting for its reader
FAILED, WAITING, LEAVING = "failed", "waiting", "leaving"


class RankError(RuntimeError):
    """Ranks have failed together: the message says which one, where, and what it was doing."""


def launched() -> tuple[int, int]:
    """The rank and the number of ranks that a launcher has given this process; (0, 1) without."""
    for rank, size in LAUNCHERS:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def local_size() -> int:
    """How many ranks there are on this machine."""
    return max(int(os.environ.get(name, "1")) for name in LOCAL_SIZES)


class World:
    """All ranks: what is known of them, and the notices that they send each other."""

    def __init__(self) -> None:
        self.rank, self.size = launched()
        self.mpi: Any = None  # the module mpi4py.MPI, once it is started
        self.control: Any = None  # a communicator for notices alone
        self.error: str | None = None  # why this world is over
        self.told = False  # do the others know that this rank has failed?
        self.left: set[int] = set()  # ranks that wait for the end
        self.waiting: dict[int, str] = {}  # what other ranks wait for, of those that have said so
        self.processes: list[tuple[str, int]] = []  # (host, process id) of each rank
        self._sent: list[Any] = []  # notices on their way, with their memory
        self._watcher: Watcher | None = None
        self._checked = 0.0

    def start(self) -> None:
        """Start MPI, once."""
        if self.mpi is not None or self.size == 1:
            return
        try:
            importlib.import_module("mpi4py").rc.finalize = False
            self.mpi = importlib.import_module("mpi4py.MPI")
        except ImportError as error:
            raise RankError(
                f"[distributed] rank {self.rank} of {self.size}: expected mpi4py and the MPI "
                f"library that started this process, got: {error}; pip install 'needle-dl[mpi]', "
                "or run without mpirun."
            ) from None
        self.control = self.mpi.COMM_WORLD.Dup()
        self.rank, self.size = self.control.Get_rank(), self.control.Get_size()
        here = (self.mpi.Get_processor_name(), os.getpid())
        self.processes = self.control.allgather(here)
        job = self.control.bcast(f"{os.getpid()}-{time.time_ns()}")
        self._watcher = Watcher(self.rank, job)
        self._watch_exceptions()
        atexit.register(self.end)

    def note(self, what: str) -> None:
        """Tell the watcher what this rank is doing, for the case that it is killed there."""
        if self._watcher is not None:
            self._watcher.note(what)

    # Notices --------------------------------------------------------------------------------

    def tell(self, kind: str, text: str = "") -> None:
        """Send a notice to every other rank; small enough that nobody waits for it."""
        data = f"{kind}\n{text}".encode()[:LONGEST_NOTICE]
        for other in range(self.size):
            if other != self.rank:
                request = self.control.Isend([data, self.mpi.BYTE], other, NOTICE)
                self._sent.append((request, data))

    def listen(self) -> None:
        """Read the notices that have come."""
        status = self.mpi.Status()
        while self.control.Iprobe(self.mpi.ANY_SOURCE, NOTICE, status):
            data = bytearray(status.Get_count(self.mpi.BYTE))
            source = status.Get_source()
            self.control.Recv([data, self.mpi.BYTE], source, NOTICE)
            kind, _, text = data.decode(errors="replace").partition("\n")
            if kind == FAILED and self.error is None:
                self.error = text
            elif kind == WAITING:
                self.waiting[source] = text
            elif kind == LEAVING:
                self.left.add(source)

    def check(self) -> None:
        """Raise if the world is over: a rank has said so, or its process is gone."""
        self.listen()
        now = time.monotonic()
        if self.error is None and now - self._checked > 0.5:
            self._checked = now
            self._look_for_the_dead()
        if self.error is not None:
            raise RankError(self.error)

    def _look_for_the_dead(self) -> None:
        host = self.processes[self.rank][0]
        for other, (where, process) in enumerate(self.processes):
            if where == host and other not in self.left and not is_alive(process):
                self.error = (
                    f"[distributed] rank {other} is gone: its process {process} was killed, or "
                    "ended without a word."
                )

    # The end --------------------------------------------------------------------------------

    def fail(self, text: str) -> None:
        """This rank has failed: let all others know."""
        self.error = self.error or text
        if not self.told:
            self.told = True
            self.tell(FAILED, text)

    def _watch_exceptions(self) -> None:
        before = sys.excepthook

        def report(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            sys.stderr.write(f"rank {self.rank}:\n")
            before(kind, error, trace)
            sys.stderr.flush()
            line = str(error).partition("\n")[0][:600]
            self.fail(f"[distributed] rank {self.rank} has failed: {kind.__name__}: {line}")

        sys.excepthook = report

    def end(self) -> None:
        """At exit: wait for the others, then finish MPI; after a failure, end all of them."""
        sys.stdout.flush()
        self.tell(LEAVING)
        everyone = set(range(self.size)) - {self.rank}
        while self.left != everyone and self.error is None:  # some may compute for long
            pause()
            try:
                self.check()
            except RankError:
                break
        self._say_goodbye(everyone)

    def _say_goodbye(self, everyone: set[int]) -> None:
        limit = time.monotonic() + 5  # for the others to report what they know
        while self.left != everyone and time.monotonic() < limit:
            pause()
            self.listen()
        if self._watcher is not None:
            self._watcher.close()
        if self.error is not None or self.left != everyone:
            sys.stderr.flush()
            self.mpi.COMM_WORLD.Abort(1)
        self.mpi.Finalize()


def is_alive(process: int) -> bool:
    """Does a process of this machine run? One that has ended and waits for its parent does not."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def pause() -> None:
    """Let other processes run: ranks may be more than processors."""
    time.sleep(1e-3)


WORLD = World()
