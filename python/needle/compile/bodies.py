"""Parts of a traced function that must not change anything outside: loop bodies and branches."""

from __future__ import annotations

from typing import Any

from .errors import at_user_line
from .graph import Graph
from .record import Handle, Recording


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


def _is_same(now: dict[int, Any], before: dict[int, Any]) -> bool:
    """The same assignments? Each assignment makes a new entry, so identities are compared."""
    return now.keys() == before.keys() and all(now[key] is before[key] for key in now)


class only_chosen:
    """Within this context, branches run. All of them run whatever the condition is, and only their
    results are chosen from, so they must not change tensors from outside."""

    def __init__(self, op: str, recording: Recording):
        self.op = op
        self.recording = recording

    def __enter__(self) -> None:
        self.watch = Watch(self.recording)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self.watch.stop() and kind is None:
            raise at_user_line(
                f"[{self.op}] one of the functions changes a tensor from outside, or its gradient, "
                "and runs whatever the condition is; return the new value, and assign the result."
            )


class body_of:
    """Within this context, calls are recorded in a graph of their own. If they change memory,
    tensors or generators outside, these changes are undone and NotCompact is raised."""

    def __init__(self, recording: Recording):
        self.recording = recording

    def __enter__(self) -> Graph:
        recording = self.recording
        self.watch = Watch(recording)
        self.draws, self.hosts = len(recording.draws), len(recording.host)
        self.positions = [(g, g.position) for g, _ in recording.generators.values()]
        self.outer = recording.graph
        recording.graph = Graph(counter=self.outer.counter, constants=self.outer.constants)
        return recording.graph

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        recording = self.recording
        self.outer.counter = recording.graph.counter
        recording.graph = self.outer
        has_drawn = len(recording.draws) > self.draws or len(recording.host) > self.hosts
        if self.watch.stop() or has_drawn:
            self._undo()
            if kind is None:
                raise NotCompact("a step changes something outside")

    def _undo(self) -> None:
        recording, tracked = self.recording, self.recording.tracked
        for handle, value in reversed(self.watch.writes):
            handle.value = value
        del recording.draws[self.draws :], recording.host[self.hosts :]
        if recording.counters is not None:
            recording.counters.size = 2 * self.draws
        first = dict(self.positions)
        for generator, position in recording.generators.values():
            generator.position = first.get(generator, position)
        tracked.assigned, tracked.grads = self.watch.assigned, self.watch.grads
