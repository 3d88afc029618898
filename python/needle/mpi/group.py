"""Groups of ranks, and the exchange of bytes between them.

Each collective comes with a description: its name, the type of its operand and the user's line.
They are compared while the bytes are on their way, so that ranks that do different things learn so
instead of waiting for each other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import config
from ..system.user_code import user_line
from .world import WAITING, WORLD, RankError

DESCRIPTION = 512  # bytes
SPINS = 200  # how often a rank asks for a message before it sleeps
NAPS = 5e-5  # seconds


class Memory(NamedTuple):
    """Bytes in memory. Whoever starts an exchange keeps them alive until it has ended."""

    address: int
    nbytes: int

    def part(self, start: int, stop: int) -> Memory:
        """The bytes from start to stop."""
        return Memory(self.address + start, stop - start)

    def buffer(self) -> list[Any]:
        """As mpi4py takes it."""
        mpi = WORLD.mpi
        return [mpi.buffer.fromaddress(self.address, self.nbytes, False), mpi.BYTE]


class Description(NamedTuple):
    """What a rank does: an operator, what it is given, and where in the user's program."""

    what: str  # all_reduce(sum) float32[3, 4]
    line: str

    def __str__(self) -> str:
        return f"{self.what}, at {self.line}" if self.line else self.what

    def encoded(self, number: int) -> bytes:
        """`number` counts the collectives of a group."""
        text = f"{number}\n{self.what[:250]}\n{self.line[-230:]}".encode()[: DESCRIPTION - 1]
        return text.ljust(DESCRIPTION, b"\0")


def described(what: str, line: str | None = None) -> Description:
    """With the line of the user's program that runs now, if none is given."""
    if line is None:
        found = user_line()
        line = "" if found is None else str(found)
    return Description(what, line)


class Group:
    """Some of the ranks, numbered from 0; `Group.world()` has all."""

    def __init__(self, comm: tuple[Any, Any, Any], ranks: tuple[int, ...]):
        self.ranks = ranks  # their numbers in the world
        self.size = len(ranks)
        self.rank = ranks.index(WORLD.rank)
        self._first: Any = comm[0]  # for collectives, and for the second parts of some
        self._second: Any = comm[1]
        self._checks: Any = comm[2]  # for comparing them
        self._count = 0
        self._sending: list[tuple[Any, object]] = []

    def __repr__(self) -> str:
        return f"Group(ranks={list(self.ranks)})"

    def split(self, color: int) -> Group:
        """The ranks of this group that call it with the same color. All of them must call it."""
        if self.size == 1:
            return self
        colors = self.gather_bytes(f"{color}".encode().ljust(24), described("Group.split"))
        same = [i for i, c in enumerate(colors) if c == colors[self.rank]]
        made = self._checks.Split(same[0], self.rank)
        return Group(_communicators(made), tuple(self.ranks[i] for i in same))

    def barrier(self, timeout: float | None = None) -> None:
        """Wait until every rank is here; `timeout` seconds at most, NEEDLE_RANK_TIMEOUT without."""
        if self.size > 1:
            self.begin(described("barrier")).finish(timeout)

    # Exchange -------------------------------------------------------------------------------

    def begin(self, description: Description) -> Meeting:
        """Start the comparison of what the ranks are about to do."""
        WORLD.note(str(description))
        WORLD.check()
        self._count += 1
        return Meeting(self, description, self._count)

    def gather_bytes(self, mine: bytes, description: Description) -> list[bytes]:
        """The bytes of every rank, which are equally many."""
        if self.size == 1:
            return [mine]
        meeting = self.begin(description)
        everyone = bytearray(len(mine) * self.size)
        byte = WORLD.mpi.BYTE
        request = self._first.Iallgather([mine, byte], [everyone, byte])
        meeting.finish()
        wait(request, description, self)
        return [bytes(everyone[i : i + len(mine)]) for i in range(0, len(everyone), len(mine))]

    def all_to_all(self, send: Memory, counts: Sequence[int], receive: Memory) -> Any:
        """Part i of `send`, of counts[i] bytes, goes to rank i; all parts that come are equally
        long. A request."""
        mine = receive.nbytes // self.size
        return self._first.Ialltoallv(_parts(send, counts), _parts(receive, [mine] * self.size))

    def all_gather(self, send: Memory, counts: Sequence[int], receive: Memory, late: bool) -> Any:
        """What every rank sends, in order; counts[i] bytes from rank i. `late`: it is the second
        part of a collective, and others may start before it."""
        comm = self._second if late else self._first
        return comm.Iallgatherv(send.buffer(), _parts(receive, counts))

    def broadcast(self, memory: Memory, source: int) -> Any:
        """The memory of rank `source` on every rank."""
        return self._first.Ibcast(memory.buffer(), source)

    def scatter(self, send: Memory, receive: Memory, source: int) -> Any:
        """Part i of what rank `source` sends, on rank i."""
        given = send.buffer() if self.rank == source else None
        return self._first.Iscatter(given, receive.buffer(), source)

    def gather(self, send: Memory, receive: Memory, to: int) -> Any:
        """What every rank sends, in order, on rank `to`."""
        taken = receive.buffer() if self.rank == to else None
        return self._first.Igather(send.buffer(), taken, to)

    # From one rank to another -----------------------------------------------------------------

    def send(self, memory: Memory, to: int, description: Description, keep: object) -> None:
        """Start to send; `keep` is kept alive until the bytes have gone."""
        WORLD.note(str(description))
        WORLD.check()
        self._sending = [s for s in self._sending if not s[0].Test()]
        head = description.encoded(0)
        self._sending.append((self._checks.Isend([head, WORLD.mpi.BYTE], to), head))
        if memory.nbytes:
            self._sending.append((self._first.Isend(memory.buffer(), to), keep))

    def receive(self, memory: Memory, source: int, description: Description) -> None:
        """Wait for bytes; what is sent must be of the type that is expected."""
        WORLD.note(str(description))
        WORLD.check()
        head = bytearray(DESCRIPTION)
        wait(self._checks.Irecv([head, WORLD.mpi.BYTE], source), description, self)
        _, what, line = head.rstrip(b"\0").decode(errors="replace").split("\n")
        if what.rpartition(") ")[2] != description.what.rpartition(") ")[2]:
            raise self._mismatch({source: Description(what, line), self.rank: description})
        if memory.nbytes:
            wait(self._first.Irecv(memory.buffer(), source), description, self)

    def flush(self) -> None:
        """Wait until everything that this rank has sent has gone."""
        for request, _ in self._sending:
            wait(request, described("send"), self)
        self._sending = []

    def _mismatch(self, found: dict[int, Description]) -> RankError:
        lines = "\n".join(f"  rank {self.ranks[i]}: {d}" for i, d in sorted(found.items()))
        name = found[min(found)].what.partition(" ")[0].partition("(")[0]
        text = (
            f"[{name}] expected the same operator, dtype and shape on all ranks, in the same "
            f"order, got\n{lines}"
        )
        WORLD.fail(text)
        return RankError(text)


class Meeting:
    """The comparison of what ranks do, on its way."""

    def __init__(self, group: Group, description: Description, number: int):
        self.group, self.description = group, description
        self._mine = description.encoded(number)
        self._all = bytearray(DESCRIPTION * group.size)
        byte = WORLD.mpi.BYTE
        self._request = group._checks.Iallgather([self._mine, byte], [self._all, byte])

    def finish(self, timeout: float | None = None) -> None:
        """Wait for all ranks; raise if they do not do the same."""
        wait(self._request, self.description, self.group, timeout)
        pieces = [
            bytes(self._all[i : i + DESCRIPTION]).rstrip(b"\0")
            for i in range(0, len(self._all), DESCRIPTION)
        ]
        heads = {piece.rpartition(b"\n")[0] for piece in pieces}
        if len(heads) > 1:
            texts = (piece.decode(errors="replace").split("\n") for piece in pieces)
            raise self.group._mismatch({i: Description(*t[1:]) for i, t in enumerate(texts)})


def _parts(memory: Memory, counts: Sequence[int]) -> list[Any]:
    starts = [sum(counts[:i]) for i in range(len(counts))]
    buffer, byte = memory.buffer()
    return [buffer, (list(counts), starts), byte]


def _communicators(comm: Any) -> tuple[Any, Any, Any]:
    """For the first and the second parts of collectives, and for comparing them."""
    return comm, comm.Dup(), comm.Dup()


# Waiting -----------------------------------------------------------------------------------------


def wait(
    request: Any, description: Description, group: Group, timeout: float | None = None
) -> None:
    """Wait for a request; raise when a rank fails, or does not come in time."""
    limit = config.RANK_TIMEOUT if timeout is None else timeout
    start = time.monotonic()
    spins = 0
    while not request.Test():
        spins += 1
        if spins < SPINS:
            os.sched_yield()
            continue
        time.sleep(NAPS)
        if spins % 20:
            continue
        WORLD.check()
        late = limit and time.monotonic() - start > limit
        if late or WORLD.waiting:
            _call_roll(request, description, group, limit)
            return


def _call_roll(request: Any, description: Description, group: Group, limit: float) -> None:
    """Say what this rank waits for, and hear who else waits: the others have not come."""
    WORLD.waiting[WORLD.rank] = str(description)
    WORLD.tell(WAITING, str(description))
    end = time.monotonic() + 1
    while time.monotonic() < end:
        if request.Test():  # it came at last; whoever waits elsewhere will say so
            WORLD.waiting.clear()
            return
        time.sleep(1e-2)
        WORLD.check()
    lines = []
    for rank in range(WORLD.size):
        if rank in WORLD.waiting:
            lines.append(f"  rank {rank} waits in {WORLD.waiting[rank]}")
        else:
            lines.append(f"  rank {rank} {'has ended' if rank in WORLD.left else 'did not come'}")
    name = description.what.partition(" ")[0].partition("(")[0]
    text = (
        f"[{name}] expected all ranks within {limit:g} s (NEEDLE_RANK_TIMEOUT), got\n"
        + "\n".join(lines)
    )
    WORLD.fail(text)
    raise RankError(text)


# The world ---------------------------------------------------------------------------------------


def world() -> Group:
    """The group of all ranks; starts MPI when it is first asked for."""
    if not _worlds:
        WORLD.start()
        is_one = WORLD.size == 1
        comm = (None,) * 3 if is_one else _communicators(WORLD.mpi.COMM_WORLD.Dup())
        _worlds.append(Group(comm, tuple(range(WORLD.size))))
    return _worlds[0]


_worlds: list[Group] = []
