"""Parts of a traced function that must not change anything outside: loop bodies and branches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import at_user_line
from ..ir.graph import Graph
from ..trace.record import Handle, Recording


class NotCompact(Exception):
    """The steps of a loop cannot be one body: they are recorded one after the other."""


class Watch:
    """Notes changes to memory and tensors that are older than it."""

    def __init__(self, recording: Recording):
        self.recording = recording
        self.writes: list[tuple[Handle, Any]] = []  # to memory, and what was there
        self.assigned = dict(recording.tracked.assigned)
        self.grads = dict(recording.tracked.grads)
        self._outer = recording.outside_writes, recording.body_start, recording.is_in_body
        recording.outside_writes, recording.body_start = self.writes, recording.graph.counter
        recording.is_in_body = True

    def stop(self) -> bool:
        """Stop watching: was anything changed?"""
        recording, tracked = self.recording, self.recording.tracked
        recording.outside_writes, recording.body_start, recording.is_in_body = self._outer
        is_same = _is_same(tracked.assigned, self.assigned) and _is_same(tracked.grads, self.grads)
        return bool(self.writes) or not is_same

    def undo(self) -> None:
        """Let memory and tensors be as they were."""
        for handle, value in reversed(self.writes):
            handle.value = value
        tracked = self.recording.tracked
        tracked.assigned, tracked.grads = self.assigned, self.grads


def _is_same(now: dict[int, object], before: dict[int, object]) -> bool:
    """The same assignments? Each assignment makes a new entry, so identities are compared."""
    return now.keys() == before.keys() and all(now[key] is before[key] for key in now)


@contextmanager
def only_chosen(op: str, recording: Recording) -> Iterator[None]:
    """Within this context, branches run. All of them run whatever the condition is, and only their
    results are chosen from, so they must not change tensors from outside."""
    watch = Watch(recording)
    try:
        yield
    finally:
        is_changed = watch.stop()
    if is_changed:
        raise at_user_line(
            f"[{op}] one of the functions changes a tensor from outside, or its gradient, and runs "
            "whatever the condition is; return the new value, and assign the result."
        )


@contextmanager
def body_of(recording: Recording) -> Iterator[Graph]:
    """Within this context, calls are recorded in a graph of their own. If they change memory,
    tensors or generators outside, these changes are undone and NotCompact is raised."""
    watch, outer = Watch(recording), recording.graph
    draws, hosts = len(recording.draws), len(recording.host)
    positions = {g: g.position for g, _ in recording.generators.values()}
    recording.graph = Graph(counter=outer.counter, constants=outer.constants)
    try:
        yield recording.graph
    finally:
        outer.counter = recording.graph.counter
        recording.graph = outer
        is_changed = watch.stop() or len(recording.draws) > draws or len(recording.host) > hosts
        if is_changed:
            watch.undo()
            del recording.draws[draws:], recording.host[hosts:]
            if recording.counters is not None:
                recording.counters.size = 2 * draws
            for generator, first in recording.generators.values():
                generator.position = positions.get(generator, first)
    if is_changed:
        raise NotCompact("a step changes something outside")
