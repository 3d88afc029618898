"""Threads that load ahead of a consumer: results in order, a bounded number of them at a time.

Threads and not processes: reading files, decompressing and NumPy's large operations let other
threads run, nothing has to be copied or pickled, and starting one takes microseconds.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

PATIENCE = 5.0  # seconds that a closing pool waits for the item that a thread is loading


class Job:
    """A call for a worker; `result` waits for what it gives."""

    def __init__(self, call: Callable[[Job], object], ended: threading.Event):
        self.call = call
        self._ended = ended
        self._unwanted = False
        self._outcome: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    @property
    def cancelled(self) -> bool:
        """Does nobody want the result any more? Long calls ask this, and give up."""
        return self._unwanted or self._ended.is_set()

    def cancel(self) -> None:
        """The result is not wanted any more."""
        self._unwanted = True

    def run(self) -> None:
        """Make the call."""
        try:
            self._outcome.put((None if self.cancelled else self.call(self), None))
        except BaseException as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Let `result` raise an error; its traceback still shows where it comes from."""
        self._outcome.put((None, error))

    def result(self) -> object:
        """What the call gave or raised; ask once."""
        value, error = self._outcome.get()
        if error is None:
            return value
        try:
            if isinstance(error, StopIteration):
                raise stopped("worker_init_fn") from error
            raise error
        finally:
            del error  # its traceback refers to this frame


def stopped(what: str) -> RuntimeError:
    """The error for the user's code that raised StopIteration: it would end a pass without a word,
    after a part of the items."""
    return RuntimeError(
        f"[DataLoader] {what} raised StopIteration, which would end the pass too early; raise "
        "another error, or let len(dataset) be the number of items that there are."
    )


class Workers:
    """A pool of threads. It ends when it is closed, when nothing refers to it, and at exit."""

    def __init__(self, count: int, init: Callable[[int], object] | None = None):
        self.process = os.getpid()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        # Not methods: a thread that refers to the pool would keep it.
        threads = [
            threading.Thread(
                target=_work, args=(self._jobs, init, i), name=f"needle-loader-{i}", daemon=True
            )
            for i in range(count)
        ]
        for thread in threads:
            thread.start()
        self.close = weakref.finalize(self, _end, self._jobs, self._ended, threads, self.process)

    def submit(self, call: Callable[[Job], object]) -> Job:
        """Have the next free worker make a call."""
        job = Job(call, self._ended)
        self._jobs.put(job)
        return job


def _work(
    jobs: queue.SimpleQueue[Job | None], init: Callable[[int], object] | None, number: int
) -> None:
    failed = None
    try:
        if init is not None:
            init(number)
    except BaseException as error:
        failed = error
    while (job := jobs.get()) is not None:
        if failed is None:
            job.run()
        else:
            job.fail(failed)
        del job  # the next one may take long to come


def _end(
    jobs: queue.SimpleQueue[Job | None],
    ended: threading.Event,
    threads: list[threading.Thread],
    process: int,
) -> None:
    if os.getpid() != process:
        return  # a fork's child has none of these threads
    ended.set()
    for _ in threads:
        jobs.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(PATIENCE)


def in_order(
    calls: Iterable[Callable[[Job], object]], workers: Workers, depth: int, close: bool = True
) -> Iterator[object]:
    """The results of the calls in their order; at most `depth` are begun ahead of the consumer."""
    rest = iter(calls)
    begun: deque[Job] = deque()
    try:
        begun.extend(map(workers.submit, islice(rest, depth)))
        while begun:
            if os.getpid() != workers.process:
                raise RuntimeError(
                    "[DataLoader] this pass began before a fork, and its threads are the parent's; "
                    "begin a new pass in the child."
                )
            result = begun[0].result()
            begun.popleft()
            begun.extend(map(workers.submit, islice(rest, 1)))
            yield result
    finally:
        for job in begun:
            job.cancel()
        if close:
            workers.close()
