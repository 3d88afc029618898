"""Collectives on arrays: what is exchanged, and in which order numbers are added.

A call is started, and finished later: in between, the bytes move and other kernels may run. Sums
are computed here, not by MPI: each rank adds its share of the elements, in the order of the ranks,
and the shares are gathered. So the bits are a function of the ranks' numbers alone, all dtypes work
(halves are added in float32 and rounded once), and `all_reduce` is `reduce_scatter`, then
`all_gather`, in every bit.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ..dtype import DType, accumulator
from ..mpi.group import Description, Group, Meeting, Memory, described, wait
from ..ndarray.array import NDArray, compact_view, empty, full

SMALL = 1 << 14  # bytes up to which all ranks send each other everything
KERNELS = {"sum": "add", "mean": "add", "max": "maximum", "min": "minimum"}


def memory(a: NDArray) -> Memory:
    """The bytes of an array in C order."""
    item = a.dtype.itemsize
    return Memory(a._handle.ptr() + a.offset * item, a.size * item)


def bounds(count: int, parts: int) -> list[int]:
    """Where the parts of a range begin, and its end: as equal as they can be."""
    return [count * i // parts for i in range(parts + 1)]


class Call:
    """One collective of a group: `run`, or `start` and then `finish` on what that gave."""

    name = ""
    can_wait = False  # may other kernels run between its start and its end?
    keeps_inputs = False  # are they read after the call has ended?

    def __init__(self, group: Group, detail: str = ""):
        self.group = group
        self.detail = detail
        self.line = described("").line

    def __repr__(self) -> str:
        return f"{self.name}({self.detail})" if self.detail else self.name

    def description(self, dtype: DType, shape: tuple[int, ...]) -> Description:
        """What the ranks compare."""
        return Description(f"{self!r} {dtype}{list(shape)}", self.line)

    def begin(self, a: NDArray) -> Meeting:
        """Start to compare what the ranks do."""
        return self.group.begin(self.description(a.dtype, a.shape))

    def start(self, ins: tuple[NDArray, ...], outs: tuple[NDArray, ...]) -> Callable[[], None]:
        """Let the bytes move; the function that is given ends the call: it fills `outs`."""
        raise TypeError(f"[{type(self).__name__}] has no start.")

    def run(self, outs: tuple[NDArray, ...], ins: tuple[NDArray, ...]) -> None:
        """All of it."""
        self.start(ins, outs)()


class Exchange(Call):
    """A collective that moves bytes, in one request."""

    def request(self, a: Memory, out: Memory) -> Any:
        """Start to move them."""

    def start(self, ins: tuple[NDArray, ...], outs: tuple[NDArray, ...]) -> Callable[[], None]:
        (a,), (out,) = ins, outs
        meeting = self.begin(a)
        request = self.request(memory(a), memory(out)) if a.size else None

        def finish() -> None:
            meeting.finish()
            if request is not None:
                wait(request, meeting.description, self.group)
            self.after(out)

        return finish

    def after(self, out: NDArray) -> None:
        """What remains to do with the bytes that have come."""


class AllGather(Exchange):
    """Every rank's array on every rank, one behind the other."""

    name = "all_gather"

    def request(self, a: Memory, out: Memory) -> Any:
        return self.group.all_gather(a, [a.nbytes] * self.group.size, out, late=False)


class AllToAll(Exchange):
    """Part i of every rank's array on rank i."""

    name = "all_to_all"

    def request(self, a: Memory, out: Memory) -> Any:
        return self.group.all_to_all(a, [a.nbytes // self.group.size] * self.group.size, out)


class _Rooted(Exchange):
    def __init__(self, group: Group, root: int):
        super().__init__(group, str(root))
        self.root = root


class Broadcast(_Rooted):
    """The array of one rank on every rank."""

    name = "broadcast"

    def start(self, ins: tuple[NDArray, ...], outs: tuple[NDArray, ...]) -> Callable[[], None]:
        (a,), (out,) = ins, outs
        if self.group.rank == self.root:
            out.device.mod.copy(out, a)
        return super().start(ins, outs)

    def request(self, a: Memory, out: Memory) -> Any:
        return self.group.broadcast(out, self.root)


class Scatter(_Rooted):
    """Part i of one rank's array on rank i."""

    name = "scatter"

    def request(self, a: Memory, out: Memory) -> Any:
        return self.group.scatter(a, out, self.root)


class Gather(_Rooted):
    """Every rank's array on one rank, one behind the other; zeros on all others."""

    name = "gather"

    def request(self, a: Memory, out: Memory) -> Any:
        return self.group.gather(a, out, self.root)

    def after(self, out: NDArray) -> None:
        if self.group.rank != self.root:
            out.device.mod.fill(out, 0)


class Reduction(Call):
    """Sums, means and extremes over the ranks."""

    def __init__(self, group: Group, how: str):
        super().__init__(group, how)
        self.how = how

    def total(self, rows: NDArray, out: NDArray) -> None:
        """The rows (ranks, n) as one, added in order."""
        acc = accumulator(rows.dtype)
        ranks, n = rows.shape
        mod, item = rows.device.mod, compact_view((n,), rows.dtype, rows.device, rows._handle)
        total = empty((n,), acc, rows.device)
        part = None if acc is rows.dtype else empty((n,), acc, rows.device)
        for rank in range(ranks):
            row = item._view((n,), (1,), rank * n)
            if rank == 0:
                mod.copy(total, row)
                continue
            if part is not None:
                mod.copy(part, row)
                row = part
            mod.binary(KERNELS[self.how], total, total, row)
        if self.how == "mean":
            mod.binary("divide", total, total, float(ranks))
        mod.copy(out, total)


class ReduceScatter(Reduction):
    """Part i of the sum of all ranks' arrays on rank i."""

    name = "reduce_scatter"

    def start(self, ins: tuple[NDArray, ...], outs: tuple[NDArray, ...]) -> Callable[[], None]:
        (a,), (out,), group = ins, outs, self.group
        meeting = self.begin(a)
        rows = empty((group.size, out.size), a.dtype, a.device)
        part = out.size * a.dtype.itemsize
        request = group.all_to_all(memory(a), [part] * group.size, memory(rows)) if a.size else None

        def finish() -> None:
            meeting.finish()
            if request is not None:
                wait(request, meeting.description, group)
                self.total(rows, flat(out))

        return finish


class AllReduce(Reduction):
    """The sum of all ranks' arrays on every rank. What comes first comes into memory of its own."""

    name = "all_reduce"
    can_wait = True

    def start(self, ins: tuple[NDArray, ...], outs: tuple[NDArray, ...]) -> Callable[[], None]:
        (a,), (out,), group = ins, outs, self.group
        meeting = self.begin(a)
        is_small = a.size * a.dtype.itemsize <= SMALL
        starts = bounds(a.size, group.size)
        counts = [(stop - start) * a.dtype.itemsize for start, stop in pairwise(starts)]
        mine = a.size if is_small else starts[group.rank + 1] - starts[group.rank]
        rows = empty((group.size, mine), a.dtype, a.device)
        request = None
        if a.size and is_small:
            request = group.all_gather(
                memory(a), [a.size * a.dtype.itemsize] * group.size, memory(rows), late=False
            )
        elif a.size:
            request = group.all_to_all(memory(a), counts, memory(rows))

        def finish() -> None:
            meeting.finish()
            if request is None:
                return
            wait(request, meeting.description, group)
            if is_small:
                self.total(rows, flat(out))
                return
            total = empty((mine,), a.dtype, a.device)
            self.total(rows, total)
            late = group.all_gather(memory(total), counts, memory(out), late=True)
            wait(late, meeting.description, group)

        return finish


class Send(Call):
    """An array for one other rank; the result, 0, stands for the message."""

    name = "send"
    keeps_inputs = True

    def __init__(self, group: Group, to: int):
        super().__init__(group)
        self.to = to

    def description(self, dtype: DType, shape: tuple[int, ...]) -> Description:
        return Description(f"send(to {self.group.ranks[self.to]}) {dtype}{list(shape)}", self.line)

    def start(self, ins: tuple[NDArray, ...], outs: tuple[NDArray, ...]) -> Callable[[], None]:
        (a,), (out,) = ins, outs
        self.group.send(memory(a), self.to, self.description(a.dtype, a.shape), a)
        out.device.mod.fill(out, 0)
        return _nothing


class Receive(Call):
    """What one other rank sends."""

    name = "recv"

    def __init__(self, group: Group, source: int):
        super().__init__(group)
        self.source = source

    def description(self, dtype: DType, shape: tuple[int, ...]) -> Description:
        source = self.group.ranks[self.source]
        return Description(f"recv(from {source}) {dtype}{list(shape)}", self.line)

    def start(self, ins: tuple[NDArray, ...], outs: tuple[NDArray, ...]) -> Callable[[], None]:
        (out,) = outs
        self.group.receive(memory(out), self.source, self.description(out.dtype, out.shape))
        return _nothing


def _nothing() -> None:
    """What is there to do after a call that is over."""


def flat(a: NDArray) -> NDArray:
    """An array in C order as a row."""
    return a._view((a.size,), (1,), a.offset)


def zeros_like(a: NDArray) -> NDArray:
    """Zeros of its form."""
    return full(a.shape, 0, a.dtype, a.device)
