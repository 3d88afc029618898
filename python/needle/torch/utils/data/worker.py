"""Processes that load data: forked, each with a pipe for orders and one for batches."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .... import torch

__all__ = ["Worker", "WorkerInfo", "get_worker_info"]


@dataclass
class WorkerInfo:
    """What a worker knows of itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None
END = "there is no more"


def get_worker_info() -> WorkerInfo | None:
    """In a worker, what it knows of itself; None in the main process."""
    return _info


@dataclass
class Failure:
    """An error in a worker."""

    kind: type[BaseException]
    text: str

    def reraise(self) -> None:
        """The same error here, with what the worker said."""
        try:
            error = self.kind(self.text)
        except TypeError:
            raise RuntimeError(self.text) from None
        raise error


class Worker:
    """One process."""

    def __init__(
        self, info: WorkerInfo, fetch: Callable[[], Callable[[Any], Any]], init: Any, context: Any
    ) -> None:
        how = context or "fork"
        if isinstance(how, str):
            how = multiprocessing.get_context(how)
        pipe: Any = how.Pipe()
        self.orders, theirs = pipe
        self.process = how.Process(
            target=_serve, args=(theirs, self.orders, info, fetch, init), daemon=True
        )
        self.process.start()
        theirs.close()

    def ask(self, order: Any) -> None:
        """Let it load a batch."""
        self.orders.send(order)

    def take(self, timeout: float) -> Any:
        """The next batch."""
        if timeout and not self.orders.poll(timeout):
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        try:
            found = pickle.loads(self.orders.recv_bytes())
        except EOFError:
            raise RuntimeError(
                f"DataLoader worker (pid {self.process.pid}) exited unexpectedly"
            ) from None
        if isinstance(found, Failure):
            found.reraise()
        return found

    def stop(self) -> None:
        """End the process."""
        self.orders.close()
        self.process.join(timeout=1)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()


def _serve(orders: Any, other_end: Any, info: WorkerInfo, fetch: Any, init: Any) -> None:
    """What runs in the process: batches for orders, until the other end is closed."""
    global _info
    other_end.close()
    _info = info
    torch.set_num_threads(1)
    random.seed(info.seed)
    torch.manual_seed(info.seed)
    np.random.seed(_numpy_seed(info))
    try:
        if init is not None:
            init(info.id)
        load = fetch()
    except Exception as error:
        load = _failing(error, info)
    while True:
        try:
            order = orders.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        try:
            answer = load(order)
        except Exception as error:
            answer = _failure(error, info)
        orders.send_bytes(pickle.dumps(answer))


def _numpy_seed(info: WorkerInfo) -> list[int]:
    """Four words from the seed and the worker's number."""
    return [int(word) for word in np.random.SeedSequence([info.seed, info.id]).generate_state(4)]


def _failure(error: Exception, info: WorkerInfo) -> Failure:
    text = "".join(traceback.format_exception(error))
    where = f"Caught {type(error).__name__} in DataLoader worker process {info.id}."
    return Failure(type(error), f"{where}\nOriginal {text}")


def _failing(error: Exception, info: WorkerInfo) -> Callable[[Any], Any]:
    failure = _failure(error, info)
    return lambda order: failure
